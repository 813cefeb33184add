package run

import (
	"context"
	"errors"
	"fedpace/experiment/folder"
	"fmt"
	"math"
	"sync"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics/live"
	"fedpace/metrics/timeline"
)

// pageSample is how many tasks of the last round the page shows, beside the
// slowest and those of real devices.
const pageSample = 10

// page feeds a run's live page, and leaves it behind. It belongs to the run's
// goroutine.
type page struct {
	hub  *live.Hub
	told *heard
	why  error // the run did not complete

	shown []timeline.Task // reused from round to round
}

// newPage is the page of a run that has not begun, with what the user has been
// told already.
func newPage(t *tally, limit round.Time, told *heard) (*page, error) {
	p, c := t.p, &t.p.config
	about := live.About{
		Name: c.Name, Task: string(c.Task), Schedule: c.Schedule.Name(), Closing: fmt.Sprint(closing(c.Close)),
		Version: t.o.Version, Seed: c.Seed, Clients: c.Clients, Devices: c.Devices.Names, Classes: p.fleet.Classes(), Cohort: c.Cohort, Window: c.Schedule.Window,
		Rounds: c.Stop.Rounds, VirtualTotal: limit.Seconds(), TargetAccuracy: c.Stop.ValidationAccuracy, Started: t.started,
	}
	if c.Train {
		about.Data = describe(p.set.Info())
	}
	about.Deadline = closing(c.Close).Deadline()
	g := &page{hub: live.New(about), told: told}
	told.to(g.hub)
	return g, nil
}

// report takes a round once the accounts and the progress have it.
func (g *page) report(t *tally, r *timeline.Record) {
	g.hub.Round(live.Round{Report: &r.Report, Tasks: g.few(r.Tasks), Fraction: t.progress.Fraction(), Spent: t.accounts.shown()})
}

// few are the tasks that the page shows, of all that are kept of a round.
func (g *page) few(tasks []timeline.Task) []timeline.Task {
	g.shown = g.shown[:0]
	others := 0
	for i := range tasks {
		if t := &tasks[i]; !t.Slow && !t.Real {
			if others++; others > pageSample {
				continue
			}
		}
		g.shown = append(g.shown, tasks[i])
	}
	return g.shown
}

// shown is what counts so far, for the page.
func (a *accounts) shown() live.Spending {
	s := &a.total
	return live.Spending{
		ClientSeconds: live.Split{Useful: round.Time(s.time.Useful).Seconds(), Wasted: round.Time(s.time.Wasted).Seconds()},
		Steps:         live.Split{Useful: float64(s.steps.Useful), Wasted: float64(s.steps.Wasted)},
		Bytes:         live.Split{Useful: float64(s.bytes.Useful), Wasted: float64(s.bytes.Wasted)},
	}
}

// end shows how the run ended and leaves the page in its folder.
func (g *page) end(results *folder.Results, s folder.Summary) error {
	text, err := s.JSON()
	if err != nil {
		return err
	}
	end := live.End{Completed: s.Completed, Elapsed: time.Duration(s.WallSeconds * float64(time.Second)), Summary: text}
	end.Why = why(g.why)
	if s.ValidationLoss != nil {
		end.Final = &live.Validation{Loss: *s.ValidationLoss, Accuracy: math.NaN()}
		if s.ValidationAccuracy != nil {
			end.Final.Accuracy = *s.ValidationAccuracy
		}
	}
	g.hub.End(end)
	return results.Write(folder.PageFile, g.hub.WritePage)
}

// leave tells who still watches that the run is over, where it could not be
// shown how it ended.
func (g *page) leave(err error) {
	g.hub.End(live.End{Why: why(err)})
}

// why says why a run ended before its time.
func why(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "it was interrupted, and fedpace resume goes on with it."
	}
	return err.Error()
}

// heard holds what the user was told before there was a page to show it.
type heard struct {
	tell  func(string) // the user; nil: nobody
	mu    sync.Mutex
	hub   *live.Hub // nil: none yet
	lines []string
}

// overheard are the options with notices that the page hears, too.
func (o Options) overheard() (Options, *heard) {
	h := &heard{tell: o.Notice}
	o.Notice = func(line string) {
		h.hear(line)
		h.aside(line)
	}
	if others := o.Others; others != nil {
		o.Others = func(line string) {
			h.hear(line)
			others(line)
		}
	}
	return o, h
}

// hear keeps a notice for the page.
func (h *heard) hear(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hub != nil {
		h.hub.Notice(line)
	} else {
		h.lines = append(h.lines, line)
	}
}

// aside tells the user what the page need not show.
func (h *heard) aside(line string) {
	if h.tell != nil {
		h.tell(line)
	}
}

// to shows the notices on a page, those so far and those to come.
func (h *heard) to(hub *live.Hub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, line := range h.lines {
		hub.Notice(line)
	}
	h.hub, h.lines = hub, nil
}
