package coordinator_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
)

// medians returns the median of each element of some vectors.
func medians(vectors [][]float64) []float64 {
	out := make([]float64, len(vectors[0]))
	for j := range out {
		var column []float64
		for _, v := range vectors {
			column = append(column, v[j])
		}
		slices.Sort(column)
		out[j] = (column[(len(column)-1)/2] + column[len(column)/2]) / 2
	}
	return out
}

// squareOf returns the squared length of a vector.
func squareOf(v []float64) (square float64) {
	for _, x := range v {
		square += x * x
	}
	return square
}

// times returns a vector times a factor.
func times(factor float64, v []float64) []float64 {
	out := make([]float64, len(v))
	for j, x := range v {
		out[j] = factor * x
	}
	return out
}

// Over a run that uses late updates every next model is what the formula makes of the
// clients' own models, written out in float64. Hosts and jobs make no difference.
func TestSingle_Weights(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	l, fleet := newLab(t), lateFleet(t)
	stretched := 0
	for _, x := range []struct {
		name      string
		algorithm algorithm.Algorithm
		combine   combine.Setup
		// formula gives the move of the newest model, of updates whose base models are so
		// far from it.
		formula func(u updated, apart [][]float64) []float64
	}{
		{"median", algorithm.FedAvg{Rate: 0.8}, combine.Setup{Rule: combine.Median{}}, func(u updated, _ [][]float64) []float64 {
			return times(0.8, medians(u.difference))
		}},
		{"median, damped", algorithm.FedBuff{Rate: 1, Exponent: 2, Rule: "damped"}, combine.Setup{Rule: combine.Median{}}, func(u updated, _ [][]float64) []float64 {
			share := 0.0
			for _, tau := range u.staleness {
				share += 1 / float64((1+tau)*(1+tau)) / float64(len(u.staleness))
			}
			return times(share, medians(u.difference))
		}},
		{"median of models that are mixed", algorithm.FedAsync{Mixing: 0.6, Rule: "constant"}, combine.Setup{Rule: combine.Median{}}, func(u updated, apart [][]float64) []float64 {
			var moves [][]float64
			for i, d := range u.difference {
				move := slices.Clone(d)
				for j := range move {
					move[j] += apart[i][j]
				}
				moves = append(moves, move)
			}
			return times(0.6, medians(moves))
		}},
		{"extrapolated", algorithm.FedExP{Epsilon: 1e-6, Staleness: algorithm.Staleness{Exponent: 1}}, combine.Setup{}, func(u updated, _ [][]float64) []float64 {
			weight := func(i int) float64 { return 1 / float64(1+u.staleness[i]) }
			mean, squares, weights := u.weighted(weight), 0.0, 0.0
			for i, d := range u.difference {
				squares, weights = squares+weight(i)*squareOf(d), weights+weight(i)
			}
			stretch := squares / weights / (2 * (squareOf(mean) + 1e-6))
			stretched += min(1, int(stretch)) // those above 1
			return times(max(1, stretch), mean)
		}},
		{"clipped", algorithm.FedAvg{Rate: 1, Staleness: algorithm.Staleness{Exponent: 1}}, combine.Setup{Clip: combine.Fixed{Norm: 0.3}}, func(u updated, _ [][]float64) []float64 {
			for i, d := range u.difference {
				norm := 0.0
				for _, v := range d {
					norm += v * v
				}
				u.difference[i] = times(min(1, 0.3/math.Sqrt(norm)), d)
			}
			return u.weighted(func(i int) float64 { return 1 / float64(1+u.staleness[i]) })
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := ruleConfig(l, fleet, closing.First{N: 4}, nil)
			c.Late, c.Stop.Rounds = closing.Use{Limit: 3}, 12
			play := func(hosts, jobs int) [][]float32 {
				return ruleModels(t, l, x.algorithm, func(change func(*coordinator.Config)) {
					ruleRunWith(t, l, fleet, c, hosts, jobs, func(c *coordinator.Config) {
						change(c)
						c.Learning.Combine = x.combine
					})
				})
			}
			models := play(1, 1)
			if got := play(3, 4); fmt.Sprint(got) != fmt.Sprint(models) {
				t.Error("3 hosts lead to other models")
			}
			trainer, stale := newTrainer(t, l), 0
			referenceWith(t, l, fleet, c, func(tasks []round.Task, versions [][]float32) ([]float32, []float64) {
				newest := versions[len(versions)-1]
				var u updated
				var apart [][]float64
				for _, task := range tasks {
					base, tau := versions[task.Model], len(versions)-1-int(task.Model)
					own := ownModel(t, trainer, base, task)
					d, back := make([]float64, len(own)), make([]float64, len(own))
					for j := range d {
						d[j], back[j] = float64(own[j])-float64(base[j]), float64(base[j])-float64(newest[j])
					}
					u.difference, u.staleness, apart = append(u.difference, d), append(u.staleness, tau), append(apart, back)
					stale += min(1, tau)
				}
				got, want := models[len(versions)-1], x.formula(u, apart)
				for j := range want {
					want[j] += float64(newest[j])
				}
				nearFormula(t, len(versions), got, want)
				return got, make([]float64, len(tasks))
			})
			if stale < 5 {
				t.Errorf("%d late updates: the test says little", stale)
			}
		})
	}
	if stretched < 3 {
		t.Errorf("%d steps are longer than the mean update: the test says little", stretched)
	}
}

// A bound that no update meets leaves every algorithm as it was, but for the last bits.
func TestSingle_UnmetBound(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), lateFleet(t)
	for _, rule := range []algorithm.Algorithm{algorithm.FedAvg{Rate: 1}, algorithm.FedNova{Rate: 1}, algorithm.FedAsync{Mixing: 0.6, Rule: "hinge", Slope: 1}} {
		play := func(of combine.Setup) []float32 {
			return ruleRunWith(t, l, fleet, ruleConfig(l, fleet, closing.Buffered{N: 3}, nil), 1, 2, func(c *coordinator.Config) {
				params := l.problem.Model.Params()
				c.Learning.Algorithm = algorithm.NewInstance(rule, nil, params, params, 0, c.Round.Clients)
				c.Learning.Combine = of
			}).Params
		}
		want := play(combine.Setup{})
		for j, x := range play(combine.Setup{Clip: combine.MedianNorm{Times: 1e6, Updates: 10}}) {
			if d := math.Abs(float64(x) - float64(want[j])); !(d < 1e-4) {
				t.Fatalf("%T: parameter %d is %g, want %g", rule, j, x, want[j])
			}
		}
	}
}

// someDevices is the record of devices whose updates are small, and of which the last may
// lie.
type someDevices struct {
	oneDevice
	lie   float32
	n     int
	there int // have joined
}

// Presence returns that each of the n devices joins at the start, one after the other, and nothing more.
func (d *someDevices) Presence() (realdevices.Presence, bool, error) {
	p, _, _ := (&oneDevice{client: d.client + d.there}).Presence()
	d.there++
	return p, d.there <= d.n, nil
}

// Answer returns a device's update for a task. The last device adds its lie to each value.
func (d *someDevices) Answer(task uint64) (*realdevices.Answer, error) {
	a, _ := d.oneDevice.Answer(task)
	which := int(task-round.FirstDeviceTask) % d.n
	if a.Client += which; which == d.n-1 {
		for j := range a.Values {
			a.Values[j] += d.lie
		}
	}
	return a, nil
}

// A device that adds 1e5 to every parameter moves the model by no more than the bound, and
// the run goes on, even where it is the only device beside simulated clients. Honest devices
// do not meet the bound: their run has the same bits as one without.
func TestSingle_DevicesAreClipped(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	names := []string{"a", "b", "liar"}
	play := func(clip combine.Clip, rule combine.Rule, lie float32) (models [][]float32, notices string) {
		c, begun := ruleConfig(l, fleet, closing.All{}, nil), 0
		defer func() {
			if begun != 1 {
				t.Errorf("the run began %d times", begun)
			}
		}()
		c.Devices, c.Stop.Rounds = round.Devices{Count: len(names), Liveness: 60e9}, 4
		return ruleModels(t, l, algorithm.Default, func(change func(*coordinator.Config)) {
			ruleRunWith(t, l, fleet, c, 1, 2, func(c *coordinator.Config) {
				change(c)
				c.Learning.Combine = combine.Setup{Devices: clip, Rule: rule}
				c.Observer.Begun = func() { begun++ }
				c.Devices = &realdevices.Config{
					Names: names, Replay: true, Notice: func(line string) { notices += line + "\n" },
					Record: &someDevices{oneDevice: oneDevice{client: c.Round.Clients, initial: initial(l)}, lie: lie, n: len(names)},
				}
			})
		}), notices
	}
	largest := func(models [][]float32) (most float64) {
		for _, x := range models[len(models)-1] {
			most = max(most, math.Abs(float64(x)))
		}
		return most
	}
	bound := combine.MedianNorm{Times: 10, Updates: 100}
	without, _ := play(nil, nil, 0)
	with, notices := play(bound, nil, 0)
	if fmt.Sprint(with) != fmt.Sprint(without) || notices != "" {
		t.Errorf("a bound that is not met changes the models: %s", notices)
	}
	usual := largest(without)
	clipped, notices := play(bound, nil, 1e5)
	if most := largest(clipped); most > usual+1 {
		t.Errorf("a parameter has come to %g, without the liar at most %g", most, usual)
	}
	if strings.Count(notices, "An update of device liar is clipped: its norm is") != 1 || strings.Count(notices, "\n") != 1 {
		t.Errorf("notices: %q", notices)
	}
	if most := largest(first(play(bound, combine.Median{}, 1e5))); most > usual+0.1 {
		t.Errorf("with the median a parameter has come to %g, without the liar at most %g", most, usual)
	}
	names = names[2:]
	if clipped, notices := play(bound, nil, 1e5); largest(clipped) > usual+1 || !strings.Contains(notices, "liar is clipped") {
		t.Errorf("with one device a parameter has come to %g, without the liar at most %g: %s", largest(clipped), usual, notices)
	}
	if _, notices := play(nil, nil, 50); !strings.Contains(notices, "liar has no place in the run any more") { // 1e5 would end the run
		t.Errorf("without a bound the model does not diverge: %q", notices)
	}
}

// first returns the first of two values.
func first[A, B any](a A, _ B) A { return a }

// A bound of devices remembers no norm of an update that was left out.
func TestSingle_BoundForgetsLeftOut(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	c := ruleConfig(l, fleet, closing.All{}, nil)
	c.Devices, c.Stop.Rounds = round.Devices{Count: 1, Liveness: 60e9}, 3
	ruleModels(t, l, algorithm.Default, func(change func(*coordinator.Config)) {
		banned := false
		ruleRunWith(t, l, fleet, c, 1, 2, func(c *coordinator.Config) {
			change(c)
			c.Learning.Combine = combine.Setup{Devices: combine.MedianNorm{Times: 1e6, Updates: 100}}
			c.Checkpoint = coordinator.Checkpoint{Due: func() bool { return true }, Save: func(s *coordinator.State) error {
				for _, norm := range s.DeviceNorms {
					if norm > 50 {
						t.Errorf("round %d: the norm %g of what was left out is remembered", s.Machine.Round.Round, norm)
					}
				}
				banned = banned || len(s.Findings.Bans) > 0
				return nil
			}}
			c.Devices = &realdevices.Config{
				Names: []string{"liar"}, Replay: true, Notice: func(string) {},
				Record: &someDevices{oneDevice: oneDevice{client: c.Round.Clients, initial: initial(l)}, lie: 50, n: 1},
			}
		})
		if !banned {
			t.Error("the liar was not banned")
		}
	})
}
