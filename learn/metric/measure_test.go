package metric

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var two = []Metric{{Name: "mae", Lower: true}, {Name: Accuracy}}

func TestQualityOf_Names(t *testing.T) {
	for _, test := range []struct {
		list []Metric
		name string
		want Quality
	}{
		{two, "", Quality{Metric{"mae", true}, 0}},
		{two, Accuracy, Quality{Metric{Accuracy, false}, 1}},
		{two, Loss, Quality{Metric{Loss, true}, -1}},
		{nil, "", Quality{Metric{Loss, true}, -1}},
	} {
		if got, err := QualityOf(test.list, test.name); err != nil || got != test.want {
			t.Errorf("%v, %q: %+v, %v, want %+v", test.list, test.name, got, err, test.want)
		}
	}
	if _, err := QualityOf(two, "f1"); err == nil || !strings.Contains(err.Error(), `"f1" is not measured; the model has mae, accuracy, loss`) {
		t.Error(err)
	}
}

func TestMetric_Better(t *testing.T) {
	nan := math.NaN()
	low, high := two[0], two[1]
	for _, test := range []struct {
		m    Metric
		a, b float64
		want bool
	}{
		{low, 1, 2, true}, {low, 2, 1, false}, {low, 1, 1, false}, {high, 2, 1, true}, {high, 1, 2, false}, {high, 1, 1, false},
		{low, 1, nan, true}, {high, 1, nan, true}, {low, nan, 1, false}, {high, nan, 1, false}, {low, nan, nan, false},
	} {
		if got := test.m.Better(test.a, test.b); got != test.want {
			t.Errorf("%s: %v is better than %v: %v", test.m.Name, test.a, test.b, got)
		}
	}
	if !low.Reaches(1, 1) || low.Reaches(1.1, 1) || !high.Reaches(1, 1) || high.Reaches(0.9, 1) || low.Reaches(nan, 1) || high.Reaches(nan, 1) {
		t.Error("a target is reached in the wrong direction")
	}
	if low.Error(3) != 3 || high.Error(0.75) != 0.25 {
		t.Errorf("errors %v and %v", low.Error(3), high.Error(0.75))
	}
}

func TestQuality_Values(t *testing.T) {
	q := Quality{two[1], 1}
	if v := q.ValueIn(9, []float64{3, 0.5}); v != 0.5 {
		t.Errorf("the accuracy is %v", v)
	}
	if v := q.ValueIn(9, nil); v == v {
		t.Errorf("an accuracy that was not measured is %v", v)
	}
	if v := (Quality{Index: -1}).ValueIn(9, nil); v != 9 {
		t.Errorf("the loss is %v", v)
	}
	if got := Shown(two, q); !slices.Equal(got, []Quality{q, {two[0], 0}}) {
		t.Errorf("shown are %v", got)
	}
	if got := Shown(two, Quality{Index: -1}); len(got) != 3 || got[2] != q {
		t.Errorf("shown are %v", got)
	}
	for _, bad := range [][]float64{nil, {1}, {1, 0.5, 1}, {math.Inf(1), 0.5}, {1, math.NaN()}, {1, 1.5}, {1, -0.5}} {
		if Check(two, bad) == nil {
			t.Errorf("%v are taken", bad)
		}
	}
	if err := Check(two, []float64{-7, 1}); err != nil {
		t.Error(err)
	}
}

func TestMetric_Names(t *testing.T) {
	if err := CheckNames(append(slices.Clone(two), Metric{Name: "F1_macro"})); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", Loss, "round", "mae", "a b", "a,b", "a\"", "é", strings.Repeat("a", 41)} {
		if err := CheckNames(append(slices.Clone(two), Metric{Name: bad})); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Titles are written as the field writes them.
func TestTitle_Metrics(t *testing.T) {
	for name, want := range map[string]string{Loss: "validation loss", "balanced_accuracy": "balanced accuracy", "f1_macro": "F1 (macro)", "auroc": "AUROC", "r2": "R²"} {
		if got := Title(name); got != want {
			t.Errorf("%s is called %q, want %q", name, got, want)
		}
	}
}
