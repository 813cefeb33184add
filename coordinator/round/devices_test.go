package round

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	godiff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/keyed"
	"fedpace/registry"
)

// scanDeviceTask reads the number of a device's task, counted from 0, and its client into e, if the command has them.
func scanDeviceTask(t *testing.T, d *datadriven.TestData, e *Event) {
	var n int
	if d.MaybeScanArgs(t, "device-task", &n) {
		e.Task = FirstDeviceTask + uint64(n)
		d.ScanArgs(t, "client", &e.Client)
	}
}

// taskName writes a device's task as d0, d1, ...
func taskName(task uint64) string {
	if task >= FirstDeviceTask {
		return fmt.Sprint("d", task-FirstDeviceTask)
	}
	return fmt.Sprint(task)
}

// drawDevices draws the devices of a run, if it can have any.
func drawDevices(t *rapid.T, c *Config) {
	if !c.Train || selection.QueryOf(c.Select) > 0 || !rapid.Bool().Draw(t, "with devices") {
		return
	}
	c.Epochs = schedule.Epochs{}
	c.Devices = Devices{Count: rapid.IntRange(1, 4).Draw(t, "devices"), Liveness: Time(rapid.IntRange(1, 50).Draw(t, "liveness"))}
	modelled := rapid.IntRange(0, 4).Draw(t, "devices with a class")
	if registry.NeedsOf(c.Select).Speeds {
		modelled = 4
	}
	if rapid.Bool().Draw(t, "sampled") {
		c.Devices.Sampled = true
	}
	c.Devices.Modelled = func(device int) bool { return device < modelled }
}

// anyWorld returns a drawn world, or one without simulated clients.
func anyWorld(t *rapid.T) (Config, func(Task) Plan) {
	c, plan := world(t)
	if alone := c; rapid.Bool().Draw(t, "devices alone") && c.Devices.Count > 0 {
		alone.Clients, alone.Cohort, alone.Devices.Sampled = 0, rapid.IntRange(1, c.Devices.Count).Draw(t, "cohort of devices"), true
		alone.Available, alone.NextChange, alone.Batteries = nil, nil, nil
		if alone.Validate() == nil {
			return alone, plan
		}
	}
	return c, plan
}

// gather has a device join a run that waits for clients, and queues the event that devices have joined.
func (p *player) gather(t failer) {
	p.gathered++
	p.step(t, Event{Kind: Joined, Client: p.config.Clients + p.gathered%p.config.Devices.Count, Samples: p.gathered % 3 * 50})
	p.queue = append(p.queue, Event{Kind: ClientsJoined})
}

// meet has devices join and leave, as a function of how far the run is.
func (p *player) meet(t failer) {
	for i := range p.config.Devices.Count {
		h := keyed.Hash(p.config.Seed, keyed.Availability, uint64(i), uint64(len(p.popped))) % 8
		e := Event{Kind: Joined, Client: p.config.Clients + i}
		switch h {
		case 0:
			e.Kind = Departed
		case 1, 2, 3:
			continue
		}
		p.step(t, e)
	}
}

// answer returns how a client answers its task: devices may also fall silent, be too late or send what cannot count.
func (p *player) answer(x Task) Event {
	e := Event{Kind: Planned, Task: x.Task, Client: x.Client, Plan: p.plan(x)}
	if x.Client < p.config.Clients {
		return e
	}
	e.Plan.Drops, e.Plan.Dropout = false, 0
	switch keyed.Hash(p.config.Seed, keyed.Compute, x.Task) % 5 {
	case 0:
		e.Kind, e.Plan = Silent, Plan{}
	case 4:
		if p.config.Clients == 0 {
			e.Kind = TimedOut
		}
	case 1:
		e.Kind = Invalid
	default:
		e.Samples = int(x.Task % 50)
	}
	return e
}

// The cohorts, numbers and plans of simulated clients are those of the run without
// devices, also their steps where no closing rule lets a device take another's
// place.
func TestDevices_ChangeNoSimulatedTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		c.Train, c.Available, c.NextChange, c.Batteries, c.Server = true, nil, nil, nil, Bandwidth{}
		c.Stop, c.K, c.Epochs = Limits{Rounds: 5}, schedule.RoundsK{}, schedule.Epochs{}
		c.Eta = config().Eta // others may follow the times of devices
		c.Late = nil         // a late client's place is another's
		if closing.Overlaps(c.Closing) || selection.QueryOf(c.Select) > 0 {
			c.Closing, c.Select = closing.All{}, selection.Uniform{}
		}
		closes := func(accepted int, overdue bool) bool {
			return c.Closing.Close(closing.Standing{Cohort: c.Cohort, Accepted: accepted, Overdue: overdue})
		}
		// The rule counts updates, at once or from the deadline on, so devices close rounds, too.
		counts := closes(c.Clients+3, false) || closes(c.Clients+3, true) != closes(0, true)
		if _, ok := c.Closing.(closing.PerRound); ok {
			counts = true
		}
		if needs := registry.NeedsOf(c.Select); counts && (needs.Losses || needs.Times) {
			c.Select = selection.Uniform{} // it follows whose updates were in time
		}
		c.Devices = Devices{Count: 3, Liveness: 20}
		simulated := func(c Config) (tasks []Task) {
			p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
				if x.Client < c.Clients {
					x.Start, x.Model = 0, 0 // a round may make a model of a device's update alone
					if counts {
						x.StepsDone = 0
					}
					tasks = append(tasks, x)
				}
				return plan(x)
			})
			for p.machine.Phase() != Stopped {
				p.turn(t)
			}
			slices.SortFunc(tasks, func(a, b Task) int { return int(a.Task) - int(b.Task) })
			return slices.CompactFunc(tasks, func(a, b Task) bool { return a.Task == b.Task })
		}
		with := simulated(c)
		c.Devices = Devices{}
		if diff := godiff.Diff(simulated(c), with); diff != "" {
			t.Fatalf("devices change what simulated clients are asked: %s", diff)
		}
	})
}

// A round of devices alone says when it closes without those that have no plan, as it then
// does, whatever these take.
func TestDevices_RoundClosesWithout(t *testing.T) {
	for _, x := range []struct {
		name  string
		rule  closing.Rule
		ends  []Time // of the devices that have answered, of 4
		want  Time   // 0: it does not say
		other Time   // that the others take
	}{
		{"all", closing.All{}, []Time{5, 9, 7}, 0, 8},
		{"first", closing.First{N: 2}, []Time{5, 9, 7}, 7, 8},
		{"too few", closing.First{N: 3}, []Time{5, 9}, 0, 8},
		{"a deadline", after(6), []Time{5, 9, 7}, 6, 8},
		{"a deadline that nobody meets", after(6), nil, 6, 8},
		{"a quorum before its deadline", closing.Quorum{N: 2, M: 1, Seconds: 8e-9}, []Time{5, 7}, 7, 9},
		{"a quorum at its deadline", closing.Quorum{N: 3, M: 1, Seconds: 8e-9}, []Time{5, 9}, 8, 9},
		{"a quorum behind its deadline", closing.Quorum{N: 3, M: 2, Seconds: 6e-9}, []Time{5, 7}, 7, 9},
		{"no quorum", closing.Quorum{N: 3, M: 3, Seconds: 6e-9}, []Time{5, 7}, 0, 9},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := config()
			c.Clients, c.Cohort, c.Closing, c.Devices = 0, 4, x.rule, Devices{Count: 4, Liveness: 60, Sampled: true}
			m, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			step := func(e Event) *Effects {
				out, err := m.Step(&e)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			for i := range 4 {
				step(Event{Kind: Joined, Client: i})
			}
			tasks := slices.Clone(step(Event{Kind: Started}).Tasks)
			for i, end := range x.ends {
				step(Event{Kind: Planned, Task: tasks[i].Task, Client: tasks[i].Client, Plan: Plan{Compute: end}})
			}
			if at, ok := m.ClosesAfter(); ok != (x.want > 0) || ok && at != x.want {
				t.Errorf("it closes at %d (%v), want %d", at, ok, x.want)
			}
			kind := TimedOut
			if x.want == 0 {
				kind = Planned
			}
			var out *Effects
			for _, task := range tasks[len(x.ends):] {
				out = step(Event{Kind: kind, Task: task.Task, Client: task.Client, Plan: Plan{Compute: x.other}})
			}
			timers := slices.Clone(out.Timers)
			for m.Phase() == Running {
				slices.SortFunc(timers, func(a, b Timer) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Priority, b.Priority)) })
				next := timers[0]
				timers = timers[1:]
				if step(Event{Kind: Due, Timer: next}); m.Phase() != Running && x.want > 0 && next.At != x.want {
					t.Errorf("it has closed at %d, and %d was said", next.At, x.want)
				}
				if m.Round() > 1 {
					break
				}
			}
		})
	}
}

// Devices that are drawn with the others are drawn as often.
func TestDevices_SampledLikeClients(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Devices = 8, 3, Devices{Count: 2, Liveness: 1, Sampled: true}
	c.Stop = Limits{Rounds: 4000}
	count := make([]int, 10)
	p := newPlayer(failing{t}, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan { return Plan{Compute: 1} })
	for i := range 2 {
		p.step(failing{t}, Event{Kind: Joined, Client: 8 + i})
	}
	p.config.Clients, p.config.Devices.Count = 10, 0 // none comes or goes, or falls silent
	for p.machine.Phase() != Stopped {
		p.turn(failing{t})
	}
	for _, x := range p.trained {
		count[x.Client]++
	}
	for client, n := range count { // 1200 expected, standard deviation 29
		if n < 1055 || n > 1345 {
			t.Errorf("client %d is drawn %d times in 4000 rounds of 3 from 10", client, n)
		}
	}
}

func TestDevices_CannotTakePart(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"power of choice", func(c *Config) { c.Select = chosen("power_of_choice", "candidates", 4) }, "losses of clients without a task, which devices do not tell"},
	} {
		c := config()
		c.Devices = Devices{Count: 1, Liveness: 1}
		x.change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: error %v, want one with %q", x.name, err, x.want)
		}
	}
	m, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Step(&Event{Kind: Joined, Client: 3}); err == nil || !strings.Contains(err.Error(), "client 3") {
		t.Errorf("a simulated client joins: error %v", err)
	}
}
