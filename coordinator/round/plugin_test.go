package round_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
)

// most is a closing rule of another package: a share of the cohort, or after
// the deadline the first update that is there.
type most struct {
	Share   float64 `key:"share" range:"(0,1]" help:"part of the cohort that closes a round"`
	Seconds float64 `key:"seconds" range:"(0,1e6]" unit:"seconds" help:"after it one update is enough"`
}

// Deadline returns the virtual time from the start of a round to its deadline.
func (c most) Deadline() round.Time { return round.Time(c.Seconds * 1e9) }

// Close reports whether the share of the cohort has been accepted, or one update after the deadline.
func (c most) Close(now closing.Standing) bool {
	return float64(now.Accepted) >= c.Share*float64(now.Cohort) || now.Overdue && now.Accepted > 0
}

// inTurn is a selection of another package.
type inTurn struct{}

// Order returns an order in which all clients have their turns.
func (inTurn) Order(s selection.Setup) (selection.Order, error) { return &turns{Setup: s}, nil }

// Needs asks for rounds that do not overlap.
func (inTurn) Needs() selection.Needs { return selection.Needs{Rounds: true} }

type turns struct {
	selection.Setup
	first, given int
}

// Start begins a round with the clients after those of the round before.
func (o *turns) Start(number int, _ selection.Time) { o.first, o.given = (number-1)*o.Cohort, 0 }

// Next returns the next client, and false after all clients had a turn in the round.
func (o *turns) Next() (client int, ok bool) {
	o.given++
	return (o.first + o.given - 1) % o.Clients, o.given <= o.Clients
}

// init registers the rule and the selection under the names by which a configuration chooses them.
func init() {
	closing.Rules.Register("most", "most of the cohort", most{})
	selection.Rules.Register("in_turn", "all in turn", inTurn{})
}

// pluggedIn returns the configuration of three rounds with the rule and the selection of this file.
func pluggedIn() round.Config {
	return round.Config{
		Clients: 7, Cohort: 4, Closing: most{Share: 0.75, Seconds: 100e-9}, Select: inTurn{},
		Setup: schedule.Setup{K0: 1, Eta0: 0.1}, K: schedule.FixedK{}, Eta: schedule.FixedEta{},
		Window: schedule.WindowConfig{Size: 1}, Plateau: schedule.PlateauConfig{Patience: 1}, Stop: round.Limits{Rounds: 3},
	}
}

// Round 1 closes with three updates of four. In round 2 only one task is done
// by the deadline, in round 3 none: that round goes on to its first update.
func Example() {
	m, err := round.New(pluggedIn())
	if err != nil {
		panic(err)
	}
	takes := [3][7]round.Time{{10, 20, 30, 40}, {200, 300, 0, 0, 400, 50, 600}, {0, 500, 300, 300, 400}}
	var timers []round.Timer
	events := []round.Event{{Kind: round.Started}}
	for m.Phase() != round.Stopped {
		if len(events) == 0 {
			slices.SortFunc(timers, func(a, b round.Timer) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Seq, b.Seq)) })
			events, timers = append(events, round.Event{Kind: round.Due, Timer: timers[0]}), timers[1:]
		}
		out, err := m.Step(&events[0])
		if err != nil {
			panic(err)
		}
		events = events[1:]
		if r := out.Report; r != nil {
			fmt.Printf("round %d, %d ns: %d accepted, %d late, %d cancelled\n", r.Round, r.End-r.Start,
				r.Outcomes[round.Accepted], r.Outcomes[round.Late], r.Outcomes[round.Cancelled])
		}
		for _, x := range out.Tasks {
			fmt.Println("task", x.Task, "to client", x.Client)
			events = append(events, round.Event{
				Kind: round.Planned, Task: x.Task, Client: x.Client, Plan: round.Plan{Compute: takes[x.Round-1][x.Client]},
			})
		}
		timers = append(timers, out.Timers...)
		timers = slices.DeleteFunc(timers, func(t round.Timer) bool { return slices.Contains(out.Cancel, t.Seq) })
	}
	// Output:
	// task 1 to client 0
	// task 2 to client 1
	// task 3 to client 2
	// task 4 to client 3
	// round 1, 30 ns: 3 accepted, 0 late, 1 cancelled
	// task 5 to client 4
	// task 6 to client 5
	// task 7 to client 6
	// task 8 to client 0
	// round 2, 100 ns: 1 accepted, 3 late, 0 cancelled
	// task 9 to client 1
	// task 10 to client 2
	// task 11 to client 3
	// task 12 to client 4
	// round 3, 300 ns: 1 accepted, 3 late, 0 cancelled
}

func TestPlugin_MustFit(t *testing.T) {
	c := pluggedIn()
	c.Closing = closing.Buffered{N: 2}
	if _, err := round.New(c); err == nil {
		t.Error("an order that draws no single clients is taken for rounds that overlap")
	}
}
