package schedule

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// round8 is a round in which everything is known.
var round8 = Progress{
	Setup: Setup{K0: 80, Eta0: 0.4},
	Round: 8, Seconds: 30, HasLoss: true, Loss: 0.5, F0: 4, LossRatio: 0.125, HasAccuracy: true, Accuracy: 0.75, Converged: true,
	StragglerShare: 0.25, Previous: Decision{LocalSteps: 12, LearningRate: 0.2}, LearningRate: 0.1,
}

// Values worked out by hand for round8 with K_0 = 80 and eta_0 = 0.4.
func TestFormula_Worked(t *testing.T) {
	for text, want := range map[string]float64{
		"r":                               8,
		"t / 3":                           10,
		"cbrt(F / F0) * k0":               40, // Eq. 13
		"k0 * cbrt(1/r)":                  40, // Eq. 10
		"k0 * (F/F0) ** (1/3)":            40,
		"sqrt(F / F0 * 8) * k0":           80,
		"2 ** 3 ** 2":                     512, // powers are right-associative
		"4 ^ 0.5 * 9 ^ 0.5":               6,
		"(1 + 1) ** r":                    256,
		"accuracy * k":                    9,
		"converged ? 1 : k0":              1,
		"if converged { 3 } else { 4 }":   3,
		"!converged or r >= 9 ? 1 : 2":    2,
		"not converged and r == 8 ? 1:2":  2,
		"(1 - straggler_share) * k0":      60,
		"let x = r / 2; x * x":            16,
		"max(1, k0 - 10 * r)":             1,
		"min(r, t, 5.5)":                  5.5,
		"abs(-3) + floor(2.7)":            5,
		"ceil(2.1) + round(2.5)":          6,
		"exp(0) + log(1) + cos(0)":        2,
		"cos(pi)":                         -1,
		"pow(eta0 / eta, 2)":              16,
		"-cbrt(-27)":                      3,
		"1e3":                             1000,
		"0x10":                            16,
		"7":                               7,
		"r != 8 || r < 9 && r <= 8 ? 5:6": 5,
	} {
		f, err := compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, known := f.value(&round8); got != want || !known {
			t.Errorf("%s = %v, %v, want %v", text, got, known, want)
		}
	}
}

// A formula that cannot be used is refused with the character at which it is wrong.
func TestFormula_Refused(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "character 1: ",
		"k0 /":                         "character 4: ",
		"sqrt(now())":                  "character 6: unknown name now",
		"$env.r + r":                   "character ",
		"k0 + loss":                    "character 6: unknown name loss (a formula may name F, F0, abs, accuracy, cbrt, ceil, converged, cos, eta, eta0, exp, floor, k, k0, log, max, min, pi, pow, r, round, sqrt, straggler_share, t)",
		"k0 * now()":                   "character 6: unknown name now",
		"k0 * random()":                "character 6: unknown name random",
		"k0 + (r":                      "character 7: ",
		"'a'":                          "character 1: a formula has numbers",
		"k0 + len(r)":                  "character 6: unknown name len",
		"[1, 2][0]":                    "character ",
		"{a: 1}.a":                     "character ",
		"1..1000000":                   "character ",
		"sum(1..9)":                    "character ",
		"max([1, 2])":                  "character 5: unexpected [",
		"r % 2":                        "character 3: ",
		"k0 // r":                      "character 4: // is no operator of a formula",
		"r in [1]":                     "character ",
		"r > 3":                        "",
		"converged":                    "",
		"converged + 1":                "character 11: invalid operation",
		"converged ? 1 : false":        "",
		"$env.r":                       "character ",
		"r.x":                          "character ",
		"r ?? 1":                       "character ",
		"sqrt(1, 2)":                   "character ",
		"sqrt(converged)":              "character ",
		"r matches 'a'":                "character ",
		"filter([1], {# > 0})":         "character ",
		"let r = 1; r":                 "character ",
		strings.Repeat("(", 600) + "r": "",
		strings.Repeat("r ", 1000):     "2000 characters are too many (at most 1000)",
	} {
		_, err := compile(text)
		if err == nil || !strings.HasPrefix(err.Error(), "formula: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
			t.Errorf("%.40q: %v, want an error about the formula that says %q", text, err, want)
		}
	}
}

// Whatever is written, a formula is refused by name or has a value.
func TestFormula_AnyText(t *testing.T) {
	word := rapid.SampledFrom(append(strings.Fields("+ - * / ** ^ < <= > >= == != && || and or ! not r t F F0 k0 eta converged pi 1 2.5 1e400 ( ) , ? : ; { } [ ] # . .. $env let if else x = ?? % in | 'a' \"b\" `c` // /* */ \\ é 0x 1_0 nil true not"), "abs", "ceil", "floor", "round", "sqrt(", "pow(", "now()"))
	values := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 0, 9).Draw(t, "words"), rapid.SampledFrom([]string{" ", ""}).Draw(t, "between"))
		f, err := compile(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "formula: ") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		f.value(&round8)
		values++
	})
	if values == 0 && !testing.Short() {
		t.Error("no text is a formula")
	}
}

// What a formula gives that is no number of steps is told with what would be one.
func TestFormula_NoSteps(t *testing.T) {
	for formula, want := range map[string]string{
		"log(-r)":            "the formula log(-r) is not a number, want 1 to 1073741824",
		"max(1, log(-r))":    "the formula max(1, log(-r)) is not a number, want 1 to 1073741824",
		"min(7, r, log(-r))": "the formula min(7, r, log(-r)) is not a number, want 1 to 1073741824",
		"log(r - 1)":         "the formula log(r - 1) is minus infinity, want 1 to 1073741824",
		"1 / (r-1)":          "the formula 1 / (r-1) is infinite, want 1 to 1073741824",
		"2e9":                "the formula 2e9 is 2e+09, want 1 to 1073741824",
		"-7":                 "",
	} {
		k := kIn(ExpressionK{Formula: formula}, Setup{K0: 80, Eta0: 1})
		err := ExpressionK{Formula: formula}.Check(Progress{Round: 1})
		if steps := k.LocalSteps(Progress{Round: 1}); (err == nil) != (want == "") || err != nil && err.Error() != want || (steps >= 1 && steps <= MaxK0) != (err == nil) {
			t.Errorf("%s: %d steps, %v, want %q", formula, steps, err, want)
		}
	}
}

// A schedule that promises to stay at or below K_0 does, whatever it is told.
func TestFormula_NeverExceedsK0(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k0 := rapid.IntRange(1, 200).Draw(t, "K_0")
		setup := Setup{K0: k0, Eta0: 1, Theory: Theory{Factor: rapid.Float64Range(1e-3, 1e6).Draw(t, "factor")}}
		p := Progress{Round: 2, HasLoss: true, LossRatio: rapid.Float64Range(0, 50).Draw(t, "ratio"), Converged: rapid.Bool().Draw(t, "converged")}
		p.Loss, p.Seconds, p.Previous = p.LossRatio, rapid.Float64Range(0, 1e4).Draw(t, "seconds"), Decision{LocalSteps: rapid.IntRange(1, k0).Draw(t, "last K")}
		for _, s := range []K{AdaComm{Seconds: 1, Gamma: 1}, TheoryK{}, StepK{}, ErrorK{}} {
			k := kIn(s, setup)
			if got := k.LocalSteps(p); AtMostK0(s) && got > k0 {
				t.Fatalf("%T: K = %d, K_0 is %d", s, got, k0)
			}
		}
	})
	if k := (ErrorK{}); AtMostK0(k) || AtMostK0(ExpressionK{}) || !AtMostK0(StepK{}) {
		t.Error("Table 3's schedule follows the loss above K_0, too, and formulas go anywhere")
	}
}
