package paper

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/statistics"
)

// seeds are curves of one schedule with the given tail accuracies, by seed from 1.
func seeds(schedule string, accuracies ...float64) (list []Curve) {
	for i, a := range accuracies {
		list = append(list, Curve{Task: "femnist", Data: "x", Schedule: schedule, Seed: uint64(i + 1), Completed: true, TailAccuracy: a, BestAccuracy: a,
			VirtualSeconds: 100, RelativeSteps: math.NaN(), Points: []Point{{VirtualSeconds: 10, BestAccuracy: a / 2}, {VirtualSeconds: 100, BestAccuracy: a}}})
	}
	return list
}

// decided is the verdict on a claim that rounds has more of a quantity than fixed.
func decided(t *testing.T, change func(*Claim), curves ...[]Curve) Verdict {
	t.Helper()
	c := Claim{Statement: "s", Folder: "w", Quantity: "tail_accuracy", Schedule: "rounds", Against: "fixed", Expect: "more"}
	if change != nil {
		change(&c)
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	var all []Curve
	for _, list := range curves {
		all = append(all, list...)
	}
	v, err := c.measure(all)
	if err != nil {
		t.Fatal(err)
	}
	list := []Verdict{v}
	decideAll(list)
	return list[0]
}

// Differences 0.01, 0.02 and 0.03: mean 0.02, standard error 0.01/sqrt(3), and t of two degrees of
// freedom is 4.3027 (0.975), so that the interval is 0.02 ± 0.02484: zero is in it. The pairs are
// those of seeds: a fourth run of one schedule alone counts nothing. With one run there is no interval.
func TestVerdicts_ArePaired(t *testing.T) {
	fixed := seeds("fixed", 0.5, 0.7, 0.6)
	v := decided(t, nil, seeds("rounds", 0.51, 0.72, 0.63, 0.1), fixed)
	if v.N != 3 || v.Seeds != 4 || v.seedsText() != "3 of 4" || math.Abs(v.Mean-0.02) > 1e-12 || math.Abs(v.Half-0.024841) > 1e-5 || v.Decision != Undecided {
		t.Errorf("%+v", v)
	}
	better := seeds("rounds", 0.519, 0.72, 0.621)
	if v := decided(t, nil, better, fixed); v.Decision != Yes {
		t.Errorf("0.019, 0.020 and 0.021 more: %+v", v)
	}
	shuffled := []Curve{fixed[2], fixed[0], fixed[1]}
	if v := decided(t, nil, better, shuffled); v.Decision != Yes {
		t.Errorf("pairs are those of places, not of seeds: %+v", v)
	}
	if v := decided(t, nil, better, fixed[1:]); v.N != 2 || v.Seeds != 3 || math.Abs(v.Mean-0.0205) > 1e-12 {
		t.Errorf("a seed that fixed lacks counts, or moves the others: %+v", v)
	}
	if v := decided(t, nil, better); v.N != 0 || v.seedsText() != "0 of 3" || v.Decision != Undecided {
		t.Errorf("without the other schedule: %+v", v)
	}
	if v := decided(t, nil, seeds("rounds", 0.75, 0.5), seeds("fixed", 0.5, 0.25)); v.Half != 0 || v.Decision != Undecided {
		t.Errorf("two differences that happen to be equal decide: %+v", v)
	}
	if v := decided(t, nil, seeds("rounds", 0.5, math.NaN(), 0.7), seeds("fixed", 0.4, 0.3, 0.5)); v.N != 2 || v.Seeds != 3 {
		t.Errorf("a run without an evaluation counts: %+v", v)
	}
	c := Claim{Statement: "s", Folder: "w", Quantity: "tail_accuracy", Schedule: "rounds", Against: "fixed", Expect: "more"}
	if _, err := c.measure(append(seeds("fixed", 1), seeds("fixed", 2)...)); err == nil || !strings.Contains(err.Error(), "several runs of fixed have the seed 1") {
		t.Errorf("two runs with one seed: %v", err)
	}
	if v := decided(t, func(c *Claim) { c.Expect = "less" }, better, fixed); v.Decision != No {
		t.Errorf("0.019, 0.020 and 0.021 more is said to be less: %+v", v)
	}
	if v := decided(t, nil, better[:1], fixed); v.N != 1 || v.Decision != Undecided {
		t.Errorf("one pair: %+v", v)
	}
	cut := seeds("rounds", 0.519, 0.72, 0.621)
	cut[2].Completed = false
	if v := decided(t, nil, cut, fixed); v.N != 2 {
		t.Errorf("a run that was cut counts: %+v", v)
	}
	if v := decided(t, func(c *Claim) { c.Quantity, c.TimeShare = "best_accuracy", 0.5 }, better, fixed); math.Abs(v.Mean-0.01) > 1e-12 {
		t.Errorf("half of the difference after half of the time: %+v", v)
	}
	if v := decided(t, nil, seeds("rounds", 1.1, 1.2, 1, 1.1, 1.2, 1, 1.1, 1.2, 1), seeds("fixed", 1, 1, 1, 1, 1, 1, 1, 1, 1)); v.Decision != Yes || v.SignFlipP != math.Exp2(-5) {
		t.Errorf("of nine pairs three are equal, and two of 64 signs of the others come to as much: %+v", v)
	}
}

// Differences of -0.001, -0.002 and -0.003 are a match within 0.01, as their mean, -0.002, is 0.008 above
// that at a standard error of 0.001/sqrt(3): t is 13.86, p of two degrees of freedom 1 - t/sqrt(t²+2) =
// 0.00517. Within 0.002 nothing is decided, and of 0.03 more they are too little.
func TestVerdicts_WithMargin(t *testing.T) {
	rounds, fixed := seeds("rounds", 0.499, 0.598, 0.697), seeds("fixed", 0.5, 0.6, 0.7)
	for by, want := range map[float64]string{-0.01: Yes, -0.002: Undecided, 0.03: No} {
		v := decided(t, func(c *Claim) { c.Margin = by }, rounds, fixed)
		if v.Decision != want {
			t.Errorf("more than %v: %+v, want %s", by, v, want)
		}
		if by == -0.01 && (math.Abs(v.Adjusted-0.00517) > 1e-5 || v.SignFlipP != 0.25 || !strings.Contains(v.question(), "rounds − fixed, more than -0.01")) {
			t.Errorf("%s: p is %v, by signs %v", v.question(), v.Adjusted, v.SignFlipP)
		}
	}
}

// A mean difference of the training loss that says nothing decides nothing, however sure it is.
func TestVerdict_SmallLosses(t *testing.T) {
	of := func(schedule string, losses ...float64) []Curve {
		list := seeds(schedule, losses...)
		for i, l := range losses {
			list[i].BestLoss = l
		}
		return list
	}
	for want, rounds := range map[string][]Curve{Undecided: of("rounds", 0.5961, 0.4960, 0.3959), Yes: of("rounds", 0.5941, 0.4940, 0.3939)} {
		v := decided(t, func(c *Claim) { c.Quantity, c.Expect = "best_loss", "less" }, rounds, of("fixed", 0.6, 0.5, 0.4))
		if v.Decision != want || v.Adjusted > 0.01 {
			t.Errorf("%v less with p of %v: %s, want %s", -v.Mean, v.Adjusted, v.Decision, want)
		}
	}
}

// A figure of the paper's holds where all of the interval rounds to it; runs without training are exact.
func TestVerdicts_PrintedFigures(t *testing.T) {
	steps := func(data string, values ...float64) []Curve {
		list := seeds("rounds", values...)
		for i := range list {
			list[i].Data, list[i].RelativeSteps = data, values[i]
		}
		return list
	}
	for _, c := range []struct {
		value string
		runs  []Curve
		want  string
	}{
		{"0.21", steps("", 0.2088), Yes},
		{"0.20", steps("", 0.2088), No},
		{"0.21", steps("x", 0.2088), Undecided}, // one seed
		{"0.80", steps("x", 0.801, 0.802, 0.803), Yes},
		{"0.80", steps("x", 0.801, 0.807, 0.803), Undecided},
		{"0.99", steps("x", 0.980, 0.981, 0.982), No},
		{"0.99", steps("x", 0.986, 0.986), Yes}, // counted: no seed changes it
	} {
		v := decided(t, func(q *Claim) { q.Quantity, q.Against, q.Value, q.Expect = "relative_steps", "", c.value, "equal" }, c.runs)
		if v.Decision != c.want {
			t.Errorf("%s beside %v: %+v, want %s", c.value, c.runs[0].RelativeSteps, v, c.want)
		}
	}
}

// Digits are as many as tell an interval's ends from zero. p-values are adjusted among the comparisons
// alone: of two, the smaller one counts twice, and one of 0.05 decides nothing where the other does.
func TestVerdicts_Rows(t *testing.T) {
	narrow := Verdict{Claim: Claim{Against: "fixed", Expect: "more"}, Estimated: statistics.Estimated{Mean: -0.0014, Half: 0.001398, N: 5}, Seeds: 5, SignFlipP: 0.0625, Decision: Undecided}
	list := []Verdict{narrow, {Claim: Claim{Value: "0.2", Expect: "more"}, Estimated: narrow.Estimated}, {Claim: Claim{Against: "fixed", Expect: "more"}, Estimated: statistics.Estimated{Mean: 3, Half: 2.9, N: 5}, Decision: Undecided}}
	decideAll(list)
	if list[0].Decision != Undecided || list[2].Decision != Undecided || list[1].Decision != No {
		t.Errorf("two p-values of %v and %v decide: %s, %s; the value: %s", list[0].P(), list[2].P(), list[0].Decision, list[2].Decision, list[1].Decision)
	}
	list[2].Half = 1
	decideAll(list)
	if list[0].Decision != No || list[2].Decision != Yes {
		t.Errorf("p of %v and %v: %s, %s", list[0].Adjusted, list[2].Adjusted, list[0].Decision, list[2].Decision)
	}
	if list[0].Adjusted != list[0].P() || list[2].Adjusted != 2*list[2].P() || !math.IsNaN(list[1].Adjusted) {
		t.Errorf("p-values are %v, %v and %v", list[0].Adjusted, list[1].Adjusted, list[2].Adjusted)
	}
	if mean, interval, exact, p := list[0].numbers(); mean != "-0.001400" || interval != "-0.002798 to -0.000002" || exact != "0.062*" || p != "0.05" {
		t.Errorf("%s, %s, %s, %s", mean, interval, exact, p)
	}
}

func TestClaim_Refused(t *testing.T) {
	const sound = "- {says: s, where: w, quantity: tail_accuracy, schedule: rounds, than: fixed, expect: more}"
	for want, of := range map[string][2]string{
		"":                               {"", ""},
		"quantity":                       {"tail_accuracy", "speed"},
		"says, where":                    {"where: w, ", ""},
		"either than or value":           {"than: fixed", "than: fixed, value: 0.2"},
		"want more or less":              {"more", "equal"},
		"a share of the virtual time":    {"expect", "at: 0.5, expect"},
		"unknown field":                  {"expect", "expects"},
		"invalid syntax":                 {"than: fixed", "value: a fifth"},
		"by: goes with than":             {"than: fixed", "value: 0.2, by: 0.1"},
		"claim 1, \"s\": expect: \"is\"": {"more", "is"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ClaimsFile), []byte(strings.Replace(sound, of[0], of[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadClaims(dir); (err == nil) != (want == "") || err != nil && !(strings.Contains(err.Error(), want) && strings.Contains(err.Error(), ClaimsFile)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The committed claims are decided from the committed curves, and a terminal gets a row of each.
func TestVerdicts_Committed(t *testing.T) {
	list, err := Verdicts(docs)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	for _, v := range list {
		said[v.Decision]++
		if v.N < 2 && v.Folder != "timing" && v.Decision != Undecided {
			t.Errorf("%s on %s is decided by %d runs", v.Statement, v.Folder, v.N)
		}
	}
	if said[Yes] == 0 || said[No] == 0 || said[Undecided] == 0 {
		t.Errorf("the verdicts are %v", said)
	}
	var terminal bytes.Buffer
	if err := WriteVerdicts(&terminal, list); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(terminal.String(), "\n"); n != len(list)+4 {
		t.Errorf("%d claims have %d lines", len(list), n)
	}
}
