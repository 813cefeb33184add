package forecast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
	"fedpace/metrics"
)

// Gain says by what share rounds would be shorter if a class of clients, or a phase of all clients, were
// a tenth faster, or if a class were left out. The run is played again with the change, so that it counts
// which clients rounds wait for after the change. All shares are from 0 to 1.
type Gain struct {
	// Change names what is faster: a class, as in "class phone", or a phase: downloads, computing or
	// uploads.
	Change string `json:"what"`
	// Waited is the share of rounds that lasted until a task of the class: the last accepted one or, if tasks
	// were late at the deadline, the one that would have taken longest. It is 0 for a phase.
	Waited float64 `json:"waited,omitzero"`
	// Clients is the share of clients that are of the class. It is 0 for a phase.
	Clients float64 `json:"clients,omitzero"`
	// ShorterWithout is the share by which rounds are shorter if no client of the class is selected. It is
	// 0 for a phase, and for a class without which rounds are not shorter or have no end.
	ShorterWithout float64 `json:"without,omitzero"`
	// Shorter is the share by which rounds are shorter if Change is a tenth faster.
	Shorter float64 `json:"shorter"`
}

const (
	// faster is how many times as fast a class or phase is made.
	faster = 1.1
	// maxGainClasses bounds the classes that are made faster: those that most rounds wait for.
	maxGainClasses = 8
	// gainTasks is the largest number of tasks of a run that is played again.
	gainTasks = 200_000
)

// gain finds out for whom the rounds wait, and what would shorten them. It plays the run again,
// without learning, with one class of devices or one phase faster, or with a class left out, and
// compares the mean time of a round. It fills f.Gains and f.Uncounted. It does nothing for a run with
// devices of one class or with too many tasks. limit is the end of the run in virtual time.
func (f *Forecast) gain(ctx context.Context, p *problem.Problem, limit round.Time) error {
	classes := p.Fleet.Classes()
	waited := make([]float64, len(classes))
	tasks := make([]metrics.ClassOutcomes, len(classes))
	for i, class := range classes {
		tasks[i].Class = class
	}
	clients := make([]int, len(classes))
	if len(classes) < 2 || f.Rounds == 0 || f.Rounds*tasksOf(&p.Config) > gainTasks {
		return nil
	}
	for client := range p.Config.Clients {
		clients[p.Fleet.Class(client)]++
	}
	// starts holds when each round of the unchanged run began. A task of a changed run meets the slowdown
	// periods and link speeds of that moment, even if its round begins earlier: other slowdown periods would
	// change its time by more than a tenth of the speed does. starts is empty where clients are absent or
	// rounds overlap; a task then meets those of the moment at which it begins.
	var starts []round.Time
	// runLength is the virtual time that the unchanged run takes.
	var runLength round.Time
	// play returns the mean time of a round, in seconds, in a run in which no client of the class excluded
	// (-1: no class) is selected and those phases of a client are faster for which changes is true. It is
	// infinite if the run comes to a standstill without the class.
	play := func(excluded int, changes func(client, phase int) bool, accepted func(*round.TaskReport), closed func(*round.Report) error) (float64, error) {
		c, err := roundsOf(p, limit)
		if err != nil {
			return 0, err
		}
		if available := c.Available; excluded >= 0 {
			c.Available = func(client int, now round.Time) bool {
				return p.Fleet.Class(client) != excluded && (available == nil || available(client, now))
			}
			// A run that takes twice as long has longer rounds, which is all that must be known.
			c.Stop.Time = cmp.Or(c.Stop.Time, 2*runLength)
		}
		usual := answers(&p.Timing)
		t := timing{
			rounds: c,
			task:   accepted,
			report: closed,
			answer: func(t *round.Task) (round.Event, error) {
				as := *t
				if t.Round <= len(starts) {
					as.Start = starts[t.Round-1]
				}
				e, err := usual(&as)
				for i, d := range []*round.Time{&e.Plan.Download, &e.Plan.Compute, &e.Plan.Upload} {
					if changes(t.Client, i) {
						*d = round.Time(float64(*d) / faster)
					}
				}
				return e, err
			},
		}
		stop, _, err := t.play(ctx)
		runLength = cmp.Or(runLength, stop.EndTime)
		// Without the class whose updates were the only ones that count, the run has no end, but the rounds
		// that were played have a length.
		if errors.Is(err, errNoEnd) {
			err = nil
		}
		if excluded >= 0 &&
			(stop.Rounds == 0 || slices.Contains([]string{round.NoClients, round.BatteryEmpty, round.Excluded}, stop.Reason)) {
			return math.Inf(1), err
		}
		return stop.EndTime.Seconds() / float64(max(1, stop.Rounds)), err
	}
	none := func(int, int) bool { return false }
	const nobody = -1
	slowest := nobody
	// done is when the slowest client's task is done, or would have been if it had not been late.
	var done round.Time
	before, err := play(-1, none, func(e *round.TaskReport) {
		if !e.Probe {
			tasks[p.Fleet.Class(e.Client)].Tasks[e.Outcome]++
		}
		if end, waits := metrics.WaitedUntil(e, p.Config.CountsLater()); waits && (slowest == nobody || end >= done) {
			slowest = e.Client
			done = end
		}
	}, func(r *round.Report) error {
		if !p.Config.EverAbsent() && !closing.Overlaps(p.Config.Close) {
			starts = append(starts, r.Start)
		}
		if slowest != nobody {
			waited[p.Fleet.Class(slowest)] += 1 / float64(f.Rounds)
		}
		slowest = nobody
		return nil
	})
	if err != nil || before == 0 {
		return err
	}
	f.Uncounted = metrics.Uncounted(tasks)
	add := func(g Gain, changes func(client, phase int) bool) error {
		after, err := play(-1, changes, nil, nil)
		g.Shorter = 1 - after/before
		f.Gains = append(f.Gains, g)
		return err
	}
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waited[b], waited[a]) })
	for _, i := range order[:min(len(order), maxGainClasses)] {
		g := Gain{
			Change:  "class " + classes[i],
			Waited:  waited[i],
			Clients: float64(clients[i]) / float64(p.Config.Clients),
		}
		if waited[i] > 0 && clients[i] < p.Config.Clients {
			after, err := play(i, none, nil, nil)
			if err != nil {
				return err
			}
			g.ShorterWithout = max(0, 1-after/before)
		}
		if err := add(g, func(client, _ int) bool { return p.Fleet.Class(client) == i }); err != nil {
			return err
		}
	}
	for phase, name := range []string{"downloads", "computing", "uploads"} {
		if err := add(Gain{Change: name}, func(_, changed int) bool { return changed == phase }); err != nil {
			return err
		}
	}
	return nil
}

// percent writes a share with one decimal.
func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// gains puts f.Gains into sentences: for which classes rounds wait, how much shorter rounds would
// be if a class or phase were a tenth faster, and how much without a class. It is empty if nothing
// was varied.
func (f *Forecast) gains() string {
	var waits, list, exclusions []string
	for _, g := range f.Gains {
		if class, ok := strings.CutPrefix(g.Change, "class "); ok {
			waits = append(waits, fmt.Sprintf("%s (%s)", class, percent(g.Waited)))
			if g.ShorterWithout > 0 {
				exclusions = append(
					exclusions,
					fmt.Sprintf(
						" Without %s, %s of the clients, rounds are %s shorter.",
						class,
						percent(g.Clients),
						percent(g.ShorterWithout),
					),
				)
			}
		}
		list = append(list, fmt.Sprintf("%s %s", g.Change, percent(g.Shorter)))
	}
	if list == nil {
		return ""
	}
	return "Rounds wait for " + strings.Join(waits, ", ") + ". A tenth faster, they would be shorter: " +
		strings.Join(list, ", ") + "." + strings.Join(exclusions, "")
}
