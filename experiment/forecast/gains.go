package forecast

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/experiment/problem"
)

// Gain is by what part rounds would be shorter if a class of clients, or all clients in a phase, were
// a tenth faster: the run is played again with it, so who waits for whom then is what counts.
type Gain struct {
	What    string  `json:"what"`            // "class phone", or "compute"
	Waited  float64 `json:"waited,omitzero"` // part of the rounds whose last accepted update was of the class
	Shorter float64 `json:"shorter"`
}

const (
	faster     = 1.1
	mostGained = 8       // classes, those that most rounds wait for
	gainTasks  = 200_000 // a run of more tasks is not played again
)

// gain plays a run again that was played whole, and has simulated clients alone.
func (f *Forecast) gain(ctx context.Context, p *problem.Problem, limit round.Time) error {
	classes := p.Fleet.Classes()
	waited := make([]float64, len(classes))
	if len(classes) < 2 || f.Rounds == 0 || f.Rounds*tasksOf(&p.Config) > gainTasks {
		return nil
	}
	// play returns the mean time of a round in which some phases of some clients are faster.
	play := func(changes func(client, phase int) bool, accepted func(*round.TaskReport), closed func()) (float64, error) {
		c, err := roundsOf(p, limit)
		if err != nil {
			return 0, err
		}
		usual := answers(&p.Timing)
		t := timing{
			rounds: c, task: accepted, report: func(*round.Report) error { closed(); return nil },
			answer: func(t *round.Task) (round.Event, error) {
				e, err := usual(t)
				for i, d := range []*round.Time{&e.Plan.Download, &e.Plan.Compute, &e.Plan.Upload} {
					if changes(t.Client, i) {
						*d = round.Time(float64(*d) / faster)
					}
				}
				return e, err
			},
		}
		stop, _, err := t.play(ctx)
		return stop.At.Seconds() / float64(max(1, stop.Rounds)), err
	}
	nobody, never := func(*round.TaskReport) {}, func() {}
	last := round.TaskReport{Client: -1}
	before, err := play(func(int, int) bool { return false }, func(e *round.TaskReport) {
		if e.Outcome == round.Accepted && (last.Client < 0 || e.End >= last.End) {
			last = *e
		}
	}, func() {
		if last.Client >= 0 {
			waited[p.Fleet.Class(last.Client)] += 1 / float64(f.Rounds)
		}
		last.Client = -1
	})
	if err != nil || before == 0 {
		return err
	}
	add := func(what string, waited float64, changes func(client, phase int) bool) error {
		after, err := play(changes, nobody, never)
		f.Gains = append(f.Gains, Gain{what, waited, 1 - after/before})
		return err
	}
	order := make([]int, len(classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(waited[b], waited[a]) })
	for _, i := range order[:min(len(order), mostGained)] {
		if err := add("class "+classes[i], waited[i], func(client, _ int) bool { return p.Fleet.Class(client) == i }); err != nil {
			return err
		}
	}
	for phase, name := range []string{"downloads", "computing", "uploads"} {
		if err := add(name, 0, func(_, of int) bool { return of == phase }); err != nil {
			return err
		}
	}
	return nil
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// gains are the gains in words.
func (f *Forecast) gains() string {
	var waits, list []string
	for _, g := range f.Gains {
		if class, ok := strings.CutPrefix(g.What, "class "); ok {
			waits = append(waits, fmt.Sprintf("%s (%s)", class, percent(g.Waited)))
		}
		list = append(list, fmt.Sprintf("%s %s", g.What, percent(g.Shorter)))
	}
	if list == nil {
		return ""
	}
	return "Rounds wait for " + strings.Join(waits, ", ") + ". A tenth faster, they would be shorter: " + strings.Join(list, ", ") + "."
}
