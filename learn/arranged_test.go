package learn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/internal/kernel"
)

// arrangedModels have a first layer that can be arranged: of whole vectors and of others, with and without
// a ReLU and layers behind it, and behind a flatten.
var arrangedModels = []string{
	"mlp:784,200,200,62", "mlp:70,27,5", "mlp:33,64,7", "mlp:9,40", "mlp:20,430,3",
	"layers:image=1x6x7,classes=4;flatten,dense(30),dropout(0.5),dense(20),relu,dense(4)",
	"layers:values=12,targets=16;dense(16)",
}

// A minibatch after the other leads a model to the same bits in either order of its parameters, and what
// is not said to have changed has not.
func TestArranged_SameBits(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		if !isa.Arranges() {
			t.Log("products alone are in assembly: nothing is arranged")
			return
		}
		rapid.Check(t, func(rt *rapid.T) {
			const most = 70
			m := parse(t, rapid.SampledFrom(arrangedModels).Draw(rt, "model"))
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
			params := make([]float32, m.Params())
			m.Init(params, 1)
			plain, arranged := on(m, most, isa), NewArranged(m, most, Kernel{isa})
			values := make([]float32, arranged.Len())
			for i := range values {
				values[i] = float32(math.NaN()) // whatever was there
			}
			arranged.Arrange(values, params)
			base := slices.Clone(values)
			for range rapid.IntRange(1, 4).Draw(rt, "steps") {
				batch := randomBatch(m, rapid.IntRange(1, most).Draw(rt, "samples"), r)
				percent := rapid.SampledFrom([]int{0, 10, 40, 100}).Draw(rt, "percent of values that are not 0")
				for i := range batch.X {
					if r.IntN(100) >= percent {
						batch.X[i] = 0
					}
				}
				scores := [2][]Score{make([]Score, len(m.Metrics())), make([]Score, len(m.Metrics()))}
				want, err := plain.Evaluate(params, batch, scores[0])
				if err != nil {
					rt.Fatal(err)
				}
				got, err := arranged.Evaluate(values, batch, scores[1])
				if err != nil || got != want || !slices.Equal(scores[0], scores[1]) {
					rt.Fatalf("%v: loss %v with %v, want %v with %v (%v)", m, got, scores[1], want, scores[0], err)
				}
				want, _ = plain.Step(params, batch, 0.3)
				got, err = arranged.Step(values, batch, 0.3)
				if err != nil || got != want {
					rt.Fatalf("%v: a step from %v, want %v (%v)", m, got, want, err)
				}
				again := make([]float32, len(values))
				arranged.Arrange(again, params)
				if !slices.Equal(again, values) {
					rt.Fatalf("%v: a step leads elsewhere", m)
				}
			}
			for start, end := range arranged.Changed() {
				copy(base[start:end], values[start:end])
			}
			if !slices.Equal(base, values) {
				rt.Fatalf("%v: a value changed that was not said to", m)
			}
		})
	})
}

// The update of a client whose last step adds it in part is the difference of its values, whether it is its only
// step or not.
func TestArranged_LastStep(t *testing.T) {
	everyISA(t, func(t *testing.T, isa kernel.ISA) {
		if !isa.Arranges() {
			t.Log("products alone are in assembly: nothing is arranged")
			return
		}
		rapid.Check(t, func(rt *rapid.T) {
			const most = 70
			// Between a step in one pass and two blocks there are few sizes.
			samples := rapid.OneOf(rapid.IntRange(1, most), rapid.IntRange(25, 32))
			m := parse(t, rapid.SampledFrom(append(arrangedModels,
				"mlp:30,40,24,32,5", "layers:values=40,classes=4;dense(48),relu,dense(48),layer_norm,relu,dense(4)",
			)).Draw(rt, "model"))
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
			params := make([]float32, m.Params())
			m.Init(params, 1)
			plain, arranged := NewArranged(m, most, Kernel{isa}), NewArranged(m, most, Kernel{isa})
			base := make([]float32, arranged.Len())
			arranged.Arrange(base, params)
			values := slices.Clone(base)
			sum, want := make([]int64, len(base)), make([]int64, len(base))
			for range 3 { // clients
				stepped := slices.Clone(base)
				rate := rapid.SampledFrom([]float32{0.3, 0.3, 30, 1e6, 1e8}).Draw(rt, "rate")
				steps := rapid.IntRange(1, 3).Draw(rt, "steps")
				added := true
				for k := range steps {
					batch := randomBatch(m, samples.Draw(rt, "samples"), r)
					percent := rapid.SampledFrom([]int{0, 10, 40, 100}).Draw(rt, "percent of values that are not 0")
					for i := range batch.X {
						if r.IntN(100) >= percent {
							batch.X[i] = 0
						}
					}
					wantLoss, _ := plain.Step(stepped, batch, rate)
					var loss float64
					if k < steps-1 {
						loss, _ = arranged.Step(values, batch, rate)
					} else {
						loss, added, _ = arranged.LastStep(values, base, batch, rate, sum, 0.3)
					}
					if math.Float64bits(loss) != math.Float64bits(wantLoss) {
						rt.Fatalf("%v: a step from %v, want %v", m, loss, wantLoss)
					}
				}
				for start, end := range arranged.Changed() {
					added = added && AddExactAndReset(sum[start:end], 0.3, values[start:end], base[start:end]) < 0
				}
				if bad := AddExact(want, 0.3, stepped, base); (bad < 0) != added {
					rt.Fatalf("%v: the update is added: %v, and value %d is refused", m, added, bad)
				}
				if !added {
					return
				}
				if !slices.Equal(sum, want) || !slices.Equal(values, base) {
					rt.Fatalf("%v: another sum, or values that are not those of the base", m)
				}
			}
		})
	})
}

// A sum of arranged values is that of the parameters in their places, and places lead back.
func TestArranged_Sums(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := parse(t, rapid.SampledFrom(arrangedModels).Draw(rt, "model"))
		arranged := NewArranged(m, 1, Kernel{})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		want, params := make([]int64, m.Params()), make([]float32, m.Params())
		for i := range want {
			want[i] = r.Int64N(1 << 20)
			params[i] = float32(i + 1)
		}
		values := make([]float32, arranged.Len())
		arranged.Arrange(values, params)
		sum, moved := make([]int64, len(want)), make([]int64, len(values))
		for i, v := range values {
			// Padding is zero.
			if v == 0 {
				continue
			}
			place := arranged.Place(i)
			if params[place] != v {
				rt.Fatalf("%v: value %d lies at %d, which has %v, want %v", m, i, place, params[place], v)
			}
			moved[i] = want[place] - 1
			sum[place] = 1
		}
		arranged.AddTo(sum, moved)
		if !slices.Equal(sum, want) {
			rt.Fatalf("%v: another sum", m)
		}
		if slices.ContainsFunc(moved, func(v int64) bool { return v != 0 }) {
			rt.Fatalf("%v: the arranged sum was not cleared", m)
		}
	})
}

// Models whose first layer has no rows of inputs to choose from, or not all of whose parameters train,
// are not arranged.
func TestArranged_OtherModels(t *testing.T) {
	for _, spec := range []string{
		"linear:5000,2", "gru:80,79,8,16,2", "mlp:20,3", "cnn:3x32x32,8,8,16,10",
		"layers:values=12,classes=16;dense(16),batch_norm,relu,dense(16)",
		"layers:values=12,classes=16;dense(16,frozen),relu,dense(16)",
	} {
		if NewArranged(parse(t, spec), 4, Kernel{}) != nil {
			t.Errorf("%s is arranged", spec)
		}
	}
}
