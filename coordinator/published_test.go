package coordinator_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/actors"
	"fedpace/algorithm"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
)

// Over a run whose tasks have unequal staleness and unequal K, and in which few of
// the clients take part, every next model is that of the paper's formula, written
// out here in float64 over the clients' own models.
func TestAsynchronous_Published(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	// A formula adds one client's part: x the newest model, own the client's, base
	// the one from which it started, n the updates of the round.
	fedbuff := func(s func(tau float64) float64, rate float64) func(x, own, base float64, tau, n int) float64 {
		return func(_, own, base float64, tau, n int) float64 {
			return rate / float64(n) * s(float64(tau)) * (own - base)
		}
	}
	fedasync := func(s func(tau float64) float64, alpha float64) func(x, own, base float64, tau, n int) float64 {
		return func(x, own, _ float64, tau, n int) float64 { return alpha * s(float64(tau)) * (own - x) / float64(n) }
	}
	power := func(a float64) func(float64) float64 {
		return func(tau float64) float64 { return math.Pow(1+tau, -a) }
	}
	for _, x := range []struct {
		algorithm algorithm.Algorithm
		formula   func(x, own, base float64, tau, n int) float64
	}{
		{algorithm.FedBuff{Rate: 1, Exponent: 0.5, Rule: "damped"}, fedbuff(power(0.5), 1)},
		{algorithm.FedBuff{Rate: 0.7, Exponent: 8, Rule: "damped"}, fedbuff(power(8), 0.7)},
		{algorithm.FedBuff{Rate: 2, Rule: "damped"}, fedbuff(power(0), 2)},
		{algorithm.FedAsync{Mixing: 0.6, Rule: "constant"}, fedasync(power(0), 0.6)},
		{algorithm.FedAsync{Mixing: 0.9, Rule: "polynomial", Exponent: 0.5}, fedasync(power(0.5), 0.9)},
		{algorithm.FedAsync{Mixing: 1, Rule: "hinge", Slope: 3, After: 1}, fedasync(func(tau float64) float64 {
			if tau <= 1 {
				return 1
			}
			return 1 / (3*(tau-1) + 1)
		}, 1)},
	} {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%v, n %d", algorithm.Algorithms.Text(x.algorithm), n), func(t *testing.T) {
				c := ruleConfig(l, fleet, closing.Buffered{N: n}, nil)
				c.Stop.Rounds = 12 + 24/n // enough for K to shrink under way
				models := ruleModels(t, l, x.algorithm, func(change func(*coordinator.Config)) {
					ruleRunWith(t, l, fleet, c, 3, 4, change)
				})
				trainer := newTrainer(t, l)
				clients, ks, ages := map[int]bool{}, map[int]bool{}, map[int]bool{}
				referenceWith(t, l, fleet, c, func(tasks []round.Task, versions [][]float32) ([]float32, []float64) {
					newest := versions[len(versions)-1]
					want := make([]float64, len(newest))
					for j, v := range newest {
						want[j] = float64(v)
					}
					for _, task := range tasks {
						base, tau := versions[task.Model], len(versions)-1-int(task.Model)
						own := ownModel(t, trainer, base, task)
						for j := range want {
							want[j] += x.formula(float64(newest[j]), float64(own[j]), float64(base[j]), tau, len(tasks))
						}
						clients[task.Client], ks[task.LocalSteps], ages[tau] = true, true, true
					}
					got := models[len(versions)-1]
					nearFormula(t, len(versions), got, want)
					return got, nil
				})
				if len(clients) < 5 || len(ks) < 2 || len(ages) < 3 {
					t.Errorf("%d clients, %d values of K, %d of staleness: the test says little", len(clients), len(ks), len(ages))
				}
			})
		}
	}
}

// FedBuff by the rule normalised is what FedAvg does in buffered rounds, to the bits.
func TestNormalised_EqualsFedAvg(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	c := ruleConfig(l, fleet, closing.Buffered{N: 4}, nil)
	play := func(a algorithm.Algorithm) [][]float32 {
		return ruleModels(t, l, a, func(change func(*coordinator.Config)) { ruleRunWith(t, l, fleet, c, 2, 3, change) })
	}
	want := play(algorithm.FedAvg{Rate: 0.8, Staleness: algorithm.Staleness{Exponent: 2}})
	if got := play(algorithm.FedBuff{Rate: 0.8, Exponent: 2, Rule: "normalised"}); !slices.EqualFunc(got, want, slices.Equal) {
		t.Error("other models")
	}
	if got := play(algorithm.FedBuff{Rate: 0.8, Exponent: 2, Rule: "damped"}); slices.EqualFunc(got, want, slices.Equal) {
		t.Error("damping leads to the same models: the test says little")
	}
}

// ruleModels plays a run with an algorithm and returns the model after each round.
func ruleModels(t *testing.T, l *lab, a algorithm.Algorithm, play func(change func(*coordinator.Config))) (models [][]float32) {
	t.Helper()
	play(func(c *coordinator.Config) {
		params := l.problem.Model.Params()
		c.Learning.Algorithm = algorithm.NewInstance(a, nil, params, params, 0, c.Round.Clients)
		c.Observer.Model = func(_ int, params []float32) { models = append(models, params) }
	})
	return models
}

// With a single update a round FedBuff's damping still counts: exponents 0, 1/2 and 8
// lead to three models, where weights that sum to 1 lead to one.
func TestStaleness_DampsSingleUpdate(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	for rule, want := range map[string]int{"damped": 3, "normalised": 1} {
		var seen [][]float32
		for _, exponent := range []float64{0, 0.5, 8} {
			models := ruleModels(t, l, algorithm.FedBuff{Rate: 1, Exponent: exponent, Rule: rule}, func(change func(*coordinator.Config)) {
				ruleRunWith(t, l, fleet, ruleConfig(l, fleet, closing.Buffered{N: 1}, nil), 1, 1, change)
			})
			last := models[len(models)-1]
			if !slices.ContainsFunc(seen, func(x []float32) bool { return slices.Equal(x, last) }) {
				seen = append(seen, last)
			}
		}
		if len(seen) != want {
			t.Errorf("%s: exponents 0, 0.5 and 8 lead to %d models, want %d", rule, len(seen), want)
		}
	}
}

// ownModel returns the model with which a client ends its task.
func ownModel(t *testing.T, trainer *actors.Trainer, base []float32, task round.Task) []float32 {
	t.Helper()
	own, _, _, err := trainer.Local(t.Context(), base, actors.Assignment{Task: task.Task, Client: task.Client, LocalSteps: task.LocalSteps, StepsDone: task.StepsDone, Rate: task.LearningRate})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// nearFormula fails the test unless a version of the model equals the values of a formula to 1e-6.
func nearFormula(t *testing.T, version int, got []float32, want []float64) {
	t.Helper()
	for j := range want {
		if d := math.Abs(float64(got[j]) - want[j]); !(d < 1e-6) {
			t.Fatalf("model %d, parameter %d: %g, the formula gives %g", version, j, got[j], want[j])
		}
	}
}
