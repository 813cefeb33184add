package attack

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/internal/keyed"
	"fedpace/internal/portable"
)

// sent returns the update that a client with attack a sends in place of an honest one. It changes update.
func sent(a Attack, update ...float32) []float32 {
	BehaviourOf(a).Update(update, 7)
	return update
}

func TestAttack_UpdatesAreMultiplied(t *testing.T) {
	for _, test := range []struct {
		attack Attack
		want   []float32
	}{
		{SignFlip{Factor: 1}, []float32{-1, 2, 0}},
		{SignFlip{Factor: 2.5}, []float32{-2.5, 5, 0}},
		{Scale{Factor: 10}, []float32{10, -20, 0}},
		{LabelFlip{Map: "reverse", Factor: 3}, []float32{3, -6, 0}},
	} {
		if diff := cmp.Diff(test.want, sent(test.attack, 1, -2, 0)); diff != "" {
			t.Errorf("%+v: %s", test.attack, diff)
		}
	}
	if (LabelFlip{Map: "next", Factor: 1}).Behaviour().Update != nil {
		t.Error("an update is changed that is multiplied by 1")
	}
}

func TestAttack_Labels(t *testing.T) {
	for _, test := range []struct {
		flip LabelFlip
		want []int32
	}{
		{LabelFlip{Map: "reverse"}, []int32{4, 3, 2, 1, 0}},
		{LabelFlip{Map: "next"}, []int32{1, 2, 3, 4, 0}},
		{LabelFlip{Map: "one", Source: 3, Target: 1}, []int32{0, 1, 2, 1, 4}},
	} {
		var got []int32
		for y := range int32(5) {
			got = append(got, test.flip.Behaviour().Label(y, 5))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v: %s", test.flip, diff)
		}
	}
}

// Noise is normal with the deviation that its options say, and another for each key.
func TestAttack_Noise(t *testing.T) {
	const n = 100_000
	draw := func(key uint64) []float32 { return drawn(n, key) }
	honest := draw(1)
	norm := math.Sqrt(portable.Square(honest))
	for _, test := range []struct {
		noise Noise
		std   float64
	}{
		{Noise{Size: 3, By: "update"}, 3 * norm / math.Sqrt(n)},
		{Noise{Size: 0.25, By: "value"}, 0.25},
	} {
		update := slices.Clone(honest)
		test.noise.Behaviour().Update(update, 7)
		sum, squares, within := 0.0, 0.0, 0
		for i, u := range update {
			z := (float64(u) - float64(honest[i])) / test.std
			sum += z
			squares += z * z
			if math.Abs(z) < 1 {
				within++
			}
		}
		// Five standard deviations of the mean, of the mean square and of the share.
		if math.Abs(sum/n) > 5/math.Sqrt(n) || math.Abs(squares/n-1) > 5*math.Sqrt(2.0/n) || math.Abs(float64(within)/n-0.6827) > 5*0.47/math.Sqrt(n) {
			t.Errorf("%+v: mean %g, mean square %g, %d of %d within one deviation", test.noise, sum/n, squares/n, within, n)
		}
		again, other := slices.Clone(honest), slices.Clone(honest)
		test.noise.Behaviour().Update(again, 7)
		test.noise.Behaviour().Update(other, 8)
		if !slices.Equal(update, again) || slices.Equal(update, other) {
			t.Errorf("%+v: one key gives two noises, or two keys one", test.noise)
		}
	}
}

// drawn returns an update of n values, each from -0.4 to 0.6, drawn with a key.
func drawn(n int, key uint64) []float32 {
	u := make([]float32, n)
	for i := range u {
		u[i] = float32(keyed.Float64(keyed.Nth(key, uint64(i))) - 0.4)
	}
	return u
}

// Three colluders on a line, worked out by hand: updates 0, 1 and 5 have the mean 2 and reach
// 5, so none may be farther than 5 from the last: all directions lead down to 0.
func TestAttack_MinMaxOnLine(t *testing.T) {
	for _, direction := range []string{"unit", "std", "sign"} {
		got := []float32{9}
		MinMax{Direction: direction}.collude(got, [][]float32{{0}, {1}, {5}})
		if math.Abs(float64(got[0])) > 1e-6 {
			t.Errorf("%s: %g, want 0", direction, got)
		}
	}
}

// The update is the one that the authors' search finds, which halves an interval, and lies as
// far out as honest ones: no farther, and no less.
func TestAttack_MinMaxPublished(t *testing.T) {
	const n = 300
	for colluders := 2; colluders <= 6; colluders++ {
		var honest [][]float32
		for c := range colluders {
			honest = append(honest, drawn(n, uint64(100*colluders+c)))
		}
		for _, direction := range []string{"unit", "std", "sign"} {
			m := MinMax{Direction: direction}
			got := make([]float32, n)
			m.collude(got, honest)
			farthest, reach := 0.0, 0.0
			for i, u := range honest {
				farthest = max(farthest, math.Sqrt(portable.SquaredDistance(got, u)))
				for _, v := range honest[:i] {
					reach = max(reach, math.Sqrt(portable.SquaredDistance(u, v)))
				}
			}
			if math.Abs(farthest/reach-1) > 1e-6 {
				t.Errorf("%d colluders, %s: %g from an honest update, which are %g apart", colluders, direction, farthest, reach)
			}
			want := authors(honest, direction, reach)
			for i := range got {
				if math.Abs(float64(got[i])-want[i]) > 1e-5 {
					t.Fatalf("%d colluders, %s: parameter %d is %g, want %g", colluders, direction, i, got[i], want[i])
				}
			}
		}
	}
}

// authors returns the update that colluders send by algorithm 1 of Shejwalkar and Houmansadr. Its search
// for γ halves its step each time, and goes forward where the update is near enough to the honest ones,
// and back where it is not. reach is the distance that counts as near enough.
func authors(honest [][]float32, direction string, reach float64) []float64 {
	n := len(honest[0])
	mean, away := make([]float64, n), make([]float64, n)
	norm := 0.0
	for i := range n {
		for _, u := range honest {
			mean[i] += float64(u[i]) / float64(len(honest))
		}
		norm += mean[i] * mean[i]
	}
	for i := range n {
		switch direction {
		case "unit":
			away[i] = -mean[i] / math.Sqrt(norm)
		case "sign":
			away[i] = -math.Copysign(1, mean[i])
		case "std":
			squares := 0.0
			for _, u := range honest {
				squares += (float64(u[i]) - mean[i]) * (float64(u[i]) - mean[i])
			}
			away[i] = -math.Sqrt(squares / float64(len(honest)-1))
		}
	}
	at := func(gamma float64) (x []float64, far float64) {
		for i := range n {
			x = append(x, mean[i]+gamma*away[i])
		}
		for _, u := range honest {
			d := 0.0
			for i := range n {
				d += (x[i] - float64(u[i])) * (x[i] - float64(u[i]))
			}
			far = max(far, math.Sqrt(d))
		}
		return x, far
	}
	gamma, good := 50.0, 0.0
	for step := gamma; step > 1e-9; step /= 2 {
		if _, far := at(gamma); far <= reach {
			good, gamma = gamma, gamma+step/2
		} else {
			gamma -= step / 2
		}
	}
	x, _ := at(good)
	return x
}

// One colluder, or equal ones, have no distance to hide in, and send the honest mean.
func TestAttack_MinMaxWithoutRoom(t *testing.T) {
	for _, honest := range [][][]float32{{{1, 2}}, {{1, 2}, {1, 2}}, {{0, 0}, {0, 0}}} {
		for _, direction := range []string{"unit", "std", "sign"} {
			got := []float32{9, 9}
			MinMax{Direction: direction}.collude(got, honest)
			if diff := cmp.Diff(honest[0], got); diff != "" {
				t.Errorf("%s of %v: %s", direction, honest, diff)
			}
		}
	}
	if a := (MinMax{Known: 16}).Behaviour(); a.MaxColluders != 16 || a.Collude == nil {
		t.Errorf("%+v", a)
	}
}

// A client without an attack does nothing else.
func TestAttack_Honest(t *testing.T) {
	if a := BehaviourOf(nil); a.Label != nil || a.Update != nil || a.Loss != nil || a.Time != nil || a.Collude != nil {
		t.Errorf("%+v", a)
	}
}

// Bagdasaryan et al. 2020, eq. 3: where n updates are summed and weighted by the server rate over N, an
// attacker with the factor N/rate replaces the global model by its own, if the other clients have
// converged and send no change.
func TestScale_ReplacesModel(t *testing.T) {
	const clients = 40
	const rate = 0.5
	base := []float32{1, -2, 0.5}
	attacker := []float32{3, 0, -1}
	update := make([]float32, len(base))
	for i := range update {
		update[i] = attacker[i] - base[i]
	}
	for i, u := range sent(Scale{Factor: clients / rate}, update...) {
		next := base[i] + rate/clients*u
		if math.Abs(float64(next-attacker[i])) > 1e-6 {
			t.Errorf("value %d of the next model is %g, want the attacker's %g", i, next, attacker[i])
		}
	}
}
