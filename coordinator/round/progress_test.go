package round

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// spy notes what it is told and gives 3, 2, 1 steps. It reads everything.
type spy struct{ told *[]schedule.Progress }

// Needs asks for the share of stragglers.
func (s spy) Needs() schedule.Needs { return schedule.Needs{Stragglers: true} }

// LocalSteps notes the progress that the schedule was given, and returns 3, 2 and 1 steps in rounds 1 to 3.
func (s spy) LocalSteps(p schedule.Progress) int {
	*s.told = append(*s.told, p)
	return 4 - p.Round
}

// Three rounds of the clients 0 to 3, of whom client c takes 10(c+1) units: the median
// is at 25, the slowest at 40. The losses of round r are 1/r in the mean, of the
// clients 1 + lossOf.
func TestProgress_OfSchedules(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Train, c.Evaluate.Every, c.Stop = 4, 4, closing.All{}, true, 2, Limits{Rounds: 3}
	c.Eta = schedule.ExpressionEta{Formula: "eta0 / r"}
	c.Window = schedule.WindowConfig{Size: 1, FirstRound: true}
	losses := []float64{}
	for client := range 4 {
		losses = append(losses, 1+lossOf(Task{Client: client}))
	}
	trimmed := schedule.TrimmedMean(losses, 0.25)
	for _, test := range []struct {
		loss        schedule.Loss
		second      float64 // F_2; NaN: not known
		third, base float64 // F_3 and F_0
	}{
		{schedule.Loss{}, 1, 0.5, 1},
		{schedule.Loss{Trim: 0.25}, trimmed, trimmed, trimmed},
		{schedule.Loss{Validation: true}, math.NaN(), 1, 1}, // measured after round 2, and it is 1
	} {
		var told []schedule.Progress
		c.K, c.Loss = spy{&told}, test.loss
		play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan { return Plan{Compute: Time(10 * (x.Client + 1))} })
		want := []schedule.Progress{
			{Round: 1, Loss: math.NaN(), StragglerShare: math.NaN(), LearningRate: 0.5},
			{
				Round: 2, Share: 1.0 / 3, Seconds: 40e-9, Loss: test.second, LossRatio: 1, HasLoss: true, F0: test.base, StragglerShare: 15.0 / 40,
				Previous: schedule.Decision{LocalSteps: 3, LearningRate: 0.5}, LearningRate: 0.25,
			},
			{
				Round: 3, Share: 2.0 / 3, Seconds: 80e-9, Loss: test.third, LossRatio: test.third / test.base, HasLoss: true, F0: test.base, StragglerShare: 15.0 / 40,
				Accuracy: 0.5, HasAccuracy: true,
				Previous: schedule.Decision{LocalSteps: 2, LearningRate: 0.25, Seconds: 40e-9}, LearningRate: 0.5 / 3,
			},
		}
		for i := range want {
			want[i].Setup = c.Setup
		}
		if test.second != test.second {
			want[1].LossRatio, want[1].HasLoss, want[1].F0 = 0, false, 0
		}
		if diff := cmp.Diff(want, told, cmp.Comparer(func(a, b float64) bool { return a == b || a != a && b != b })); diff != "" {
			t.Errorf("%+v: told otherwise (- wanted, + told): %s", test.loss, diff)
		}
	}
}

// A client takes as many passes over its samples as K says, each of whole minibatches.
func TestEpochs_AreWholePasses(t *testing.T) {
	for _, test := range []struct {
		k       int
		samples float64
		want    int
	}{
		{1 * schedule.Parts, 10, 1},
		{1 * schedule.Parts, 11, 2},
		{5 * schedule.Parts, 30, 15},
		{5 * schedule.Parts, 31, 20}, // five passes of four steps
		{3 * schedule.Parts, 4, 3},   // three passes of one step
		{500, 30, 2},                 // half a pass of three steps
		{1, 30, 1},
		{5 * schedule.Parts, 0, 1},
		{1 << 30, 1e12, schedule.MaxK0 + 1},
	} {
		if got := (schedule.Epochs{Batch: 10}).Steps(test.k, test.samples); got != test.want {
			t.Errorf("%d thousandths of an epoch of %v samples: %d steps, want %d", test.k, test.samples, got, test.want)
		}
	}
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Stop = 4, 4, closing.All{}, Limits{Rounds: 2}
	c.Samples, c.Epochs = func(client int) int { return 10 * client }, schedule.Epochs{Batch: 5, Samples: 15}
	c.Setup.K0 = 2 * schedule.Parts
	steps := map[int]int{}
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		steps[x.Client] = x.LocalSteps
		return Plan{Compute: Time(x.LocalSteps)}
	})
	if diff := cmp.Diff(map[int]int{0: 1, 1: 4, 2: 8, 3: 12}, steps); diff != "" {
		t.Error(diff)
	}
	if got := reports[0].LocalSteps; got != 6 { // of a client of mean size
		t.Errorf("the report says %d steps", got)
	}
	c.Epochs.PerClient = func(client int) int { return []int{0, 10, 20, 1}[client] }
	play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		steps[x.Client] = x.LocalSteps
		return Plan{Compute: Time(x.LocalSteps)}
	})
	if diff := cmp.Diff(map[int]int{0: 1, 1: 2, 2: 2, 3: 60}, steps); diff != "" {
		t.Errorf("minibatches of clients' own sizes: %s", diff)
	}
}

// Where a formula gives no K the run's end says why.
func TestProgress_FormulasWithoutK(t *testing.T) {
	const formula = "schedule of K in round 1: the formula "
	for text, want := range map[string]string{
		"log(-r)":   formula + "log(-r) is not a number, want 1 to 1073741824",
		"k0/(r-1)":  formula + "k0/(r-1) is infinite, want 1 to 1073741824",
		"k0 * 1e12": formula + "k0 * 1e12 is 8e+12, want 1 to 1073741824",
		"2e7":       "schedule gives 20000000 local steps in round 1, want 1 to 16777216",
	} {
		c := config()
		c.K = schedule.ExpressionK{Formula: text}
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Step(&Event{Kind: Started}); err == nil || err.Error() != "round: "+want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
