package round

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/simclock"
)

// cells are batteries of tests: they hold up to 40 J, of which a task needs 10 at its
// start. A task takes 1 J a nanosecond, and charging gives 2 in three. Every third
// client has none, and every fifth is never charged.
type cells struct{}

// Start returns a client's charge at the start, below 0 for every third client, which has no battery.
func (cells) Start(client int) float64 {
	if client%3 == 0 {
		return -1
	}
	return float64(8 + client%4*10)
}

// Charged returns the charge after some time without a task. Every fifth client cannot charge.
func (cells) Charged(client int, joules float64, since, now Time) float64 {
	if client%5 == 0 {
		return joules
	}
	return min(40, joules+2*float64((now-since)/3))
}

// Spent returns what a task has used: one joule in each nanosecond.
func (cells) Spent(_ int, p Plan, after Time) float64 { return float64(min(after, p.Total())) }

// Ready returns when the battery holds the 10 J that a task needs.
func (c cells) Ready(client int, joules float64, since Time) Time {
	switch {
	case joules >= 10:
		return since
	case client%5 == 0:
		return simclock.Never
	}
	return since + 3*Time(math.Ceil((10-joules)/2))
}

// ledger follows the batteries by what the machine says of its tasks.
type ledger struct {
	Batteries
	held []float64
	at   []Time
}

// newLedger returns the charges of the clients at the start of a run.
func newLedger(c *Config) *ledger {
	if c.Batteries == nil {
		return &ledger{}
	}
	l := &ledger{Batteries: c.Batteries, held: make([]float64, c.Clients), at: make([]Time, c.Clients)}
	for client := range l.held {
		l.held[client] = l.Start(client)
	}
	return l
}

// issue notes a task that is issued now, and fails the test if its battery does not allow it or its charge is another.
func (l *ledger) issue(t failer, x *Task, now Time) {
	if x.Client >= len(l.held) || l.held[x.Client] < 0 {
		if x.Joules != 0 {
			t.Fatalf("task %d of client %d, who has no battery, has %g J", x.Task, x.Client, x.Joules)
		}
		return
	}
	if ready := l.Ready(x.Client, l.held[x.Client], l.at[x.Client]); ready > now {
		t.Fatalf("task %d is for client %d at %d, whose battery is ready at %d", x.Task, x.Client, now, ready)
	}
	l.held[x.Client], l.at[x.Client] = l.Charged(x.Client, l.held[x.Client], l.at[x.Client], now), now
	if x.Joules != l.held[x.Client] {
		t.Fatalf("task %d of client %d at %d has %g J, want %g", x.Task, x.Client, now, x.Joules, l.held[x.Client])
	}
}

// end notes what a task that has ended has used.
func (l *ledger) end(e *TaskReport) {
	if e.Client < len(l.held) && l.held[e.Client] >= 0 {
		l.held[e.Client], l.at[e.Client] = max(0, l.held[e.Client]-l.Spent(e.Client, e.Plan, e.End-e.Start)), e.End
	}
}

// idle fails the test if the clock moves on to next although a client without a task was there before, with a battery
// that had become ready, while the cohort was not full.
func (p *player) idle(t failer, next Time) {
	c := &p.config
	if c.Batteries == nil {
		return
	}
	slots := c.Cohort
	for _, x := range p.underway {
		switch {
		case closing.Overlaps(c.Closing) && (x.Client < c.Clients || c.Devices.Sampled):
			slots--
		case !closing.Overlaps(c.Closing) && x.Round == p.machine.Round():
			return // a round has its clients
		}
	}
	for client, held := range p.ledger.held {
		if slots < 1 || held < 0 || p.atWork[client] {
			continue
		}
		ready := p.ledger.Ready(client, held, p.ledger.at[client])
		if ready > p.now && ready < next && (c.Available == nil || c.Available(client, ready)) {
			t.Fatalf("client %d could have a task at %d, and from %d the clock goes on to %d", client, ready, p.now, next)
		}
	}
}

// Three rounds of one client by hand. It starts with 18 J and its tasks take 12 ns:
// 6 J are left at 12. At 2 J in 3 ns it has 10 J at 18, where the second round opens,
// and its task, which drops out when they are used up, ends it at 28. From 0 J to 10
// takes 15 ns.
func TestBatteries_RoundWaits(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Batteries = 2, 1, cells{}
	c.Available = func(client int, _ Time) bool { return client == 1 }
	c.NextChange = func(Time) (Time, bool) { return 0, false }
	c.Stop = Limits{Rounds: 3}
	var joules []float64
	reports, _, stop := play(failing{t}, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		joules = append(joules, x.Joules)
		return Plan{Compute: 12, Drops: x.Joules < 12, Dropout: Time(x.Joules)}
	})
	if want := []float64{18, 10, 10}; !slices.Equal(joules, want) {
		t.Errorf("tasks have %v J, want %v", joules, want)
	}
	for i, want := range []struct {
		start, end Time
		outcome    Outcome
	}{{0, 12, Accepted}, {18, 28, Dropped}, {43, 53, Dropped}} {
		if r := reports[i]; r.Start != want.start || r.End != want.end || r.Outcomes[want.outcome] != 1 {
			t.Errorf("round %d is from %d to %d, %v; want %+v", r.Round, r.Start, r.End, r.Outcomes, want)
		}
	}
	if stop.Rounds != 3 {
		t.Errorf("stopped as %+v", stop)
	}
}

// A run whose batteries are empty and never charged is over.
func TestBatteries_EmptyEndsRun(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Batteries, c.Stop = 6, 1, single{}, Limits{Rounds: 9}
	reports, _, stop := play(failing{t}, c, rand.New(rand.NewPCG(1, 1)), func(Task) Plan { return Plan{Compute: 9, Upload: 1} })
	if stop.Reason != BatteryEmpty || len(reports) != 6 {
		t.Errorf("%d rounds, stopped as %+v", len(reports), stop)
	}
}

// single are batteries for one task, without a charger.
type single struct{ cells }

// Start returns a full battery of 10 J.
func (single) Start(int) float64 { return 10 }

// Charged returns the charge as it was: nothing charges the battery.
func (single) Charged(_ int, joules float64, _, _ Time) float64 { return joules }

// Ready returns that only a full battery allows a task.
func (single) Ready(_ int, joules float64, since Time) Time {
	if joules < 10 {
		return simclock.Never
	}
	return since
}

// chargers are batteries for one task, by client with the time that they take to be
// charged again.
type chargers []Time

// Start returns a full battery of 10 J.
func (chargers) Start(int) float64 { return 10 }

// Charged returns a full battery.
func (chargers) Charged(int, float64, Time, Time) float64 { return 10 }

// Spent returns that each task empties the battery.
func (chargers) Spent(int, Plan, Time) float64 { return 10 }

// Ready returns when an empty battery is full again, after the client's own time.
func (c chargers) Ready(client int, joules float64, since Time) Time {
	if joules == 10 {
		return since
	}
	return since + c[client]
}

// Client 0 takes 100 ns and is ready again after 1,000 more; client 1 takes 200 and is
// ready after 50. So client 1 has a task again at 250, although at 100 it was at work and
// the next time at which anybody was expected was 1,100. Where rounds do not overlap
// client 0 waits for the task that client 1 has from 1,000 to 1,200.
func TestBatteries_ReadyEarlier(t *testing.T) {
	for name, x := range map[string]struct {
		closing closing.Rule
		late    closing.Lateness
		want    [2][]Time
	}{
		"buffered":  {closing.Buffered{N: 1}, nil, [2][]Time{{0, 1100}, {0, 250, 500, 750, 1000, 1250}}},
		"late: use": {closing.First{N: 1}, closing.Use{Limit: 9}, [2][]Time{{0, 1200}, {0, 250, 500, 750, 1000}}},
	} {
		c := config()
		c.Clients, c.Cohort, c.Batteries, c.Closing, c.Late, c.Stop = 2, 2, chargers{1000, 50}, x.closing, x.late, Limits{Time: 1260}
		var starts [2][]Time
		play(failing{t}, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan {
			starts[task.Client] = append(starts[task.Client], task.Start)
			return Plan{Compute: []Time{100, 200}[task.Client]}
		})
		if !slices.Equal(starts[0], x.want[0]) || !slices.Equal(starts[1], x.want[1]) {
			t.Errorf("%s: tasks start at %v, want %v", name, starts, x.want)
		}
	}
}

// The same of drawn runs whose clients all run on batteries of their own, see idle.
func TestBatteries_ReadyIsNotAwaited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, plan := world(t)
		c.SiteRounds = 0
		c.Available, c.NextChange, c.Server, c.Leaves, c.Select, c.Stop = nil, nil, Bandwidth{}, nil, selection.Uniform{}, Limits{Rounds: 12}
		charging := make(chargers, c.Clients)
		for client := range charging {
			charging[client] = Time(rapid.IntRange(1, 200).Draw(t, "charging"))
		}
		c.Batteries, c.Closing, c.Late = charging, closing.Buffered{N: 1}, nil
		if rapid.Bool().Draw(t, "late: use") {
			c.Closing, c.Late = closing.First{N: 1}, closing.Use{Limit: 9}
		}
		play(t, c, rand.New(rand.NewPCG(1, 1)), plan)
	})
}

// rising charges a joule a nanosecond up to 10, and allows a task from 5 on. Odd clients
// have no battery. A task takes a joule for each nanosecond of its computing.
type rising struct{}

// Start returns 4 J for clients of even number; the others have no battery.
func (rising) Start(client int) float64 { return 4 - 6*float64(client%2) }

// Charged returns the charge after one joule in each nanosecond, at most 10 J.
func (rising) Charged(_ int, joules float64, since, now Time) float64 {
	return min(10, joules+float64(now-since))
}

// Ready returns when the battery holds the 5 J that a task needs.
func (rising) Ready(_ int, joules float64, since Time) Time { return since + Time(max(0, 5-joules)) }

// Spent returns one joule for each nanosecond of computing.
func (rising) Spent(_ int, p Plan, _ Time) float64 { return float64(p.Compute) }

func TestBatteries_Followed(t *testing.T) {
	c := &Config{Clients: 3, Batteries: rising{}}
	b := newBatteries(c.Batteries, c.Clients, nil)
	if len(b.charges) != 3 || b.charges[1].Joules != -1 {
		t.Fatalf("they start with %v", b.charges)
	}
	free := func(int) bool { return false }
	if b.chargeOf(0) == nil || b.chargeOf(1) != nil || b.chargeOf(7) != nil || b.allows(0, 0) || !b.allows(0, 1) || !b.allows(1, 0) || b.joules(0) != 4 || b.joules(1) != 0 {
		t.Errorf("at the start: %+v", b)
	}
	if charged, next := b.nextReady(0, func(client int) bool { return client == 1 }); charged || next != 1 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	b.stopCharging(0, 3) // with 7
	b.discharge(&TaskState{Client: 0, Start: 3, Compute: 6}, 9)
	if b.joules(0) != 1 || b.charges[0] != (Charge{1, 9}) || b.allows(0, 12) || !b.allows(0, 13) {
		t.Errorf("after a task: %+v", b)
	}
	if charged, next := b.nextReady(9, free); !charged || next != 13 {
		t.Errorf("the next is ready at %d; one is: %v", next, charged)
	}
	again := newBatteries(c.Batteries, c.Clients, []Charge{{1, 9}, {Joules: -1}, {4, 0}})
	if again.allows(0, 12) || !again.allows(0, 13) {
		t.Error("batteries from the same charges are others")
	}
	var none *batteries
	none.stopCharging(0, 1)
	none.discharge(&TaskState{}, 1)
	if none.chargeOf(0) != nil || !none.allows(0, 0) || none.joules(0) != 0 {
		t.Error("clients without batteries have some")
	}
}
