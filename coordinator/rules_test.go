package coordinator_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"fedpace/actors"
	"fedpace/actors/fleet"
	"fedpace/actors/host"
	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
	"fedpace/simclock"
)

const ruleBits = 1e6 // of a model on the network

// ruleFleet returns a fleet of slow and fast clients that come and go and sometimes drop out.
func ruleFleet(t testing.TB) *fleet.Fleet {
	t.Helper()
	devices, err := fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5}, Compute: fleet.Compute{SecondsPerStep: 0.03, Std: 0.02},
		Availability: fleet.Markov{OnSeconds: 3, OffSeconds: 2},
		Dropout:      fleet.Dropout{Probability: 0.1, WhenUnavailable: true},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// ruleConfig returns a run of 30 clients in which every rule has something to do.
func ruleConfig(l *lab, devices *fleet.Fleet, closing closing.Rule, choose selection.Rule) round.Config {
	clients := l.problem.Set.Clients()
	return round.Config{
		Seed: 1, Clients: clients, Cohort: 7, Closing: closing, Select: choose,
		Setup: schedule.Setup{K0: 6, Eta0: 0.3}, K: schedule.RoundsK{}, Eta: schedule.FixedEta{},
		Window: schedule.WindowConfig{Size: 2}, Plateau: schedule.PlateauConfig{Patience: 3}, Metrics: []metric.Metric{{Name: metric.Accuracy}},
		Train: true, Evaluate: metric.Timetable{Every: 5}, Stop: round.Limits{Rounds: 12},
		Available: func(client int, at round.Time) bool { return devices.Available(client, int64(at)) },
		NextChange: func(at round.Time) (round.Time, bool) {
			next := int64(fleet.Never)
			for c := range clients {
				next = min(next, devices.NextChange(c, int64(at)))
			}
			return round.Time(next), next != fleet.Never
		},
		Samples: l.problem.Set.Samples,
		Expect: func(client, steps int) round.Time {
			return round.Time(0.25e9) + round.Time(steps)*30e6*round.Time(1+client%3)
		},
	}
}

// every lists the entries of a table, with a whole number for all options that
// are whole numbers, half a second for times, and nothing for the others.
func every[T any](table *registry.Table[T], whole int64) (list []T) {
	for _, name := range table.Names() {
		entry, _ := table.Entry(name)
		v := reflect.New(reflect.TypeOf(entry)).Elem()
		for _, o := range registry.Options(v.Type()) {
			switch f := v.FieldByIndex(o.Index); {
			case o.Null:
			case o.Path: // of a policy in Python, which has no process here
				f.SetString("policy.py")
			case o.Inert && f.CanInt():
				f.SetInt(int64(o.Range.Lo))
			case f.CanInt():
				f.SetInt(whole)
			case o.Unit == "seconds":
				f.SetFloat(0.5)
			case f.CanFloat() && !o.Range.Contains(0):
				f.SetFloat(o.Range.Hi)
			}
		}
		// The formulas of this rule may all be left out, but not all at once.
		if _, isFormula := v.Interface().(closing.Formula); isFormula {
			v.Set(reflect.ValueOf(closing.Formula{N: fmt.Sprint(whole)}))
		}
		list = append(list, v.Interface().(T))
	}
	return list
}

// ruleRun plays a run over the bus.
func ruleRun(t *testing.T, l *lab, devices *fleet.Fleet, rounds round.Config, hosts, jobs int) *coordinator.Result {
	t.Helper()
	return ruleRunWith(t, l, devices, rounds, hosts, jobs, func(*coordinator.Config) {})
}

// ruleRunWith plays a run whose configuration is changed before it starts.
func ruleRunWith(t *testing.T, l *lab, devices *fleet.Fleet, rounds round.Config, hosts, jobs int, change func(*coordinator.Config)) *coordinator.Result {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	connect, closeServer := startServer(ctx, t)
	defer closeServer()
	group, ctx := errgroup.WithContext(ctx)
	for range hosts {
		host, err := host.Start(ctx, connect(), host.Config{Run: "r", Fleet: devices, Workers: 1, Problem: l.problem})
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		if rounds.Train {
			group.Go(func() error { return host.Train(ctx) })
		}
	}
	c := coordinator.Config{Run: "r", ModelBits: ruleBits, Round: rounds}
	if rounds.Train {
		c.Learning = aggregate.Learning{
			Model: l.problem.Model, Initial: initial(l), Spec: l.problem.Spec(), Kernel: l.problem.Kernel.Class(), Jobs: jobs,
			HeldOut: l.problem.Set.HeldOut(), Batch: l.batch,
		}
	}
	change(&c)
	var result *coordinator.Result
	group.Go(func() (err error) {
		defer stop()
		result, err = coordinator.Run(ctx, connect(), c)
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return result
}

// initial returns the first model of a lab's problem.
func initial(l *lab) []float32 {
	params := make([]float32, l.problem.Model.Params())
	l.problem.Model.(learn.Model).Init(params, 1)
	return params
}

// reference plays a run by FedAvg without a bus, a host or a job: every update is trained by itself, from the version
// of the model that its task names. It returns the last model, the fingerprint of the clock, and the end of the run.
func reference(t *testing.T, l *lab, devices *fleet.Fleet, c round.Config) (params []float32, fingerprint uint64, stop round.Stop) {
	t.Helper()
	rule, trainer := l.algorithm(t, "fedavg"), newTrainer(t, l)
	return referenceWith(t, l, devices, c, func(tasks []round.Task, versions [][]float32) (next []float32, losses []float64) {
		newest := versions[len(versions)-1]
		var steps, staleness []int
		for _, x := range tasks {
			steps, staleness = append(steps, x.LocalSteps), append(staleness, len(versions)-1-int(x.Model))
		}
		weights, scale := rule.Weigh(algorithm.Equal(len(tasks)), steps, staleness)
		sum := make([]int64, len(newest))
		for i, x := range tasks {
			losses = append(losses, train(t, trainer, versions[x.Model], actors.Assignment{Task: x.Task, Client: x.Client, LocalSteps: x.LocalSteps, StepsDone: x.StepsDone, Rate: x.LearningRate, Batch: l.own(x.Client), Weight: weights[i]}, sum))
		}
		next = slices.Clone(newest)
		rule.Server.Apply(next, sum, scale)
		return next, losses
	})
}

// newTrainer returns a trainer of a lab's problem.
func newTrainer(t *testing.T, l *lab) *actors.Trainer {
	t.Helper()
	trainer, err := actors.NewTrainer(l.problem)
	if err != nil {
		t.Fatal(err)
	}
	return trainer
}

// train does the task of one client, adds its update to sum, and returns its loss before the first step.
func train(t *testing.T, trainer *actors.Trainer, base []float32, a actors.Assignment, sum []int64) float64 {
	t.Helper()
	outcomes, err := trainer.Train(t.Context(), base, nil, []actors.Assignment{a}, sum)
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0].FirstStepLoss
}

// referenceWith is a reference in which advance makes the next model and the losses of a round's tasks and of all
// versions of the model so far.
func referenceWith(t *testing.T, l *lab, devices *fleet.Fleet, c round.Config, advance func(tasks []round.Task, versions [][]float32) ([]float32, []float64)) (params []float32, fingerprint uint64, stop round.Stop) {
	t.Helper()
	machine, err := round.New(c)
	if err != nil {
		t.Fatal(err)
	}
	trainer := newTrainer(t, l)
	versions := [][]float32{initial(l)}
	clock := simclock.New()
	events := []round.Event{{Kind: round.Started}}
	for machine.Phase() != round.Stopped {
		if len(events) == 0 {
			e, _ := clock.Pop()
			events = append(events, round.Event{Kind: round.Due, Timer: e})
		}
		e := events[0]
		events = events[1:]
		out, err := machine.Step(&e)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range out.Timers {
			clock.Schedule(x)
		}
		for _, seq := range out.Cancel {
			clock.Cancel(seq)
		}
		for _, x := range out.Tasks {
			p, err := devices.Plan(devices.Client(x.Client), x.Task, x.LocalSteps, fleet.SameBits(ruleBits), int64(x.Start))
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, round.Event{Kind: round.Planned, Task: x.Task, Client: x.Client, Plan: round.Plan{
				Download: round.Time(p.Download), Compute: round.Time(p.Compute), Upload: round.Time(p.Upload),
				Drops: p.Dropout != fleet.NoPhase, Dropout: round.Time(p.After)}})
		}
		newest := versions[len(versions)-1]
		if len(out.Query) > 0 {
			answer := round.Event{Kind: round.Queried}
			for _, x := range out.Query {
				answer.Losses = append(answer.Losses, train(t, trainer, newest, actors.Assignment{Task: x.Task, Client: x.Client, LocalSteps: 1, StepsDone: x.StepsDone, Rate: 0.3, Batch: l.own(x.Client)}, make([]int64, len(newest))))
			}
			events = append(events, answer)
		}
		if len(out.Train) > 0 {
			next, losses := advance(out.Train, versions)
			versions = append(versions, next)
			trained := round.Event{Kind: round.Trained, Losses: losses}
			for _, loss := range losses {
				trained.Loss += loss / float64(len(losses))
			}
			events = append(events, trained)
		}
		if out.Evaluate {
			events = append(events, round.Event{Kind: round.Evaluated, Metrics: []float64{0}}) // no decision here reads it
		}
		if out.Stopped != nil {
			stop = *out.Stopped
		}
	}
	return versions[len(versions)-1], clock.Fingerprint(), stop
}

// Under every rule a run over the bus has the history and the model of the
// reference, for any hosts and jobs; and where no decision reads a loss, a run
// that trains nothing has that history, too.
func TestRules_ThroughBus(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	l, devices := newLab(t), ruleFleet(t)
	type rules struct {
		name    string
		closing closing.Rule
		choose  selection.Rule
	}
	cases := []rules{
		{"buffered, stale", closing.Buffered{N: 2, StalenessLimit: 1}, nil},
		{"power of choice in turn", closing.Deadline{Seconds: 0.5}, selection.PowerOfChoice{Candidates: 11, Base: selection.RoundRobin{}}},
	}
	for _, rule := range every(closing.Rules, 4) {
		cases = append(cases, rules{closing.Rules.NameOf(rule), rule, nil})
	}
	for _, choose := range every(selection.Rules, 11) {
		cases = append(cases, rules{selection.Rules.NameOf(choose) + " by a deadline", closing.Deadline{Seconds: 0.5}, choose})
	}
	for _, x := range cases {
		t.Run(x.name, func(t *testing.T) {
			c := ruleConfig(l, devices, x.closing, x.choose)
			params, fingerprint, stop := reference(t, l, devices, c)
			for o, want := range map[round.Outcome]bool{round.Accepted: true, round.Dropped: true} {
				if (stop.Outcomes[o] > 0) != want {
					t.Errorf("no task is %v: the test says little", o)
				}
			}
			for _, n := range []struct{ hosts, jobs int }{{1, 1}, {3, 4}} {
				got := ruleRun(t, l, devices, c, n.hosts, n.jobs)
				if got.Fingerprint != fingerprint || got.Stop.Outcomes != stop.Outcomes {
					t.Errorf("%d hosts: fingerprint %x, outcomes %v, want %x, %v", n.hosts, got.Fingerprint, got.Stop.Outcomes, fingerprint, stop.Outcomes)
				}
				if !slices.Equal(got.Params, params) {
					t.Errorf("%d hosts: another model", n.hosts)
				}
				if math.IsNaN(got.Stop.ValidationLoss) {
					t.Errorf("%d hosts: the final model was not measured", n.hosts)
				}
			}
			if registry.NeedsOf(x.choose).Losses {
				return
			}
			c.Train = false
			if got := ruleRun(t, l, devices, c, 1, 1); got.Fingerprint != fingerprint || got.Stop.Outcomes != stop.Outcomes {
				t.Errorf("without training: fingerprint %x, outcomes %v, want %x, %v", got.Fingerprint, got.Stop.Outcomes, fingerprint, stop.Outcomes)
			}
		})
	}
}

// A message carries the local steps of every task.
const _ = uint(bus.MaxLocalSteps - round.MaxLocalSteps)
