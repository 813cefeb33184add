package round

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/keyed"
	"fedpace/learn/metric"
)

// config returns the configuration of a run of ten clients, of which three have tasks in each of three rounds.
func config() Config {
	return Config{
		Seed: 1, Clients: 10, Cohort: 3, Closing: closing.All{},
		Setup: schedule.Setup{K0: 8, Eta0: 0.5}, K: schedule.FixedK{}, Eta: schedule.FixedEta{},
		Window: schedule.WindowConfig{Size: 2}, Plateau: schedule.PlateauConfig{Patience: 2}, Metrics: []metric.Metric{{Name: metric.Accuracy}},
		Train: true, Stop: Limits{Rounds: 3},
	}
}

// hasty is a selection that needs a deadline.
type hasty struct{ selection.Uniform }

// Needs asks for rounds with a deadline.
func (hasty) Needs() selection.Needs { return selection.Needs{Deadline: true} }

// gathering is a selection that says how long a round takes, and can also draw single
// clients.
type gathering struct{ selection.Uniform }

// Limit leaves the number of local steps as it is.
func (gathering) Limit(_ *selection.Setup, _, k int) int { return k }

// Deadline returns the shortest deadline.
func (gathering) Deadline(_ *selection.Setup, _ []int32, _ func(client int) int) Time { return 1 }

// expectAny returns an expected time that grows with the client's number and its steps.
func expectAny(client, steps int) Time { return Time(1 + client*steps) }

// after returns the closing rule of a deadline.
func after(d Time) closing.Rule { return closing.Deadline{Seconds: d.Seconds()} }

func TestConfig_CannotRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"first of too many", func(c *Config) { c.Closing = closing.First{N: 4} }, "n: 4 is more than the cohort (at most 3"},
		{"no time", func(c *Config) { c.Closing = closing.Deadline{} }, "seconds: 0 is out of range (more than 0 and at most 4000000000 seconds)"},
		{"empty buffer", func(c *Config) { c.Closing = closing.Buffered{} }, "n: 0 is out of range (a whole number from 1 to 1000000)"},
		{"negative staleness", func(c *Config) { c.Closing = closing.Buffered{N: 1, StalenessLimit: -1} }, "staleness_limit: -1 is out of range"},
		{"too few candidates", func(c *Config) { c.Select = chosen("power_of_choice", "candidates", 2) }, "candidates: 2 is less than the cohort, which is chosen from them (at least 3)"},
		{"too many candidates", func(c *Config) { c.Select = chosen("power_of_choice", "candidates", 11) }, "candidates: 11 is more than there are clients (at most 10)"},
		{"losses without training", func(c *Config) { c.Train, c.Select = false, chosen("power_of_choice", "candidates", 4) }, "needs training"},
		{"losses in rounds that overlap", func(c *Config) {
			c.Closing, c.Select = closing.Buffered{N: 2}, chosen("power_of_choice", "candidates", 4)
		}, "rounds that do not overlap"},
		{"candidates of candidates", func(c *Config) {
			c.Select = chosen("power_of_choice", "candidates", 4, "from", chosen("power_of_choice", "candidates", 5))
		}, "from: candidates cannot be drawn by asking"},
		{"no deadline to need", func(c *Config) { c.Select = hasty{} }, "rounds with a deadline"},
		{"rounds that overlap and gather", func(c *Config) { c.Closing, c.Select = closing.Buffered{N: 2}, gathering{} }, "the selection needs rounds that do not overlap"},
		{"tiers of nobody knows what", func(c *Config) { c.Select = chosen("tifl", "tiers", 2, "interval", 1) }, "the clients' expected times"},
		{"more tiers than clients", func(c *Config) { c.Select, c.Expect = chosen("tifl", "tiers", 11, "interval", 1), expectAny }, "tiers: 11 is more than there are clients (at most 10)"},
		{"tiers without losses", func(c *Config) {
			c.Train, c.Select, c.Expect = false, chosen("tifl", "tiers", 2, "interval", 1), expectAny
		}, "needs training"},
		{"too many to begin with", func(c *Config) {
			c.Select, c.Expect = chosen("flanp", "begin", 11, "rounds", 1, "patience", 1), expectAny
		}, "begin: 11 is more than there are clients (at most 10)"},
		{"a plateau without losses", func(c *Config) {
			c.Train, c.Select, c.Expect = false, chosen("flanp", "begin", 1, "patience", 1), expectAny
		}, "needs training"},
		{"utilities without sizes", func(c *Config) { c.Select, c.Expect = chosen("oort", "seconds", 1, "window", 1), expectAny }, "numbers of samples"},
		{"an epsilon that grows", func(c *Config) {
			c.Select, c.Expect = chosen("oort", "seconds", 1, "window", 1, "explore", 0.1, "least", 0.2), expectAny
		}, "least: 0.2 is more than explore (at most 0.1)"},
		{"devices without expected times", func(c *Config) {
			c.Select, c.Expect, c.Devices = chosen("flanp", "begin", 1, "rounds", 1, "patience", 1), expectAny, Devices{Count: 1, Sampled: true, Liveness: 1}
		}, "devices that are drawn with the others have none"},
		{"nothing expected", func(c *Config) { c.Closing, c.Select = after(5), chosen("fit") }, "expected times"},
	} {
		bad := config()
		c.change(&bad)
		if _, err := New(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// Wait-for-all: a round lasts as long as its slowest client (Eq. 4).
func TestRound_StragglerSetsTime(t *testing.T) {
	c := config()
	var slowest []Time
	plan := func(x Task) Plan {
		p := Plan{Download: Time(x.Task * 7 % 11), Compute: Time(x.Task * 5 % 13), Upload: Time(x.Task * 3 % 17)}
		for len(slowest) < x.Round {
			slowest = append(slowest, 0)
		}
		slowest[x.Round-1] = max(slowest[x.Round-1], p.Total())
		return p
	}
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
	for i, r := range reports {
		if got := r.End - r.Start; got != slowest[i] {
			t.Errorf("round %d takes %d ns, its slowest client %d", r.Round, got, slowest[i])
		}
	}
}

// Algorithm 1 with K-schedules: a client's steps done grow by K_r when its
// update is accepted, and only then.
func TestSteps_GrowWithAcceptedUpdates(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.K, c.Stop.Rounds = 4, 2, schedule.RoundsK{}, 20
	done := map[int]int64{}
	k := map[int]int{}
	plan := func(x Task) Plan {
		if x.StepsDone != done[x.Client] {
			t.Errorf("task %d: client %d has done %d steps, told %d", x.Task, x.Client, done[x.Client], x.StepsDone)
		}
		drops := x.Task%3 == 0
		if !drops {
			done[x.Client] += int64(x.LocalSteps)
		}
		k[x.Round] = x.LocalSteps
		return Plan{Compute: 1, Drops: drops}
	}
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
	sum := int64(0)
	for _, r := range reports {
		sum += int64(k[r.Round])
		if r.SGDSteps != sum {
			t.Errorf("round %d: %d SGD steps so far, want %d", r.Round, r.SGDSteps, sum)
		}
	}
}

func TestStop_Accuracy(t *testing.T) {
	c := config()
	c.Evaluate.Every, c.Stop = 1, Limits{Rounds: 100, Targets: []metric.Target{{Value: 0.75}}}
	_, _, stop := play(t, c, rand.New(rand.NewPCG(1, 1)), func(Task) Plan { return Plan{Compute: 1} })
	if stop.Rounds != 4 || stop.Metrics[0] != 0.75 { // accuracy is 1 - 1/r
		t.Errorf("stopped after %d rounds at %g: %s", stop.Rounds, stop.Metrics[0], stop.Reason)
	}
}

// Arbitrary events never panic and never lose a task.
func FuzzStep(f *testing.F) {
	f.Add(byte(0), []byte{0, 1, 1, 1, 1, 2, 9, 1, 1, 3, 4, 1, 2, 0, 2, 0, 2, 0, 3, 1})
	f.Add(byte(1), []byte{0, 1, 1, 1, 1, 1, 2, 9, 1, 1, 3, 4, 1, 2, 0, 1, 4, 3, 1, 2, 0, 3, 1})
	f.Add(byte(2), []byte{0, 1, 1, 1, 1, 1, 2, 9, 1, 1, 3, 4, 1, 2, 0, 5, 1, 1, 1})
	// A device joins, answers and falls silent; kinds 6 to 9 are Joined to Invalid.
	f.Add(byte(128), []byte{6, 10, 6, 11, 0, 1, 1, 1, 1, 1, 2, 9, 1, 1, 3, 4, 1, 8, 0, 10, 0, 9, 1, 11, 7, 2, 0, 2, 0, 3, 1})
	f.Add(byte(129), []byte{6, 10, 6, 11, 0, 1, 1, 1, 1, 1, 2, 9, 1, 1, 3, 4, 1, 9, 0, 10, 5, 8, 1, 11, 0, 2, 0, 3, 1, 7, 10})
	f.Fuzz(func(t *testing.T, rule byte, script []byte) {
		c := config()
		c.Closing = after(50)
		switch rule % 4 {
		case 1:
			c.Closing = closing.Buffered{N: 2, StalenessLimit: 1}
		case 2:
			c.Select = chosen("power_of_choice", "candidates", 4)
		case 3:
			c.Available = func(client int, at Time) bool { return (int(at)/8+client)%3 == 0 }
			c.NextChange = func(at Time) (Time, bool) { return at/8*8 + 8, true }
		}
		if rule >= 128 {
			c.Devices = Devices{Count: 2, Liveness: 20, Sampled: rule%2 == 1}
			if rule%4 == 2 {
				c.Devices = Devices{}
			}
		}
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		follow(t, m, &Effects{}, script)
	})
}

// follow gives a machine events as the bytes of script say, and checks its reports.
func follow(t *testing.T, m *Machine, out *Effects, script []byte) {
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	timers := slices.Clone(out.Timers)
	for len(script) > 0 {
		e := Event{Kind: EventKind(next() % 11)}
		switch e.Kind {
		case Planned:
			e.Task, e.Client = uint64(next()), next()
			e.Plan = Plan{Compute: Time(next()), Drops: e.Task%5 == 0}
		case Due:
			if len(timers) == 0 {
				continue
			}
			e.Timer = timers[next()%len(timers)]
		case Trained:
			e.Loss = float64(next())
		case Evaluated:
			e.Metrics = []float64{float64(next()) / 255}
		case Joined, Departed:
			e.Client = next()
		case Silent, Invalid:
			e.Task, e.Client = FirstDeviceTask+uint64(next()), next()
			e.Plan = Plan{Upload: Time(next())}
		case Queried:
			for n := next() % 8; n > 0; n-- {
				e.Losses = append(e.Losses, float64(next()))
			}
		}
		out, err := m.Step(&e)
		if err != nil {
			continue
		}
		timers = append(timers, out.Timers...)
		if r := out.Report; r != nil {
			sum := 0
			for _, n := range r.Outcomes {
				sum += n
			}
			if sum != r.Cohort {
				t.Fatalf("round %d: %d tasks, outcomes %v", r.Round, r.Cohort, r.Outcomes)
			}
		}
	}
}

// One round of 1,000 clients through the machine: what it costs a client-round.
func BenchmarkMachine(b *testing.B) {
	c := config()
	c.Clients, c.Cohort, c.Train, c.Stop = 1_000_000, 1000, false, Limits{Rounds: math.MaxInt}
	m, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	out, _ := m.Step(&Event{Kind: Started})
	var tasks []Task
	var timers []Timer
	b.ReportAllocs()
	for done := 0; done < b.N; {
		tasks = append(tasks[:0], out.Tasks...)
		for _, x := range tasks {
			out, err = m.Step(&Event{Kind: Planned, Task: x.Task, Client: x.Client, Plan: Plan{Compute: 5}})
			if err != nil {
				b.Fatal(err)
			}
		}
		timers = append(timers[:0], out.Timers...)
		for _, x := range timers {
			out, err = m.Step(&Event{Kind: Due, Timer: x})
			if err != nil {
				b.Fatal(err)
			}
			done++
		}
	}
}

// The machine's part at scale: a million clients of whom three in ten are
// available, a cohort of 10,000, a deadline that one in ten misses.
func BenchmarkDeadlineAtScale(b *testing.B) {
	c := config()
	c.Clients, c.Cohort, c.Train, c.Stop = 1_000_000, 10_000, false, Limits{Rounds: math.MaxInt}
	c.Closing = after(50)
	c.Available = func(client int, t Time) bool {
		return keyed.Hash(1, keyed.Availability, uint64(client), uint64(t)>>8) < 3<<61
	}
	c.NextChange = func(t Time) (Time, bool) { return (t>>8 + 1) << 8, true }
	m, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	out, _ := m.Step(&Event{Kind: Started})
	var tasks []Task
	var timers []Timer
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		tasks = append(tasks[:0], out.Tasks...)
		for _, x := range tasks {
			plan := Plan{Compute: 5}
			if x.Client%10 == 0 {
				plan.Compute = 100
			}
			out, err = m.Step(&Event{Kind: Planned, Task: x.Task, Client: x.Client, Plan: plan})
			if err != nil {
				b.Fatal(err)
			}
		}
		timers = append(timers[:0], out.Timers...)
		for _, x := range timers {
			if x.Kind == TaskArrives && x.At > timers[len(timers)-1].At {
				continue // late
			}
			out, err = m.Step(&Event{Kind: Due, Timer: x})
			if err != nil {
				b.Fatal(err)
			}
		}
		done += len(tasks)
	}
}

// Rounds that overlap: 1,000 of a million clients at work, ten updates a round.
func BenchmarkBuffered(b *testing.B) {
	c := config()
	c.Clients, c.Cohort, c.Train, c.Stop = 1_000_000, 1000, false, Limits{Rounds: math.MaxInt}
	c.Closing = closing.Buffered{N: 10}
	m, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	out, _ := m.Step(&Event{Kind: Started})
	tasks := slices.Clone(out.Tasks)
	var timers []Timer // all take equally long: the first issued ends first
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N + len(tasks) {
		if i < len(tasks) {
			out, err = m.Step(&Event{Kind: Planned, Task: tasks[i].Task, Client: tasks[i].Client, Plan: Plan{Compute: 1000}})
		} else {
			x := timers[i-len(tasks)]
			out, err = m.Step(&Event{Kind: Due, Timer: x})
			if err == nil {
				task := out.Tasks[0]
				out, err = m.Step(&Event{Kind: Planned, Task: task.Task, Client: task.Client, Plan: Plan{Compute: 1000}})
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		timers = append(timers, out.Timers...)
	}
}

// What a client costs that nobody asks.
func TestIdle_CostsLittle(t *testing.T) {
	const clients = 1_000_000
	for _, rule := range []selection.Rule{selection.Uniform{}, chosen("round_robin")} {
		c := config()
		c.Clients, c.Select, c.Samples = clients, rule, func(int) int { return 1 }
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := float64(after.HeapAlloc-before.HeapAlloc) / clients; each >= 50 {
			t.Errorf("%T: an idle client costs %.1f bytes, want less than 50", rule, each)
		} else {
			t.Logf("%T: an idle client costs %.1f bytes", rule, each)
		}
		runtime.KeepAlive(m)
	}
}
