package combine_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"fedpace/actors"
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/coordinator/schedule"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/learn"
)

// attacks make of what a liar trained what it sends.
var attacks = map[string]func(own []int64, r *rand.Rand){
	"sign flip": func(own []int64, _ *rand.Rand) { multiply(own, -5) },
	"scale":     func(own []int64, _ *rand.Rand) { multiply(own, 100) },
	"noise": func(own []int64, r *rand.Rand) {
		deviation := 100 * combine.Norm(own) / math.Sqrt(float64(len(own))) * algorithm.Unit
		for i := range own {
			own[i] += int64(deviation * r.NormFloat64())
		}
	},
}

func multiply(update []int64, factor int64) {
	for i := range update {
		update[i] *= factor
	}
}

// study is a run with 40 clients a round, of whom some may lie.
type study struct {
	model           learn.Model
	trainers        [2]*actors.Trainer
	set             federated.Set
	rounds, k0, lie int
}

// play returns the accuracy after the rounds, 0 of a run that diverges.
func (s *study) play(t *testing.T, setup combine.Setup, attack string) float64 {
	t.Helper()
	const cohort = 40
	params := make([]float32, s.model.Params())
	s.model.Init(params, 1)
	clip := combine.Clipper{Rule: setup.Clip}
	server := algorithm.FedAvg{Rate: 1}.Server(len(params))
	done := map[int]int64{}
	r := rand.New(rand.NewPCG(1, 2))
	for round := 1; round <= s.rounds; round++ {
		clients := r.Perm(s.set.Clients())[:cohort]
		steps := schedule.RoundsK{}.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: s.k0}, Round: round})
		updates := make([][]int64, cohort)
		var both sync.WaitGroup
		var wrong [2]error
		for w := range 2 {
			both.Go(func() {
				for c := w; c < cohort; c += 2 {
					updates[c] = make([]int64, len(params))
					work := actors.Assignment{Task: uint64(c), Client: clients[c], LocalSteps: steps, StepsDone: done[clients[c]], Rate: 0.3, Weight: 1}
					if _, err := s.trainers[w].Train(t.Context(), params, nil, []actors.Assignment{work}, updates[c]); err != nil {
						wrong[w] = err
						return
					}
				}
			})
		}
		both.Wait()
		if err := errors.Join(wrong[:]...); errors.As(err, new(*actors.Diverged)) {
			return 0
		} else if err != nil {
			t.Fatal(err)
		}
		for c, client := range clients {
			done[client] += int64(steps)
			if c < s.lie && attack != "" {
				attacks[attack](updates[c], r)
			}
		}
		clip.Advance(clip.Clip(updates))
		sum := make([]int64, len(params))
		setup.Apply(sum, updates, algorithm.Equal(cohort))
		server.Apply(params, sum, 1)
	}
	_, scores, err := s.trainers[0].Evaluate(t.Context(), params, actors.Measured{Client: actors.HeldOut, FirstSample: 0, Count: s.set.HeldOut()})
	if err != nil {
		t.Fatal(err)
	}
	return scores[0].Sum / scores[0].Weight
}

func newStudy(t *testing.T, set federated.Set, layers string) *study {
	t.Helper()
	t.Cleanup(func() { set.Close() })
	model, err := learn.Parse(layers)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	s := &study{model: model, set: set, lie: 8}
	for w := range s.trainers {
		s.trainers[w], err = actors.NewTrainer(actors.Problem{Model: model, Set: set, Seed: 1, Batch: 32, Augment: actors.NoAugment, Algorithm: algorithm.Default, Kernel: kernel})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var fifth = combine.Byzantine{Share: 0.2}

// rules are those that are studied, and the mean.
var rules = []struct {
	name string
	rule combine.Rule
}{{"mean", nil}, {"trimmed_mean", combine.TrimmedMean{Byzantine: fifth}}, {"median", combine.Median{}}, {"multi_krum", combine.MultiKrum{Byzantine: fifth}},
	{"nnm, then median", combine.NNM{Byzantine: fifth, Then: "median"}}}

// With 8 of each round's 40 clients sending far from what they learned, the mean learns
// nothing, and the rules lose little of what they come to without them.
func TestRules_CrudeAttacks(t *testing.T) {
	set, err := synthetic.Mixtures{Clients: 100, Features: 20, Classes: 5, Samples: 50, Heterogeneity: 0.5, Seed: 1}.Set()
	if err != nil {
		t.Fatal(err)
	}
	s := newStudy(t, set, "mlp:20,24,5")
	s.rounds, s.k0 = 20, 10
	clean := s.play(t, combine.Setup{}, "")
	for _, attack := range []string{"sign flip", "scale", "noise"} {
		for _, x := range rules {
			accuracy := s.play(t, combine.Setup{Rule: x.rule}, attack)
			t.Logf("%s: %s %.4f, without attackers the mean %.4f", attack, x.name, accuracy, clean)
			if lost := clean - accuracy; x.rule != nil && lost > 0.05 || x.rule == nil && lost < 0.1 {
				t.Errorf("%s: %s loses %.4f of %.4f", attack, x.name, lost, clean)
			}
		}
	}
}
