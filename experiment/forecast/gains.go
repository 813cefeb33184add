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
)

// Gain is by what part rounds would be shorter if a class of clients, or all clients in a phase, were
// a tenth faster, or a class were left out: the run is played again with it, so who waits for whom then
// is what counts.
type Gain struct {
	// "class phone", or "compute".
	Change string `json:"what"`
	// Part of the rounds whose last accepted update was of the class.
	Waited float64 `json:"waited,omitzero"`
	// Part of them that is of the class.
	Clients float64 `json:"clients,omitzero"`
	// Part by which rounds are shorter if nobody of the class is asked.
	ShorterWithout float64 `json:"without,omitzero"`
	Shorter        float64 `json:"shorter"`
}

const (
	faster     = 1.1
	mostGained = 8       // classes, those that most rounds wait for
	gainTasks  = 200_000 // a run of more tasks is not played again
)

// gain finds out for whom the rounds wait, and what would shorten them. It plays the run again,
// without learning, with one class of devices or one phase faster, or with a class left out, and
// compares the mean time of a round. It fills f.Gains. It does nothing for a run with devices of
// one class or with too many tasks. limit is the end of the run in virtual time.
func (f *Forecast) gain(ctx context.Context, p *problem.Problem, limit round.Time) error {
	classes := p.Fleet.Classes()
	waited := make([]float64, len(classes))
	clients := make([]int, len(classes))
	if len(classes) < 2 || f.Rounds == 0 || f.Rounds*tasksOf(&p.Config) > gainTasks {
		return nil
	}
	for client := range p.Config.Clients {
		clients[p.Fleet.Class(client)]++
	}
	// A task meets the spells of slowness and the links of the moment at which its round begins in the run
	// itself, also where the round now begins earlier: other spells would change the time by more than a
	// tenth of the speed does. Where clients are absent the moment is the new one.
	var starts []round.Time
	var runLength round.Time // how long the run itself is
	// play returns the mean time of a round in which a class (-1: none) is not asked and some phases of
	// some clients are faster. Where the run stands still without the class, a round has no end.
	play := func(excluded int, changes func(client, phase int) bool, accepted func(*round.TaskReport), closed func(*round.Report) error) (float64, error) {
		c, err := roundsOf(p, limit)
		if err != nil {
			return 0, err
		}
		if available := c.Available; excluded >= 0 {
			c.Available = func(client int, now round.Time) bool {
				return p.Fleet.Class(client) != excluded && (available == nil || available(client, now))
			}
			c.Stop.Time = cmp.Or(c.Stop.Time, 2*runLength) // then rounds are longer
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
		if errors.Is(err, errNoEnd) { // without a class, whose updates were the only ones: its rounds have a length
			err = nil
		}
		if excluded >= 0 &&
			(stop.Rounds == 0 || slices.Contains([]string{round.NoClients, round.BatteryEmpty, round.Excluded}, stop.Reason)) {
			return math.Inf(1), err
		}
		return stop.EndTime.Seconds() / float64(max(1, stop.Rounds)), err
	}
	none := func(int, int) bool { return false }
	last := round.TaskReport{Client: -1}
	before, err := play(-1, none, func(e *round.TaskReport) {
		if e.Outcome == round.Accepted && (last.Client < 0 || e.End >= last.End) {
			last = *e
		}
	}, func(r *round.Report) error {
		if !p.Config.EverAbsent() && !closing.Overlaps(p.Config.Close) {
			starts = append(starts, r.Start)
		}
		if last.Client >= 0 {
			waited[p.Fleet.Class(last.Client)] += 1 / float64(f.Rounds)
		}
		last.Client = -1
		return nil
	})
	if err != nil || before == 0 {
		return err
	}
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
	for _, i := range order[:min(len(order), mostGained)] {
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
	return "Rounds wait for " + strings.Join(
		waits,
		", ",
	) + ". A tenth faster, they would be shorter: " + strings.Join(list, ", ") + "." + strings.Join(exclusions, "")
}
