package forecast

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/problem"
	"fedpace/internal/keyed"
	"fedpace/learn/metric"
)

// twin is a run with its real devices replaced by simulated clients of their classes.
type twin struct {
	problem *problem.Problem
	rounds  round.Config
	// Client number of the first device.
	first int
	// How many there are.
	devices int
	// Of a device's transfers.
	bits fleet.Bits
	// In place of what its class says; nil: nothing.
	link func(client int) (download, upload round.Time)
	// By round, then device; nil: all are there.
	was [][]presence
	// By client; nil: not known.
	samples map[int]devicelog.Samples
}

// newTwin makes the twin of a run: the same run with a simulated client of its class in place of
// each device. p is the problem of the run, and r what was recorded of its rounds, from which the
// twin takes K_r and who was present.
func newTwin(p *problem.Problem, r *record) (t *twin, err error) {
	c := &p.Config
	t = &twin{
		problem: p,
		first:   c.Clients,
		devices: len(c.Devices.Names),
		bits:    p.DeviceBits(),
		samples: r.samples,
	}
	if t.rounds, err = roundsOf(p, 0); err != nil {
		return nil, err
	}
	t.rounds.Stop = round.Limits{Rounds: len(r.rounds)}
	if !r.future && c.Schedule.Unit != config.Epochs { // else K_r counts parts of epochs, which a run does not report
		t.rounds.K = recordedK{r.rounds}
	}
	if t.link, err = p.ModelledLink(); err != nil {
		return nil, err
	}
	if r.hasEvents {
		each := !t.rounds.Devices.Sampled && !c.CountsLater()
		t.was = presences(r.rounds, t.devices, each)
	}
	return t, nil
}

// roundsOf is what the round machine needs of a problem whose time is played alone, up to
// a virtual time; 0: without such a limit.
func roundsOf(p *problem.Problem, limit round.Time) (round.Config, error) {
	r, err := p.Rounds(limit)
	r.Train = true
	r.Metrics = nil
	r.Evaluate = metric.Timetable{}
	r.EvaluateClients = metric.Timetable{}
	r.Stop.Targets = nil
	return r, err
}

// recordedK is a schedule of K that a run had.
type recordedK struct{ rounds []measured }

// LocalSteps implements [schedule.K].
func (k recordedK) LocalSteps(p schedule.Progress) int {
	return k.rounds[min(p.Round, len(k.rounds))-1].steps
}

// presence is whether a device was there in a round, and fell silent over its task.
type presence struct{ present, lost bool }

// presences returns, for each round and device, whether the device was there and whether it fell
// silent. each says that every present device has a task in every round, so that a device without
// one was absent. Otherwise a device counts as present except from the round in which it fell
// silent until its next task.
func presences(rounds []measured, devices int, each bool) [][]presence {
	list := make([][]presence, len(rounds))
	gone := make([]bool, devices)
	for i := range rounds {
		was := make([]presence, devices)
		for _, t := range rounds[i].tasks {
			if t.device < devices {
				was[t.device] = presence{true, t.lost}
			}
		}
		for d := range was {
			gone[d] = gone[d] && !was[d].present
			was[d].present = was[d].present || !each && !gone[d]
			gone[d] = gone[d] || was[d].lost
		}
		list[i] = was
	}
	return list
}

// presenceOf says whether a device was present in a recorded round, numbered from 1. Beyond
// what was recorded every device is.
func (t *twin) presenceOf(number, device int) presence {
	if number > len(t.was) {
		return presence{present: true}
	}
	return t.was[number-1][device]
}

// draw plays the twin once, with the n-th seed of the devices' fleet, and calls report with each
// round. report must not keep a round's tasks, whose memory is reused.
func (t *twin) draw(ctx context.Context, n int, report func(*measured)) error {
	seed := keyed.Hash(t.problem.Config.Seed, keyed.Twin, uint64(n))
	devices := t.problem.Fleet.Reseeded(seed)
	joined := make([]bool, t.devices)
	paces := make([]pace, t.devices)
	for i := range paces {
		paces[i] = paceOf(t.class(i), seed, i)
	}
	var tasks []deviceTask
	played := timing{
		rounds: t.rounds,
		answer: func(x *round.Task) (round.Event, error) {
			i := x.Client - t.first
			switch {
			case i < 0:
				return planned(t.problem.Fleet, x, t.problem.Bits)
			case t.presenceOf(x.Round, i).lost:
				joined[i] = false
				return round.Event{Kind: round.Silent, Task: x.Task, Client: x.Client}, nil
			}
			e, err := planned(devices, x, t.bits)
			e.Samples = t.samples[x.Client].Answered
			paces[i].apply(&e.Plan)
			if t.link != nil {
				e.Plan.Download, e.Plan.Upload = t.link(x.Client)
			}
			return e, err
		},
		before: func(number int) (list []round.Event) {
			for d := range joined {
				now := t.presenceOf(number, d).present
				switch {
				case now && !joined[d]:
					list = append(
						list,
						round.Event{Kind: round.Joined, Client: t.first + d, Samples: t.samples[t.first+d].Joined},
					)
				case !now && joined[d]:
					list = append(list, round.Event{Kind: round.Departed, Client: t.first + d})
				}
				joined[d] = now
			}
			return list
		},
		task: func(e *round.TaskReport) {
			if e.Client >= t.first {
				tasks = append(tasks, taskOf(e, t.first))
			}
		},
		report: func(r *round.Report) error {
			report(&measured{
				took:  r.End - r.Start,
				steps: r.LocalSteps,
				all:   r.Cohort,
				tasks: tasks,
			})
			tasks = tasks[:0]
			return nil
		},
	}
	stop, _, err := played.play(ctx)
	if err == nil && stop.Rounds < t.rounds.Stop.Rounds {
		err = fmt.Errorf("forecast: the run's simulation ends after %d of its rounds: %s", stop.Rounds, stop.Reason)
	}
	return err
}

// play makes so many draws of the twin, side by side.
func (t *twin) play(ctx context.Context, draws int) ([]*means, error) {
	list := make([]*means, draws)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range list {
		group.Go(func() error {
			list[n] = meansOf(nil, t.devices)
			return t.draw(inner, n, list[n].add)
		})
	}
	return list, group.Wait()
}
