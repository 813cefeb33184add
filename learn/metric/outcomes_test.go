package metric

import (
	_ "embed"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

//go:embed testdata/scikit_learn.json
var scikitLearn []byte

// outcomesCase is what testdata/scikit_learn.py writes: outcomes, and what scikit-learn measures on
// them.
type outcomesCase struct {
	Name    string
	Width   int
	Outputs []float32
	Labels  []int32
	Targets []float32
	Units   []float64
	Want    map[string]float64
}

func (c *outcomesCase) outcomes() *Outcomes {
	return &Outcomes{Width: c.Width, Outputs: c.Outputs, Labels: c.Labels, Targets: c.Targets, Units: c.Units}
}

func cases(t testing.TB) (list []outcomesCase) {
	if err := json.Unmarshal(scikitLearn, &list); err != nil || len(list) == 0 {
		t.Fatal(err)
	}
	return list
}

// Every measure is scikit-learn's to 1e-12, on samples with ties, rare classes and several targets.
func TestOutcomes_MatchScikitLearn(t *testing.T) {
	for _, c := range cases(t) {
		o := c.outcomes()
		for name, want := range c.Want {
			if got := o.Value(name); !(math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))) {
				t.Errorf("%s: %s is %.17g, scikit-learn's %.17g", c.Name, name, got, want)
			}
		}
		if want := len(MeasuresFor(c.Targets != nil)); len(c.Want) != want {
			t.Errorf("%s: %d measures of %d", c.Name, len(c.Want), want)
		}
	}
}

// The order of the samples changes no bit.
func TestOutcomes_OrderDoesNotMatter(t *testing.T) {
	list := cases(t)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(list).Draw(t, "case")
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Perm(c.outcomes().Len())
		mixed := &Outcomes{Width: c.Width, Units: c.Units}
		for _, i := range order {
			one := &Outcomes{Width: c.Width, Units: c.Units, Outputs: c.Outputs[i*c.Width:][:c.Width]}
			if c.Labels != nil {
				one.Labels = c.Labels[i : i+1]
			} else {
				one.Targets = c.Targets[i*c.Width:][:c.Width]
			}
			mixed.Append(one)
		}
		for name := range c.Want {
			if got, want := mixed.Value(name), c.outcomes().Value(name); got != want {
				t.Fatalf("%s of %s: %v in another order, was %v", name, c.Name, got, want)
			}
		}
	})
}

// Measures of few samples, worked by hand.
func TestOutcomes_ByHand(t *testing.T) {
	// Of three samples of class 0 two are found, of one of class 1 none.
	classes := &Outcomes{Width: 2, Outputs: []float32{2, 0, 1, 0, 0, 1, 3, 0}, Labels: []int32{0, 0, 0, 1}}
	// Class 1 has the scores -3 for its own, and -2, -1, 1 for the others: no pair is in order.
	for name, want := range map[string]float64{"majority_share": 0.75, "balanced_accuracy": (2.0 / 3) / 2, "f1_macro": (4.0 / 6) / 2, "auroc": 0} {
		if got := classes.Value(name); math.Abs(got-want) > 1e-15 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// Of many classes the one that was found is kept, and no AUROC follows.
	many := &Outcomes{Width: 1, Outputs: []float32{90, 3, 3}, Labels: []int32{90, 3, 90}}
	if got := many.Value("balanced_accuracy"); got != 0.75 {
		t.Errorf("the balanced accuracy is %v, want 0.75", got)
	}
	// One class alone has no curve.
	alone := &Outcomes{Width: 2, Outputs: []float32{2, 0, 1, 0}, Labels: []int32{0, 0}}
	for _, o := range []*Outcomes{many, alone} {
		if got := o.Value("auroc"); !math.IsNaN(got) {
			t.Errorf("the AUROC is %v, want none", got)
		}
	}
	// A target that does not vary is met, or not.
	for output, want := range map[float32]float64{4: 1, 5: 0} {
		o := &Outcomes{Width: 1, Outputs: []float32{output, 4}, Targets: []float32{4, 4}}
		if got := o.Value("r2"); got != want {
			t.Errorf("R² of a constant target is %v, want %v", got, want)
		}
	}
}

func TestMeasure_Refusals(t *testing.T) {
	for _, c := range []struct {
		name             string
		classes, targets int
		ok               bool
	}{
		{"auroc", 64, 0, true}, {"auroc", 65, 0, false}, {"f1_macro", 65, 0, true}, {"r2", 2, 0, false},
		{"r2", 0, 64, true}, {"r2", 0, 65, false}, {"auroc", 0, 1, false}, {"accuracy", 2, 0, false},
	} {
		if m, err := Measure(c.name, c.classes, c.targets); (err == nil) != c.ok || c.ok && m.Name != c.name {
			t.Errorf("%+v: %v, %v", c, m, err)
		}
	}
}
