package actors

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/actors/attack"
	"fedpace/actors/attack/attacktest"
	"fedpace/algorithm"
	"fedpace/internal/keyed"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// besieged returns a problem with an attack of each kind that a trainer knows, and its base model. Class 0 is
// honest.
func besieged(t testing.TB, a algorithm.Algorithm) (Problem, []float32) {
	t.Helper()
	model, set, base := world(t)
	return Problem{
		Model: model, Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: a, Kernel: fastest(t),
		Attacks: []attack.Attack{
			nil, attack.SignFlip{Factor: 2}, attack.Noise{Size: 1, By: "update"}, attack.LabelFlip{Map: "reverse", Factor: 1},
			attack.Scale{Factor: 4}, attacktest.FalseLoss{Exponent: 1, Offset: 7}, attack.MinMax{Direction: "std", Known: 3}, attacktest.Late{Factor: 2},
		},
	}, base
}

// The numbers of the attackers in jobs.
const (
	honest = iota
	ofClass0
	flipsSigns
	makesNoise
	flipsLabels
	scales
	lies
	colludes
	dawdles
)

// trainerFor returns a trainer of problem p, which is closed at the end of the test.
func trainerFor(t testing.TB, p Problem) *Trainer {
	t.Helper()
	w, err := NewTrainer(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// trained trains some tasks and returns the sum of their updates and the losses that they reported.
func trained(t testing.TB, w *Trainer, base []float32, work ...Assignment) ([]int64, []float64) {
	t.Helper()
	sum := make([]int64, len(base))
	outcomes, err := w.Train(t.Context(), base, nil, work, sum)
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for _, o := range outcomes {
		losses = append(losses, o.FirstStepLoss)
	}
	return sum, losses
}

// task returns a task of a client whose attack has the number attacker; honest stands for none. The task has the
// client's number.
func task(client, attacker int) Assignment {
	return Assignment{Task: uint64(client), Client: client, LocalSteps: 3, Rate: 0.1, Weight: 0.25, Attacker: attacker}
}

// updateOf returns the update that the client of task a sends if it is honest.
func updateOf(t testing.TB, w *Trainer, base []float32, a Assignment) []float32 {
	t.Helper()
	a.Attacker = honest
	update, _, _, err := w.Local(t.Context(), base, a)
	if err != nil {
		t.Fatal(err)
	}
	for i := range update {
		update[i] -= base[i]
	}
	return update
}

// exactSum returns what an update of weight 0.25 adds to an exact sum.
func exactSum(base, update []float32) []int64 {
	sum := make([]int64, len(base))
	for i, u := range update {
		sum[i] = int64(math.RoundToEven(0.25 * (float64(base[i]+u) - float64(base[i])) * (1 << 44)))
	}
	return sum
}

// What attackers send is what their attack makes of their honest updates, and they tell the
// loss that an honest client would.
func TestAttackers_Updates(t *testing.T) {
	p, base := besieged(t, algorithm.Default)
	w := trainerFor(t, p)
	for attacker, want := range map[int]func(u []float32, a *Assignment){
		ofClass0:   nil,
		dawdles:    nil,
		flipsSigns: func(u []float32, _ *Assignment) { scaled(u, -2) },
		scales:     func(u []float32, _ *Assignment) { scaled(u, 4) },
		makesNoise: func(u []float32, a *Assignment) {
			attack.Noise{Size: 1, By: "update"}.Behaviour().Update(u, keyed.Hash(1, keyed.Attack, uint64(a.Client), a.Task))
		},
	} {
		a := task(5, attacker)
		u := updateOf(t, w, base, a)
		got, losses := trained(t, w, base, a)
		sum, told := trained(t, w, base, task(5, honest))
		if want != nil {
			want(u, &a)
			sum = exactSum(base, u)
		}
		if !slices.Equal(got, sum) {
			t.Errorf("attacker %d sends something else", attacker)
		}
		if losses[0] != told[0] {
			t.Errorf("attacker %d tells the loss %g, an honest client %g", attacker, losses[0], told[0])
		}
	}
}

// scaled multiplies a vector by a factor, in place.
func scaled(u []float32, by float32) {
	for i := range u {
		u[i] *= by
	}
}

// A liar's update is honest. In a loss query it lies, too, and there nothing is sent.
func TestAttackers_LiarsTellAnotherLoss(t *testing.T) {
	p, base := besieged(t, algorithm.Default)
	w := trainerFor(t, p)
	got, told := trained(t, w, base, task(5, lies))
	want, _ := trained(t, w, base, task(5, honest))
	if told[0] != 7 || !slices.Equal(got, want) {
		t.Errorf("it tells %g, want 7, or its update is not the honest one", told)
	}
	query := task(5, lies)
	query.Weight, query.LocalSteps = 0, 1
	loud := query
	loud.Attacker = makesNoise
	sum, told := trained(t, w, base, query, loud)
	if told[0] != 7 || slices.ContainsFunc(sum, func(x int64) bool { return x != 0 }) {
		t.Errorf("the query is answered %g, want 7, or something is sent", told)
	}
}

// Local steps on reversed labels, written out.
func TestAttackers_LabelsAreFlipped(t *testing.T) {
	p, base := besieged(t, algorithm.Default)
	a := task(5, flipsLabels)
	local, step := slices.Clone(base), p.Model.(learn.Model).NewWorkspace(32, p.Kernel)
	first := 0.0
	minibatches(t, p.Set, a, func(k int, b *learn.Batch) {
		for i, y := range b.Labels {
			b.Labels[i] = 61 - y
		}
		loss, err := step.Step(local, b, float32(a.Rate))
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 {
			first = loss
		}
	})
	want := make([]int64, len(base))
	if bad := learn.AddExact(want, a.Weight, local, base); bad >= 0 {
		t.Fatal(bad)
	}
	got, told := trained(t, trainerFor(t, p), base, a)
	if told[0] != first || !slices.Equal(got, want) {
		t.Errorf("the loss is %g, want %g, or the update is another", told, first)
	}
}

// roundOfColluders returns five tasks, of which three are of colluders that know each other.
func roundOfColluders() []Assignment {
	work := []Assignment{task(3, honest), task(4, colludes), task(5, colludes), task(6, honest), task(7, colludes)}
	known := []Assignment{work[1], work[2], work[4]}
	for _, i := range []int{1, 2, 4} {
		work[i].Colluders = known
	}
	return work
}

// All colluders send one update, made of the honest ones of all of them; however the tasks
// are cut into jobs, and whoever does them, the sum is the same.
func TestAttackers_ColludersSendOneUpdate(t *testing.T) {
	for _, rule := range []algorithm.Algorithm{algorithm.Default, algorithm.Scaffold{Rate: 1}} {
		p, base := besieged(t, rule)
		var shared *Shared
		length := len(base)
		work := roundOfColluders()
		if rule != algorithm.Default {
			shared, length = &Shared{Weight: 0.1}, 2*len(base)
		}
		sumOf := func(w *Trainer, base []float32, jobs ...[]Assignment) []int64 {
			sum := make([]int64, length)
			for _, job := range jobs {
				if _, err := w.Train(t.Context(), base, shared, job, sum); err != nil {
					t.Fatal(err)
				}
			}
			return sum
		}
		whole := sumOf(trainerFor(t, p), base, work)
		one := trainerFor(t, p)
		if got := sumOf(one, base, work[4:], work[:2], work[2:4]); !slices.Equal(got, whole) {
			t.Error("three jobs of one worker come to another sum")
		}
		for i := range work {
			alone := sumOf(trainerFor(t, p), base, work[i:i+1])
			for j, x := range alone {
				whole[j] -= x
			}
		}
		if slices.ContainsFunc(whole, func(x int64) bool { return x != 0 }) {
			t.Error("five workers come to another sum")
		}
		// The worker that has made a plot makes another of another model.
		other := slices.Clone(base)
		other[0] += 0.5
		if !slices.Equal(sumOf(one, other, work), sumOf(trainerFor(t, p), other, work)) {
			t.Error("a worker keeps to a plot of another model")
		}
		if shared != nil {
			continue
		}
		var updates [][]float32
		for _, c := range work[1].Colluders {
			updates = append(updates, updateOf(t, one, base, c))
		}
		sent := make([]float32, len(base))
		attack.MinMax{Direction: "std", Known: 3}.Behaviour().Collude(sent, updates)
		for _, i := range []int{1, 2, 4} {
			if got := sumOf(one, base, work[i:i+1]); !slices.Equal(got, exactSum(base, sent)) {
				t.Errorf("the colluder of task %d sends another update", work[i].Task)
			}
		}
		if honestly, _ := trained(t, one, base, task(4, honest)); slices.Equal(honestly, exactSum(base, sent)) {
			t.Error("the colluders send what an honest client sends: the test says nothing")
		}
	}
}

// Updates are compressed as attackers send them, and what is not trained stays honest.
func TestAttackers_AttacksComeBeforeCompression(t *testing.T) {
	p, base := besieged(t, algorithm.Default)
	p.Compression = algorithm.TopK{Share: 0.01}
	a := task(5, scales)
	plain := p
	plain.Compression = nil
	u := updateOf(t, trainerFor(t, plain), base, a)
	scaled(u, 4)
	for i := range u { // as the difference of two models
		u[i] = (base[i] + u[i]) - base[i]
	}
	p.Compression.Compressor(len(u)).Compress(u, nil)
	want := make([]int64, len(u))
	for i, x := range u {
		want[i] = int64(math.RoundToEven(0.25 * float64(x) * (1 << 44)))
	}
	if got, _ := trained(t, trainerFor(t, p), base, a); !slices.Equal(got, want) {
		t.Error("what is sent is not the compressed attack")
	}
}

// A job that names attackers whom a trainer does not know is refused, and so are colluders
// with minibatches that it has no room for. Colluders' steps can diverge.
func TestAttackers_ImpossibleOptions(t *testing.T) {
	p, base := besieged(t, algorithm.Default)
	w := trainerFor(t, p)
	large, lost := task(4, honest), slices.Clone(base)
	large.Batch, lost[0] = 10_000, float32(math.NaN())
	among := task(5, colludes)
	among.Colluders = []Assignment{large}
	beside := task(5, colludes)
	beside.Colluders = []Assignment{task(4, honest)}
	for _, test := range []struct {
		a    Assignment
		base []float32
		want string
	}{
		{task(5, 9), base, "task 5: attacker of class 9 of 8"},
		{task(5, -1), base, "task 5: attacker of class -1 of 8"},
		{among, base, "task 4: minibatches of 10000 samples, at most 32"},
		{beside, lost, "diverged: task 4, client 4"},
	} {
		_, err := w.Train(t.Context(), test.base, nil, []Assignment{test.a}, make([]int64, len(base)))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// A trainer in another process takes honest steps, and the attack is done here.
func TestAttackers_WithExternalTrainer(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	p, base := besieged(t, algorithm.Default)
	here, there := both(t, p)
	work := append(roundOfColluders(), task(8, flipsSigns), task(9, makesNoise), task(10, scales), task(11, lies))
	want, toldHere := trained(t, here, base, work...)
	got, toldThere := trained(t, there, base, work...)
	if !slices.Equal(got, want) || !slices.Equal(toldHere, toldThere) {
		t.Errorf("another sum, or other losses: %v, %v", toldHere, toldThere)
	}
}
