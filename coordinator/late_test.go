package coordinator_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/coordinator/selection"
	"fedpace/internal/testkit/slow"
	"fedpace/simclock"
)

// lateFleet returns a fleet of clients of very unequal speed, which stay until they are done.
func lateFleet(t testing.TB) *fleet.Fleet {
	t.Helper()
	fleet, err := fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5}, Availability: fleet.Markov{OnSeconds: 30, OffSeconds: 5},
		Fleet: []fleet.Class{{Name: "any", SecondsPerStep: fleet.Lognormal{Mean: 0.2, Sigma: 1.5}}},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// updated is what the formulas below know of a round's updates: differences between the
// clients' models and those that they started from, their staleness, and the samples
// that they count with.
type updated struct {
	difference [][]float64
	staleness  []int
	samples    []float64
}

// weighted returns the mean of the updates by weights, which need not sum to 1.
func (u updated) weighted(weight func(i int) float64) []float64 {
	mean, all := make([]float64, len(u.difference[0])), 0.0
	for i := range u.difference {
		all += weight(i)
	}
	for i, d := range u.difference {
		for j := range d {
			mean[j] += weight(i) / all * d[j]
		}
	}
	return mean
}

// refl returns the update by the published rule of REFL: the mean of the fresh updates, then for each stale update the
// share of the distance by which it moves that mean, then weights by age and by that share.
func (u updated) refl(beta, divisor float64) []float64 {
	fresh := 0.0
	for _, tau := range u.staleness {
		if tau == 0 {
			fresh++
		}
	}
	weight := func(i int) float64 { return u.samples[i] / float64(u.staleness[i]+1) }
	if fresh > 0 && fresh < float64(len(u.staleness)) {
		mean := u.weighted(func(i int) float64 {
			if u.staleness[i] > 0 {
				return 0
			}
			return u.samples[i]
		})
		square := func(x func(j int) float64) (sum float64) {
			for j := range mean {
				sum += x(j) * x(j)
			}
			return sum
		}
		lambda, most := make([]float64, len(u.staleness)), 0.0
		for i, tau := range u.staleness {
			if tau > 0 {
				lambda[i] = square(func(j int) float64 { return mean[j] - (u.difference[i][j]+fresh*mean[j])/(fresh+1) }) / square(func(j int) float64 { return mean[j] })
				most = max(most, lambda[i])
			}
		}
		weight = func(i int) float64 {
			if u.staleness[i] == 0 {
				return u.samples[i]
			}
			return u.samples[i] * ((1-beta)/float64(u.staleness[i]+1) + beta*(1-math.Exp(-lambda[i]/most)/divisor))
		}
	}
	return u.weighted(weight)
}

// Over a run that uses late updates, with unequal staleness and unequal K, and in which
// few of the clients take part, every next model is that of the rule's formula, written
// out here in float64 over the clients' own models. Hosts and jobs make no difference.
func TestLate_Weights(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	l, fleet := newLab(t), lateFleet(t)
	for _, x := range []struct {
		name      string
		algorithm algorithm.Algorithm
		closing   closing.Rule
		samples   bool
		formula   func(u updated) []float64
	}{
		{"fresh ones alike", algorithm.FedAvg{Rate: 1}, closing.Deadline{Seconds: 0.5}, false, func(u updated) []float64 { return u.weighted(func(int) float64 { return 1 }) }},
		{"by age", algorithm.FedAvg{Rate: 1, Staleness: algorithm.Staleness{Exponent: 1}}, closing.First{N: 4}, false, func(u updated) []float64 {
			return u.weighted(func(i int) float64 { return 1 / float64(1+u.staleness[i]) })
		}},
		{"damped", algorithm.FedBuff{Rate: 0.9, Exponent: 2, Rule: "damped"}, closing.Quorum{N: 6, M: 2, Seconds: 0.5}, false, func(u updated) []float64 {
			sum := make([]float64, len(u.difference[0]))
			for i, d := range u.difference {
				for j := range d {
					sum[j] += 0.9 / float64(len(u.difference)) / float64((1+u.staleness[i])*(1+u.staleness[i])) * d[j]
				}
			}
			return sum
		}},
		{"refl", algorithm.REFL{Rate: 1, Beta: 0.35, Divisor: 1}, closing.First{N: 4}, false, func(u updated) []float64 { return u.refl(0.35, 1) }},
		{"refl by samples", algorithm.REFL{Rate: 1, Beta: 0.35, Divisor: 1}, closing.Deadline{Seconds: 0.5}, true, func(u updated) []float64 { return u.refl(0.35, 1) }},
		{"refl, what is added alone", algorithm.REFL{Rate: 1, Beta: 1, Divisor: 10}, closing.Deadline{Seconds: 0.4}, false, func(u updated) []float64 { return u.refl(1, 10) }},
		{"refl, age alone", algorithm.REFL{Rate: 1, Divisor: 1}, closing.Quorum{N: 6, M: 2, Seconds: 0.5}, false, func(u updated) []float64 { return u.refl(0, 1) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := ruleConfig(l, fleet, x.closing, nil)
			c.Late, c.Stop.Rounds = closing.Use{Limit: 3}, 18
			play := func(hosts, jobs int) (models [][]float32) {
				return ruleModels(t, l, x.algorithm, func(change func(*coordinator.Config)) {
					ruleRunWith(t, l, fleet, c, hosts, jobs, func(c *coordinator.Config) {
						if change(c); x.samples {
							c.Learning.Samples = l.problem.Set.Samples
						}
					})
				})
			}
			models := play(1, 1)
			if got := play(3, 4); fmt.Sprint(got) != fmt.Sprint(models) {
				t.Error("3 hosts lead to other models")
			}
			trainer := newTrainer(t, l)
			clients, ks, ages := map[int]bool{}, map[int]bool{}, map[int]bool{}
			referenceWith(t, l, fleet, c, func(tasks []round.Task, versions [][]float32) ([]float32, []float64) {
				newest := versions[len(versions)-1]
				var u updated
				for _, task := range tasks {
					base, tau := versions[task.Model], len(versions)-1-int(task.Model)
					own := ownModel(t, trainer, base, task)
					d, samples := make([]float64, len(own)), 1.0
					for j := range d {
						d[j] = float64(own[j]) - float64(base[j])
					}
					if x.samples {
						samples = float64(l.problem.Set.Samples(task.Client))
					}
					u.difference, u.staleness, u.samples = append(u.difference, d), append(u.staleness, tau), append(u.samples, samples)
					clients[task.Client], ks[task.LocalSteps], ages[tau] = true, true, true
				}
				got := models[len(versions)-1]
				want := x.formula(u)
				for j := range want {
					want[j] += float64(newest[j])
				}
				nearFormula(t, len(versions), got, want)
				return got, make([]float64, len(tasks))
			})
			if len(clients) < 5 || len(ks) < 2 || len(ages) < 3 {
				t.Errorf("%d clients, %d values of K, %d of staleness: the test says little", len(clients), len(ks), len(ages))
			}
		})
	}
}

// A run with late updates has one history, whether it trains or not.
func TestLate_TimingOnly(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), lateFleet(t)
	for _, rule := range []closing.Rule{closing.Deadline{Seconds: 0.5}, closing.First{N: 3}, closing.Quorum{N: 5, M: 2, Seconds: 0.4}} {
		for _, choose := range []selection.Rule{nil, selection.LeastAvailable{Seconds: 2, Error: 0.1}} {
			c := ruleConfig(l, fleet, rule, choose)
			c.Late = closing.Use{Limit: 2}
			_, fingerprint, stop := reference(t, l, fleet, c)
			c.Train = false
			if got := ruleRun(t, l, fleet, c, 1, 1); got.Fingerprint != fingerprint || got.Stop.Outcomes != stop.Outcomes {
				t.Errorf("%v: fingerprint %x, outcomes %v, want %x, %v", rule, got.Fingerprint, got.Stop.Outcomes, fingerprint, stop.Outcomes)
			}
			if stop.Outcomes[round.Late] == 0 {
				t.Errorf("%v: no update is too old: the test says little", rule)
			}
		}
	}
}

// oneDevice is the record of a device whose every task takes 0.7 s, and whose model is
// then some way from the initial one.
type oneDevice struct {
	client  int
	initial []float32
	joined  bool
}

// AddAnswer keeps nothing.
func (*oneDevice) AddAnswer(*realdevices.Answer) error { return nil }

// AddPresence keeps nothing.
func (*oneDevice) AddPresence(realdevices.Presence) error { return nil }

// AddBan keeps nothing.
func (*oneDevice) AddBan(realdevices.Ban) error { return nil }

// Bans returns no bans.
func (*oneDevice) Bans() []realdevices.Ban { return nil }

// Presence returns that the device joins at the start, and nothing more.
func (d *oneDevice) Presence() (realdevices.Presence, bool, error) {
	first := !d.joined
	d.joined = true
	return realdevices.Presence{Clock: simclock.New().Fingerprint(), Client: d.client, Joined: true}, first, nil
}

// Answer returns the device's update for a task, which the task's number decides.
func (d *oneDevice) Answer(task uint64) (*realdevices.Answer, error) {
	values := slices.Clone(d.initial)
	for j := range values {
		values[j] += float32(0.05 * math.Sin(float64(j)+float64(task%1000)))
	}
	return &realdevices.Answer{
		Kind: round.Planned, Task: task, Client: d.client, Plan: round.Plan{Download: 1e8, Compute: 5e8, Upload: 1e8}, Loss: 1, Samples: 9, Values: values,
	}, nil
}

// Late updates of a device count as those of other clients: REFL without its second
// part takes each by itself, and has the models of weights by age.
func TestLate_Device(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), lateFleet(t)
	late := 0
	play := func(a algorithm.Algorithm) [][]float32 {
		c := ruleConfig(l, fleet, closing.Deadline{Seconds: 0.5}, nil)
		c.Late, c.Devices = closing.Use{Limit: 3}, round.Devices{Count: 1, Liveness: 60e9}
		return ruleModels(t, l, a, func(change func(*coordinator.Config)) {
			ruleRunWith(t, l, fleet, c, 1, 2, func(c *coordinator.Config) {
				change(c)
				c.Devices = &realdevices.Config{Names: []string{"pi"}, Replay: true, Record: &oneDevice{client: c.Round.Clients, initial: initial(l)}}
				c.Observer.Task = func(r *round.TaskReport) {
					if r.Client == c.Round.Clients && r.Outcome == round.Accepted && r.End-r.Start == 7e8 {
						late++
					}
				}
			})
		})
	}
	want := play(algorithm.FedAvg{Rate: 1, Staleness: algorithm.Staleness{Exponent: 1}})
	got := play(algorithm.REFL{Rate: 1, Divisor: 1})
	for i := range want {
		for j := range want[i] {
			if d := math.Abs(float64(got[i][j]) - float64(want[i][j])); !(d < 1e-5) {
				t.Fatalf("model %d, parameter %d: %g, want %g", i+1, j, got[i][j], want[i][j])
			}
		}
	}
	if len(want) < 10 || len(got) != len(want) || late < 10 {
		t.Errorf("%d and %d models, %d late updates of the device: the test says little", len(want), len(got), late)
	}
}
