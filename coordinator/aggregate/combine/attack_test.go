package combine_test

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"fedpace/actors"
	"fedpace/actors/data"
	"fedpace/actors/data/federated"
	"fedpace/actors/data/synthetic"
	"fedpace/actors/learn"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/aggregate/combine"
	"fedpace/coordinator/schedule"
)

// attacks make of what the liars of a round trained, and of the others' updates, what the
// liars send.
var attacks = map[string]func(own []int64, others [][]int64, r *rand.Rand){
	"sign flip": func(own []int64, _ [][]int64, _ *rand.Rand) { multiply(own, -5) },
	"scale":     func(own []int64, _ [][]int64, _ *rand.Rand) { multiply(own, 100) },
	"noise": func(own []int64, _ [][]int64, r *rand.Rand) {
		deviation := 100 * combine.Norm(own) / math.Sqrt(float64(len(own))) * aggregate.One
		for i := range own {
			own[i] += int64(deviation * r.NormFloat64())
		}
	},
	"label flip": func([]int64, [][]int64, *rand.Rand) {}, // in training
	"min max":    minMax,
}

func multiply(update []int64, factor int64) {
	for i := range update {
		update[i] *= factor
	}
}

// minMax is the mean of the others less so many of their standard deviations that it is no
// farther from any of them than they are from each other (Shejwalkar and Houmansadr 2021,
// section IV-C, AGR-agnostic min-max).
func minMax(own []int64, others [][]int64, _ *rand.Rand) {
	n := float64(len(others))
	mean, deviation := make([]float64, len(own)), make([]float64, len(own))
	for _, u := range others {
		for i, x := range u {
			mean[i] += float64(x) / n
		}
	}
	for _, u := range others {
		for i, x := range u {
			deviation[i] += (float64(x) - mean[i]) * (float64(x) - mean[i]) / n
		}
	}
	for i := range deviation {
		deviation[i] = math.Sqrt(deviation[i])
	}
	apart := func(gamma float64, from []int64) (square float64) {
		for i, x := range from {
			d := (mean[i] - gamma*deviation[i] - float64(x)) / aggregate.One
			square += d * d
		}
		return square
	}
	most := 0.0
	for i, a := range others {
		for _, b := range others[:i] {
			square := 0.0
			for j := range a {
				d := float64(a[j]-b[j]) / aggregate.One
				square += d * d
			}
			most = max(most, square)
		}
	}
	low, high := 0.0, 100.0
	for range 12 {
		gamma, fits := (low+high)/2, true
		for _, u := range others {
			fits = fits && apart(gamma, u) <= most
		}
		if fits {
			low = gamma
		} else {
			high = gamma
		}
	}
	for i := range own {
		own[i] = int64(mean[i] - low*deviation[i])
	}
}

// flipped is a set with labels the other way round.
type flipped struct{ federated.Set }

func (f flipped) Batch(dst *learn.Batch, c int, samples []int32) error {
	before := len(dst.Labels)
	err := f.Set.Batch(dst, c, samples)
	for i := range dst.Labels[before:] {
		dst.Labels[before+i] = 61 - dst.Labels[before+i]
	}
	return err
}

// study is a run with 40 clients a round, of whom some may lie.
type study struct {
	model           learn.Model
	honest, liars   [2]*actors.Trainer
	set             federated.Set
	rounds, k0, lie int
	rate            float64 // of the server
}

// play returns the accuracy after the rounds, 0 of a run that diverges.
func (s *study) play(t *testing.T, setup combine.Setup, attack string) float64 {
	t.Helper()
	const cohort = 40
	params := make([]float32, s.model.Params())
	s.model.Init(params, 1)
	clip := combine.Clipper{Of: setup.Clip}
	server := aggregate.FedAvg{Rate: s.rate}.Server(len(params))
	done := map[int]int64{}
	r := rand.New(rand.NewPCG(1, 2))
	k := schedule.RoundsK{K0: s.k0}
	for round := 1; round <= s.rounds; round++ {
		clients := r.Perm(s.set.Clients())[:cohort]
		steps := k.LocalSteps(schedule.Progress{Round: round})
		updates := make([][]int64, cohort)
		var both sync.WaitGroup
		var wrong [2]error
		for w := range 2 {
			both.Go(func() {
				for c := w; c < cohort; c += 2 {
					trainer := s.honest[w]
					if attack == "label flip" && c < s.lie {
						trainer = s.liars[w]
					}
					updates[c] = make([]int64, len(params))
					work := actors.Assignment{Task: uint64(c), Client: clients[c], LocalSteps: steps, StepsDone: done[clients[c]], Rate: 0.3, Weight: 1}
					if _, err := trainer.Train(t.Context(), params, nil, []actors.Assignment{work}, updates[c]); err != nil {
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
				attacks[attack](updates[c], updates[s.lie:], r)
			}
		}
		clip.Clip(updates)
		clip.Advance()
		sum := make([]int64, len(params))
		setup.Apply(sum, updates, aggregate.Equal(cohort))
		server.Apply(params, sum, 1)
	}
	_, scores, err := s.honest[0].Evaluate(t.Context(), params, 0, s.set.HeldOut())
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
	s := &study{model: model, set: set, lie: 8, rate: 1}
	for w := range 2 {
		for _, x := range []struct {
			to  **actors.Trainer
			set federated.Set
		}{{&s.honest[w], set}, {&s.liars[w], flipped{set}}} {
			if *x.to, err = actors.NewTrainer(actors.Problem{Model: model, Set: x.set, Seed: 1, Batch: 32, Augment: actors.NoAugment, Algorithm: aggregate.Default, Kernel: kernel}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

var fifth = combine.Liars{Share: 0.2}

// rules are those that are studied, and the mean.
var rules = []struct {
	name string
	rule combine.Rule
}{{"mean", nil}, {"trimmed_mean", combine.TrimmedMean{Liars: fifth}}, {"median", combine.Median{}}, {"multi_krum", combine.MultiKrum{Liars: fifth}}}

// With 8 of each round's 40 clients sending far from what they learned, the mean learns
// nothing, and the rules lose little of what they come to without them.
func TestRulesHoldAgainstCrudeAttacks(t *testing.T) {
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

// The same on FEMNIST's 3,000 writers over 60 rounds, with attacks that are made to pass.
func TestRulesUnderAttackOnFEMNIST(t *testing.T) {
	if os.Getenv("FEDPACE_LONG") == "" {
		t.Skip("about 20 minutes on two cores: set FEDPACE_LONG=1")
	}
	folder := os.Getenv("FEDPACE_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	path := filepath.Join(folder, "femnist", "femnist.parquet")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no %s (set FEDPACE_DATA to the folder that holds femnist/femnist.parquet)", path)
	}
	set, err := data.Open(path, federated.Options{Task: "femnist", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := newStudy(t, set, "mlp:784,200,200,62")
	s.rounds, s.k0 = 60, 20
	for _, attack := range append([]string{""}, slices.Sorted(maps.Keys(attacks))...) {
		for _, x := range rules {
			for _, s.rate = range []float64{1, 1.5} {
				t.Logf("attack %q: %s at server_rate %g: %.4f", attack, x.name, s.rate, s.play(t, combine.Setup{Rule: x.rule}, attack))
			}
		}
	}
}
