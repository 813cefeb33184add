package metrics_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// The index by hand: k of n that share everything have k/n, and {0.9, 0.6, 0.3, 0} has
// 1.8² / (4 (0.81 + 0.36 + 0.09)) = 3.24 / 5.04.
func TestJain_Index(t *testing.T) {
	for _, x := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{0.25}, 1},
		{[]float64{0.5, 0.5, 0.5}, 1},
		{[]float64{0, 0, 0}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{0, 3, 0, 3, 0}, 0.4},
		{[]float64{0.9, 0.6, 0.3, 0}, 9. / 14},
		{[]float64{1, 2, 3, 4}, 100. / 120},
	} {
		if got := metrics.Jain(x.values); math.Abs(got-x.want) > 1e-15 {
			t.Errorf("the index of %v is %g, want %g", x.values, got, x.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 50).Draw(t, "values")
		got := metrics.Jain(values)
		if n := float64(len(values)); !(got >= 1/n-1e-12 && got <= 1) {
			t.Fatalf("the index of %d values is %g", len(values), got)
		}
		for i := range values {
			values[i] *= 0.5 // exact
		}
		if half := metrics.Jain(values); math.Abs(half-got) > 1e-9 {
			t.Fatalf("the index changes with the unit: %g, %g", got, half)
		}
	})
}

// Of 12 clients the worst decile are 2, of 10 and fewer it is 1: the lowest accuracies and,
// by themselves, the highest losses.
func TestFairness(t *testing.T) {
	accuracy := []metric.Metric{{Name: metric.Accuracy}}
	score := func(client int, loss, accuracy float64) metric.ClientScore {
		return metric.ClientScore{Client: client, Samples: client + 1, Loss: loss, Metrics: []float64{accuracy}}
	}
	var scores []metric.ClientScore
	for c, accuracy := range []float64{0.5, 0.75, 0.25, 1, 0.5, 0.75, 0.5, 0.125, 0.5, 0.75, 0.5, 0.375} {
		scores = append(scores, score(c, float64(c)/4, accuracy))
	}
	// The accuracies sum to 6.5 and their squares to 4.15625.
	want := metrics.Fairness{
		Clients: 12, Metrics: []metrics.MetricFairness{{Mean: 6.5 / 12, Worst: (0.125 + 0.25) / 2, Jain: 42.25 / (12 * 4.15625)}}, Loss: 16.5 / 12, WorstLoss: (2.5 + 2.75) / 2,
	}
	if diff := cmp.Diff(want, metrics.FairnessOf(accuracy, scores)); diff != "" {
		t.Error(diff)
	}
	ten := metrics.FairnessOf(accuracy, scores[:10])
	if ten.Metrics[0].Worst != 0.125 || ten.WorstLoss != 2.25 {
		t.Errorf("of ten clients: %+v", ten)
	}
	if one := metrics.FairnessOf(accuracy, scores[:1]); one.Clients != 1 || one.Metrics[0] != (metrics.MetricFairness{Mean: 0.5, Worst: 0.5, Jain: 1}) {
		t.Errorf("of one client: %+v", one)
	}
	// A client that lacks a metric takes no part in its mean: the other 12 are as before, and the worst
	// two of them have 1 and 0.75 of a value that is better lower.
	some := metrics.FairnessOf([]metric.Metric{{Name: "mae", Lower: true}}, append(slices.Clone(scores), score(12, 1, math.NaN())))
	if want := (metrics.MetricFairness{Mean: 6.5 / 12, Worst: 0.875, Jain: 42.25 / (12 * 4.15625)}); some.Metrics[0] != want {
		t.Errorf("one of 13 clients has no value, and the others total %+v, want %+v", some.Metrics[0], want)
	}
	if some.Clients != 13 || some.Loss != 17.5/13 {
		t.Errorf("the loss of 13 clients is that of all: %+v", some)
	}
	none := metrics.FairnessOf(accuracy, []metric.ClientScore{score(0, 2, math.NaN()), score(1, 4, math.NaN())})
	if m := none.Metrics[0]; m.Mean == m.Mean || m.Worst == m.Worst || m.Jain == m.Jain || none.Loss != 3 || none.WorstLoss != 4 {
		t.Errorf("without accuracies: %+v", none)
	}
}
