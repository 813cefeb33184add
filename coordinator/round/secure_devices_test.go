package round

import (
	"math/rand/v2"
	"slices"
	"testing"

	godiff "github.com/google/go-cmp/cmp"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
)

// groupPlayer plays buffered rounds of secure aggregation in which real devices come, leave, fall silent, and answer in
// any way that they can.
type groupPlayer struct {
	t       *testing.T
	config  Config
	machine *Machine
	// random draws what happens, and restores whether the machine is restored from its state after a step; nil: never.
	random, restores *rand.Rand

	timers []Timer
	// asked are the tasks without an answer, and grouped those of them whose second answer is awaited.
	asked   []Task
	grouped map[uint64]bool
	// present says of each device whether it takes part, by the machine's knowledge.
	present []bool
	ended   map[uint64]bool
	reports []Report
	kinds   map[string]int
}

// step has the machine take an event, and takes over the effects.
func (p *groupPlayer) step(e Event) {
	p.t.Helper()
	out, err := p.machine.Step(&e)
	if err != nil {
		p.t.Fatal(err)
	}
	p.timers = append(p.timers, out.Timers...)
	p.timers = slices.DeleteFunc(p.timers, func(x Timer) bool { return slices.Contains(out.Cancel, x.Seq) })
	p.asked = append(p.asked, slices.Clone(out.Tasks)...)
	for _, task := range out.Mask {
		p.grouped[task.Task] = true
		p.asked = append(p.asked, task)
	}
	if n := len(out.Mask); n > 0 && n < p.config.Secure.DeviceMinimum {
		p.t.Fatalf("%d devices mask among each other, want %d", n, p.config.Secure.DeviceMinimum)
	}
	for _, task := range out.Ended {
		if p.ended[task.Task] != task.Revises {
			p.t.Fatalf("task %s ends again", taskName(task.Task))
		}
		p.ended[task.Task] = true
		if task.Client >= p.config.Clients {
			p.kinds[task.Outcome.String()]++
		}
	}
	if out.Report != nil {
		p.reports = append(p.reports, *out.Report)
	}
	if p.restores == nil || p.restores.IntN(4) > 0 {
		return
	}
	p.machine, err = Restore(p.config, p.machine.State())
	if err != nil {
		p.t.Fatal(err)
	}
	pending := p.machine.Pending()
	if p.machine.Phase() != Planning {
		return
	}
	// What is open is asked for again.
	if got := len(pending.Tasks) + len(pending.Mask); got != len(p.asked) {
		p.t.Fatalf("a restored machine asks for %d answers, want %d", got, len(p.asked))
	}
}

// answer returns how a client answers a task.
func (p *groupPlayer) answer(task Task) Event {
	draw := func() Time { return Time(1 + p.random.Int64N(1_000_000_000)) }
	e := Event{
		Kind:   Planned,
		Task:   task.Task,
		Client: task.Client,
		Plan:   Plan{Download: draw(), Compute: draw(), Upload: draw()},
		Stages: &Stages{Keys: draw(), Shares: draw(), Survivors: draw(), Recovery: draw()},
	}
	isSecond := p.grouped[task.Task]
	delete(p.grouped, task.Task)
	device := task.Client - p.config.Clients
	if device < 0 {
		return e
	}
	if isSecond {
		e.Plan.Download = 0
		e.Plan.Compute = 0
	} else {
		e.Stages = nil
	}
	kind := p.random.IntN(20)
	if !p.present[device] {
		kind = 0
	}
	switch kind {
	case 0:
		e.Kind = Silent
		e.Plan = Plan{}
		p.present[device] = false
	case 1:
		e.Kind = TimedOut
		e.Plan = Plan{Compute: draw()}
	case 2:
		e.Kind = Invalid
	}
	return e
}

// meet has a device that is present leave, or another one join.
func (p *groupPlayer) meet() {
	device := p.random.IntN(len(p.present))
	e := Event{Kind: Joined, Client: p.config.Clients + device}
	if p.present[device] {
		e.Kind = Departed
	}
	p.present[device] = !p.present[device]
	p.step(e)
}

// turn takes one step of the run: a client answers, or time goes on.
func (p *groupPlayer) turn() {
	switch {
	case p.machine.Phase() == WaitingForClients:
		for !slices.Contains(p.present, true) || p.random.IntN(2) == 0 {
			p.meet()
		}
		p.step(Event{Kind: ClientsJoined})
	case len(p.asked) > 0:
		i := p.random.IntN(len(p.asked))
		task := p.asked[i]
		p.asked = slices.Delete(p.asked, i, i+1)
		p.step(p.answer(task))
	default:
		if p.random.IntN(5) == 0 {
			p.meet()
		}
		if len(p.timers) == 0 {
			p.t.Fatalf("nothing is on the clock in round %d", p.machine.Round())
		}
		next := slices.MinFunc(p.timers, func(a, b Timer) int {
			if earlier(a, b) {
				return -1
			}
			return 1
		})
		p.timers = slices.DeleteFunc(p.timers, func(x Timer) bool { return x.Seq == next.Seq })
		p.step(Event{Kind: Due, Timer: next})
	}
}

// playGroups plays a drawn run, and returns the reports of its rounds. kinds counts the outcomes of devices' tasks.
func playGroups(t *testing.T, seed uint64, restores bool, kinds map[string]int) []Report {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	const rounds = 8
	n := 3 + random.IntN(4)
	terms := Secure{Neighbours: 4, Threshold: 2, Minimum: 3, DeviceMinimum: 3}
	p := &groupPlayer{
		t:       t,
		random:  random,
		grouped: map[uint64]bool{},
		ended:   map[uint64]bool{},
		kinds:   kinds,
		config: Config{
			Seed:    seed,
			Cohort:  n + random.IntN(4),
			Closing: closing.Buffered{N: n, StalenessLimit: 3},
			K:       schedule.FixedK{},
			Eta:     schedule.FixedEta{},
			Setup:   schedule.Setup{K0: 1, Eta0: 1},
			Window:  schedule.WindowConfig{Size: 1},
			Secure:  &terms,
			Devices: Devices{Count: 14, Liveness: 1000, Sampled: true},
			Stop:    Limits{Rounds: rounds},
		},
	}
	// Half of the runs have simulated clients, beside whom each device takes part.
	if random.IntN(2) == 0 {
		p.config.Clients = 20
		p.config.Devices.Sampled = false
		p.config.Devices.Count = 6
	}
	p.present = make([]bool, p.config.Devices.Count)
	if restores {
		p.restores = rand.New(rand.NewPCG(seed, 2))
	}
	var err error
	p.machine, err = New(p.config)
	if err != nil {
		t.Fatal(err)
	}
	for device := range p.present {
		p.present[device] = true
		p.step(Event{Kind: Joined, Client: p.config.Clients + device})
	}
	p.step(Event{Kind: Started})
	for len(p.reports) < rounds {
		p.turn()
	}
	return p.reports
}

// However devices come, leave and answer, rounds of groups go on, each task has one outcome, and a machine that is
// restored from its state at any step makes the same rounds.
func TestSecure_DevicesOfGroupsLeave(t *testing.T) {
	kinds := map[string]int{}
	for seed := range uint64(200) {
		want := playGroups(t, seed, false, kinds)
		got := playGroups(t, seed, true, map[string]int{})
		for i := range want {
			if diff := godiff.Diff(reportedRound(want[i]), reportedRound(got[i]), godiff.AllowUnexported(expectedRound{})); diff != "" {
				t.Fatalf("seed %d, round %d: restored it differs: %s", seed, i+1, diff)
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"accepted", "late", "lost", "refused", "cancelled"} {
		if kinds[kind] < 10 {
			t.Errorf("only %d tasks of devices are %s", kinds[kind], kind)
		}
	}
}
