package statistics

import (
	"math"
	"testing"
)

// TestRank_ScipyValues holds both correlations against scipy 1.16 (kendalltau and spearmanr), with a
// tie in each list, and the intervals against Bonett and Wright's formulas worked by hand.
func TestRank_ScipyValues(t *testing.T) {
	x := []float64{0.31, 0.52, 0.11, 0.93, 0.74, 0.25, 0.66, 0.66, 0.48}
	y := []float64{12, 17, 11, 30, 21, 14, 14, 25, 16.5}
	for name, c := range map[string]struct{ got, want Correlation }{
		"Kendall":  {Kendall(x, y), Correlation{0.7428571428571428, 0.3604394425647983, 0.9114894973016806}},
		"Spearman": {Spearman(x, y), Correlation{0.8529411764705884, 0.3207041851772688, 0.9758036802501213}},
	} {
		t.Run(name, func(t *testing.T) {
			near := func(a, b float64) bool { return math.Abs(a-b) < 1e-10 }
			if !near(c.got.Value, c.want.Value) || !near(c.got.Low, c.want.Low) || !near(c.got.High, c.want.High) {
				t.Errorf("%+v, want %+v", c.got, c.want)
			}
		})
	}
}

// TestRank_Ends has lists in the same and in the opposite order, lists without an order, and too few.
func TestRank_Ends(t *testing.T) {
	up := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	down := []float64{8, 7, 6, 5, 4, 3, 2, 1}
	flat := []float64{2, 2, 2, 2, 2, 2, 2, 2}
	for name, f := range map[string]func(x, y []float64) Correlation{"Kendall": Kendall, "Spearman": Spearman} {
		t.Run(name, func(t *testing.T) {
			if c := f(up, up); c.Value != 1 || c.High != 1 || c.Low <= 0 || c.Low >= 1 {
				t.Errorf("the same order: %+v", c)
			}
			if c := f(up, down); c.Value != -1 || c.Low != -1 || c.High >= 0 || c.High <= -1 {
				t.Errorf("the opposite order: %+v", c)
			}
			if c := f(up, flat); !math.IsNaN(c.Value) || !math.IsNaN(c.Low) || !math.IsNaN(c.High) {
				t.Errorf("no order: %+v", c)
			}
			if c := f(up[:4], up[:4]); c.Value != 1 || !math.IsNaN(c.Low) {
				t.Errorf("four pairs: %+v", c)
			}
		})
	}
}
