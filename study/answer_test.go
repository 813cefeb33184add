package study

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
	"fedpace/learn/metric"
)

// endings are runs of schedules that ended with these accuracies, in the order of their seeds. The first
// schedule is the reference.
func endings(schedules []string, tails ...[]float64) *Comparison {
	c := &Comparison{Plan: Plan{Seeds: len(tails[0])}, Reference: schedules[0]}
	for s, name := range schedules {
		for i, tail := range tails[s] {
			cell := Cell{Schedule: name, Config: config.Config{Seed: uint64(i + 1)}}
			cell.Summary = folder.Summary{VirtualSeconds: 10, Metrics: []folder.Metric{{Name: metric.Accuracy}}}
			cell.Tail = tail
			cell.TimeToLevel = math.NaN()
			cell.quality = metric.Metric{Name: metric.Accuracy}
			c.Runs = append(c.Runs, cell)
		}
	}
	seeds := len(tails[0])
	for i := seeds; i < len(c.Runs); i++ {
		c.Runs[i].reference = &c.Runs[i%seeds]
	}
	return c
}

// The intervals are worked out with Student's t: of the differences 0.03, 0.04, 0.05 the standard error is
// 0.01/√3, t(2) = 4.303, and half of the interval 0.0248; t = 6.93 has p = 0.020.
func TestAnswer_InWords(t *testing.T) {
	both := []string{"fixed", "rounds"}
	three := []string{"fixed", "rounds", "step"}
	half := []float64{0.5, 0.5, 0.5}
	cases := map[string]struct {
		comparison *Comparison
		headline   string
		details    []string
	}{
		"above": {
			endings(both, half, []float64{0.53, 0.54, 0.55}),
			"rounds ends 0.040 ± 0.025 above fixed in tail accuracy, which is better (Holm's p = 0.02, 3 seeds).",
			nil,
		},
		"below": {
			endings(both, half, []float64{0.47, 0.46, 0.45}),
			"rounds ends 0.040 ± 0.025 below fixed in tail accuracy, which is worse (Holm's p = 0.02, 3 seeds).",
			nil,
		},
		"no difference": {
			endings(both, half, []float64{0.51, 0.5, 0.49}),
			"No difference between rounds and fixed is seen in tail accuracy (0.000 ± 0.025, 3 seeds); " +
				"effects above ±0.025 are unlikely.",
			nil,
		},
		"one seed": {
			endings(both, half[:1], []float64{0.53}),
			"rounds ends 0.03 above fixed in tail accuracy; one seed decides nothing.",
			nil,
		},
		"the same": {
			endings(both, half, half),
			"rounds ends exactly as fixed does in tail accuracy with each of 3 seeds.",
			nil,
		},
		"all seeds agree": {
			endings(both, half, []float64{0.75, 0.75, 0.75}),
			"rounds ends 0.25 above fixed in tail accuracy with each of 3 seeds, which leaves no interval.",
			nil,
		},
		// Of two tests Holm doubles the smaller p: 0.04 is below 0.05.
		"several": {
			endings(three, half, []float64{0.53, 0.54, 0.55}, []float64{0.51, 0.5, 0.49}),
			"rounds ends 0.040 ± 0.025 above fixed in tail accuracy, which is better (Holm's p = 0.04, 3 seeds).",
			[]string{"1 other comparison with fixed shows no difference in tail accuracy."},
		},
		"two seen": {
			endings(three, half, []float64{0.53, 0.54, 0.55}, []float64{0.47, 0.46, 0.45}),
			"Of 2 comparisons with fixed in tail accuracy, 1 ends better, 1 worse, and 0 show no difference.",
			[]string{
				"rounds ends 0.040 ± 0.025 above fixed in tail accuracy, which is better (Holm's p = 0.04, 3 seeds).",
				"step ends 0.040 ± 0.025 below fixed in tail accuracy, which is worse (Holm's p = 0.04, 3 seeds).",
			},
		},
		// a has t = 12.1 and p = 0.0067, of which Holm's is four times as much. b and c have t = 5.74 and
		// p = 0.029, of which it is three times as much: their intervals exclude zero all the same.
		"one seen, two by chance": {
			endings([]string{"fixed", "a", "b", "c", "d"}, half, []float64{0.53, 0.535, 0.54}, []float64{0.53, 0.54, 0.555},
				[]float64{0.53, 0.54, 0.555}, []float64{0.51, 0.5, 0.49}),
			"a ends 0.035 ± 0.012 above fixed in tail accuracy, which is better (Holm's p = 0.027, 3 seeds).",
			[]string{
				"1 other comparison with fixed shows no difference in tail accuracy.",
				"b ends 0.042 ± 0.031 above fixed in tail accuracy, which may be chance (Holm's p = 0.087, 3 seeds).",
				"c ends 0.042 ± 0.031 above fixed in tail accuracy, which may be chance (Holm's p = 0.087, 3 seeds).",
			},
		},
		// All three have p = 1 - t/√(t² + 2) = 0.0202 with t = 6.93, of which Holm's p is three times as much.
		"may be chance": {
			endings([]string{"fixed", "a", "b", "c"}, half, []float64{0.53, 0.54, 0.55}, []float64{0.53, 0.54, 0.55},
				[]float64{0.53, 0.54, 0.55}),
			"Of 3 comparisons with fixed, none shows a difference in tail accuracy; effects above ±0.065 are unlikely.",
			[]string{
				"a ends 0.040 ± 0.025 above fixed in tail accuracy, which may be chance (Holm's p = 0.061, 3 seeds).",
				"b ends 0.040 ± 0.025 above fixed in tail accuracy, which may be chance (Holm's p = 0.061, 3 seeds).",
				"c ends 0.040 ± 0.025 above fixed in tail accuracy, which may be chance (Holm's p = 0.061, 3 seeds).",
			},
		},
		"one schedule": {
			endings([]string{"fixed"}, half),
			"One schedule is compared with nothing: --schedules fixed,rounds sets two side by side, and fedpace tune " +
				"compares settings of one schedule for equal time.",
			nil,
		},
		"nothing evaluated": {
			endings(both, []float64{math.NaN()}, []float64{math.NaN()}),
			"No two runs with the same seed have a tail accuracy, by which schedules are compared.",
			nil,
		},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			table := want.comparison.Table()
			got := table.answer(table.Differences())
			if got.Headline != want.headline {
				t.Errorf("the headline is\n%s\nwant\n%s", got.Headline, want.headline)
			}
			if strings.Join(got.Details, "\n") != strings.Join(want.details, "\n") {
				t.Errorf("the details are %q, want %q", got.Details, want.details)
			}
		})
	}
}

// What is said of the effects that are unlikely holds for each of them: bounds are rounded up.
func TestAnswer_BoundsAreRoundedUp(t *testing.T) {
	for v, want := range map[float64]string{0.0621: "0.063", 0.06: "0.06", 0.0999: "0.1", 12.01: "13", 3.1e-7: "3.1e-07"} {
		if got := roundedUp(v); got != want {
			t.Errorf("%v is at most %s, want %s", v, got, want)
		}
	}
}

// Each number that a page draws is the difference between two rows of runs.csv, and each that it writes
// stands in compare.txt.
func TestWebpage_NumbersOfFiles(t *testing.T) {
	plan := smallSweep(t)
	cells, err := sweep(t.Context(), plan, Options{})
	if err != nil {
		t.Fatal(err)
	}
	comparison := &Comparison{Plan: plan, Runs: cells, Reference: "fixed"}
	if err := comparison.measure(); err != nil {
		t.Fatal(err)
	}
	document, err := comparison.Webpage()
	if err != nil {
		t.Fatal(err)
	}
	var page webpage
	if err := json.Unmarshal(document, &page); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), RunsFile)
	if err := atomicfile.Write(path, comparison.Table().WriteRuns); err != nil {
		t.Fatal(err)
	}
	rows, _ := readRows(t, path)
	tails := map[string]float64{}
	for _, row := range rows {
		tails[strings.Join([]string{row["schedule"], row["seed"], row[plan.Grids[0].Key]}, " ")] = row.number("tail_validation_accuracy")
	}
	var text strings.Builder
	if err := comparison.Write(&text); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for i, difference := range page.Comparisons[0].Rows {
		for _, written := range []string{difference.Value, difference.Text, difference.Verdict, difference.P} {
			if !strings.Contains(text.String(), written) {
				t.Errorf("%q is not in compare.txt", written)
			}
		}
		_, value, _ := strings.Cut(page.Rows[i].Point, "=")
		for _, seed := range difference.Seeds {
			if difference.Against == "" {
				continue
			}
			pair := fmt.Sprintf(" %d %s", seed.Seed, value)
			want := tails[page.Rows[i].Schedule+pair] - tails[difference.Against+pair]
			if *seed.Value != want {
				t.Errorf("%s with seed %d differs by %v, in runs.csv by %v", page.Rows[i].Name, seed.Seed, *seed.Value, want)
			}
			seen++
		}
	}
	if seen == 0 {
		t.Error("no difference is shown")
	}
}
