package schedule

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// window returns an empty window of losses.
func window(c WindowConfig) *Window {
	w := NewWindow(c)
	return &w
}

// Eq. 15 with a window of 3: the ratio that round r uses, by the losses of the
// rounds before it.
func TestEquation15(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		name   string
		config WindowConfig
		losses []float64 // of rounds 1, 2, ...
		want   []float64 // F_r/F_0 for rounds 1, 2, ...; NaN: K_r = K_0
	}{
		{"F_0 of the first window", WindowConfig{Size: 3}, []float64{8, 6, 4, 5, 0, 1}, []float64{none, none, none, 1, 5. / 6, 0.5, 2. / 6}},
		{"F_0 of the first round", WindowConfig{Size: 3, FirstRound: true}, []float64{8, 6, 4, 5, 0, 1}, []float64{none, none, none, 6. / 8, 5. / 8, 3. / 8, 2. / 8}},
		{"it can exceed 1", WindowConfig{Size: 1}, []float64{2, 8}, []float64{none, 1, 4}},
		{"a round without a loss is left out", WindowConfig{Size: 3}, []float64{8, none, 4, 5}, []float64{none, none, none, 1, 4.5 / 6}},
		{"the first round has none", WindowConfig{Size: 2, FirstRound: true}, []float64{none, 4, 2}, []float64{none, none, 1, 0.75}},
		{"a window without any", WindowConfig{Size: 2}, []float64{4, 4, none, none, 2}, []float64{none, none, 1, 1, none, 0.5}},
		{"the first window has none", WindowConfig{Size: 2}, []float64{none, none, 4, 2}, []float64{none, none, none, 1, 0.75}},
		{"never a loss", WindowConfig{Size: 2}, []float64{none, none, none}, []float64{none, none, none, none}},
		{"F_0 of zero has no ratio", WindowConfig{Size: 1}, []float64{0, 1}, []float64{none, none, none}},
	} {
		w := window(c.config)
		for r, want := range c.want {
			got, ok := w.Ratio()
			if ok == math.IsNaN(want) || ok && math.Abs(got-want) > 1e-15 {
				t.Errorf("%s: round %d has F_r/F_0 = %v (%v), want %v", c.name, r+1, got, ok, want)
			}
			if r < len(c.losses) {
				w.Observe(c.losses[r])
			}
		}
	}
}

func TestMean_PartWindow(t *testing.T) {
	w := window(WindowConfig{Size: 100})
	if !math.IsNaN(w.Mean()) {
		t.Error("a mean before any round")
	}
	w.Observe(3)
	w.Observe(5)
	if got := w.Mean(); got != 4 {
		t.Errorf("mean %v, want 4", got)
	}
}

// For the first s rounds K_r = K_0, below Eq. 15; then Eq. 13 on Eq. 15.
func TestKError_Window(t *testing.T) {
	w := window(WindowConfig{Size: 2})
	var got []int
	for r, loss := range []float64{9, 7, 1, 1, 1} {
		ratio, ok := w.Ratio()
		got = append(got, kIn(ErrorK{}, Setup{K0: 80}).LocalSteps(Progress{Round: r + 1, LossRatio: ratio, HasLoss: ok}))
		w.Observe(loss)
	}
	if diff := cmp.Diff([]int{80, 80, 80, 64, 40}, got); diff != "" { // ratios -, -, 1, 1/2, 1/8
		t.Error(diff)
	}
}

func TestPlateau(t *testing.T) {
	for _, c := range []struct {
		name   string
		config PlateauConfig
		errors []float64
		want   int // evaluation at which it has converged, from 1; 0: never
	}{
		{"still improving", PlateauConfig{Patience: 2}, []float64{5, 4, 3, 2, 1}, 0},
		{"flat from the start", PlateauConfig{Patience: 2}, []float64{5, 5, 5, 5}, 3},
		{"worse", PlateauConfig{Patience: 2}, []float64{5, 4, 6, 7}, 4},
		{"patience not used up", PlateauConfig{Patience: 3}, []float64{5, 6, 6, 4, 6, 6}, 0},
		{"better than the last, not than the best", PlateauConfig{Patience: 2}, []float64{5, 4, 9, 8}, 4},
		{"improvements below min_delta", PlateauConfig{Patience: 2, MinDelta: 1}, []float64{5, 4.5, 4.25}, 3},
		{"which add up to more", PlateauConfig{Patience: 2, MinDelta: 1}, []float64{5, 4.25, 3.5, 2.75, 2.25}, 0},
		{"converged for good", PlateauConfig{Patience: 1}, []float64{5, 5, 1, 0.5}, 2},
	} {
		p := NewPlateau(c.config)
		for i, e := range c.errors {
			p.Observe(e)
			if got, want := p.Converged, c.want > 0 && i+1 >= c.want; got != want {
				t.Errorf("%s: converged is %v after evaluation %d, want %v", c.name, got, i+1, want)
			}
		}
	}
}

// Both go on from their state, through JSON, to the same bits.
func TestState_Continues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wc := WindowConfig{Size: rapid.IntRange(1, 5).Draw(t, "s"), FirstRound: rapid.Bool().Draw(t, "first")}
		pc := PlateauConfig{Patience: rapid.IntRange(1, 4).Draw(t, "patience"), MinDelta: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "min_delta")}
		w := window(wc)
		p := NewPlateau(pc)
		rw, rp := *w, p
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 3), rapid.SampledFrom([]float64{math.NaN(), 1, 0.95})), 0, 30).Draw(t, "values")
		var all []float64
		for _, x := range values {
			all = append(all, x)
			w.Observe(x)
			rw.Observe(x)
			if !math.IsNaN(x) {
				p.Observe(x)
				rp.Observe(x)
			}
			var ws Window
			var ps Plateau
			through(t, rw, &ws)
			through(t, rp, &ps)
			rw, rp = RestoreWindow(wc, ws), RestorePlateau(pc, ps)

			want, wok := w.Ratio()
			got, ok := rw.Ratio()
			if got != want || ok != wok {
				t.Fatalf("ratio %v %v after restoring, want %v %v", got, ok, want, wok)
			}
			if p.Converged != rp.Converged {
				t.Fatalf("converged is %v after restoring", rp.Converged)
			}

			// The mean is over what the last s rounds have, no more.
			sum, n := 0.0, 0
			for _, x := range all[max(0, len(all)-wc.Size):] {
				if !math.IsNaN(x) {
					sum, n = sum+x, n+1
				}
			}
			if mean := w.Mean(); math.IsNaN(mean) != (n == 0) || n > 0 && mean != sum/float64(n) {
				t.Fatalf("mean %v of the last rounds, want %v", mean, sum/float64(n))
			}
		}
	})
}

// through encodes from and decodes it into to.
func through(t *rapid.T, from, to any) {
	b, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

// What is observed later does not reach a copy.
func TestState_CopyStays(t *testing.T) {
	w := window(WindowConfig{Size: 2})
	p := NewPlateau(PlateauConfig{Patience: 1})
	for i := range 3 {
		w.Observe(float64(9 - i))
		p.Observe(float64(9 - i))
	}
	ws, ps := *w, p
	for range 9 {
		w.Observe(1)
		p.Observe(1)
	}
	wantW := Window{Rounds: 3, Recent: []RoundLoss{{2, 8}, {3, 7}}, F0: 8.5, HasF0: true}
	if diff := cmp.Diff(wantW, ws, cmpopts.IgnoreUnexported(Window{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Plateau{Best: []float64{8, 7}}, ps, cmpopts.IgnoreUnexported(Plateau{})); diff != "" {
		t.Error(diff)
	}
}
