package study

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/runtest"
)

// stepsOf are the values of K of a cell's rounds.
func stepsOf(t *testing.T, c *Cell) (steps []int) {
	t.Helper()
	for r, err := range c.Run().Follow() {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, r.LocalSteps)
	}
	return steps
}

// With devices that are alike the controls have as many rounds and steps as the schedule, in the same
// time; two of them have its values of K.
func TestControls_EqualWork(t *testing.T) {
	c := runtest.Small(t, "task=sent140", "train=false", "schedule.k0=20", "stop.rounds=30")
	r, err := Run(t.Context(), Plan{Load: StaticLoad(c), Schedules: []string{"dsgd", "fixed", "rounds"}, Controls: Kinds}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	epochs := c
	epochs.Schedule.Unit = config.Epochs
	if _, err := Run(t.Context(), Plan{Load: StaticLoad(epochs), Schedules: []string{"fixed", "rounds"}, Controls: Kinds}, Options{}); err == nil || !strings.Contains(err.Error(), "schedule.unit: clients whose K counts epochs") {
		t.Errorf("controls of epochs: %v", err)
	}
	if len(r.Runs) != 6 {
		t.Fatalf("%d runs, want those of three schedules and of three controls", len(r.Runs))
	}
	of := &r.Runs[2]
	want := stepsOf(t, of)
	for i, kind := range []string{constantK, reversedK, shuffledK} {
		c := &r.Runs[3+i]
		steps := stepsOf(t, c)
		if c.Schedule != "rounds-"+kind || c.controlled != of || c.Summary.SGDSteps != of.Summary.SGDSteps || c.Summary.Rounds != of.Summary.Rounds {
			t.Errorf("%s: %d steps in %d rounds, want %d in %d", c.Schedule, c.Summary.SGDSteps, c.Summary.Rounds, of.Summary.SGDSteps, of.Summary.Rounds)
		}
		switch kind {
		case constantK:
			if low, high := slices.Min(steps), slices.Max(steps); high-low > 1 {
				t.Errorf("a constant K is %d to %d", low, high)
			}
		case reversedK:
			slices.Reverse(steps)
		case shuffledK:
			if slices.Equal(steps, want) {
				t.Error("a shuffled K is in the order of the schedule")
			}
			slices.Sort(steps)
			slices.Reverse(steps)
		}
		if kind != constantK && !slices.Equal(steps, want) {
			t.Errorf("%s: K is %v, want the values %v", kind, steps, want)
		}
	}
	if one, err := Controls(r.Runs[1:3], constantK); err != nil || len(one) != 1 || one[0].Schedule != "rounds-"+constantK {
		t.Errorf("of one kind: %d controls, %v", len(one), err)
	}
	if again := shuffled(want, of.Config.Seed); !slices.Equal(again, shuffled(want, of.Config.Seed)) || slices.Equal(again, shuffled(want, of.Config.Seed+1)) {
		t.Error("the seed does not draw the order")
	}
	long := shuffled(make([]int, 10*maxBlocks+1), 1)
	if len(long) != 10*maxBlocks+1 {
		t.Errorf("%d values are left of %d", len(long), 10*maxBlocks+1)
	}
	if decays([]int{4, 4, 4}) || decays([]int{1, 2, 3}) || !decays([]int{3, 2, 1}) {
		t.Error("what decays is not what becomes less")
	}
}

// A gain that a constant K has, too, is one of less work; one that neither that nor another order of
// the values has is one of decay; and one between them is decided by nothing.
func TestDifference_DecidedBy(t *testing.T) {
	const gain = 10
	for want, gains := range map[string]map[string]float64{
		"less work":   {constantK: gain, reversedK: gain, shuffledK: gain},
		"decay":       {constantK: 0, reversedK: -gain, shuffledK: 0},
		"not decided": {constantK: 0, reversedK: 0, shuffledK: gain},
	} {
		c := planted(rand.New(rand.NewPCG(7, 7)), 12, gain)
		random := rand.New(rand.NewPCG(8, 8))
		seeds := len(c.Runs) / 2
		c.Runs = slices.Grow(c.Runs, 3*seeds)
		for _, kind := range []string{constantK, reversedK, shuffledK} {
			for i := range seeds {
				own := c.Runs[seeds+i]
				own.Control, own.Schedule, own.controlled = kind, "rounds-"+kind, &c.Runs[seeds+i]
				own.Tail += gains[kind] - gain + 0.3*random.NormFloat64()
				c.Runs = append(c.Runs, own)
			}
		}
		d := c.Table().Differences()
		if d[0].Verdict() != "better" || d[0].Decided != want {
			t.Errorf("%v: %s, decided by %q, want %q", gains, d[0].Verdict(), d[0].Decided, want)
		}
		for _, control := range d[2:] {
			if control.Against != "rounds" || control.Decided != "" {
				t.Errorf("%s against %s is decided by %q", control.Row.Schedule, control.Against, control.Decided)
			}
		}
	}
}
