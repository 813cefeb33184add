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

// counterpart is a run with its real devices replaced by simulated clients of their classes.
type counterpart struct {
	problem *problem.Problem
	rounds  round.Config
	// first is the client number of the first device, and devices the number of devices.
	first   int
	devices int
	// bits are the sizes of a device's transfers.
	bits fleet.Bits
	// link returns the times of a client's transfers, in place of those of its class. It is nil if the
	// times of the class count.
	link func(client int) (download, upload round.Time)
	// recorded says for each round, then for each device, whether it was present. It is nil if all always are.
	recorded [][]presence
	// samples holds what devices reported of their samples, by client. It is nil if that is not known.
	samples map[int]devicelog.Samples
}

// newCounterpart makes the twin of a run: the same run with a simulated client of its class in place of
// each device. p is the problem of the run, and r what was recorded of its rounds, from which the
// twin takes K_r and who was present.
func newCounterpart(p *problem.Problem, r *record) (t *counterpart, err error) {
	c := &p.Config
	t = &counterpart{
		problem: p,
		first:   c.Clients,
		devices: len(c.Devices.Names),
		bits:    p.DeviceBits(),
		samples: r.samples,
	}
	t.rounds, err = roundsOf(p, 0)
	if err != nil {
		return nil, err
	}
	t.rounds.Stop = round.Limits{Rounds: len(r.rounds)}
	// A run reports K_r in local steps. Where K_r counts epochs, the schedule itself must say it.
	if !r.isFuture && c.Schedule.Unit != config.Epochs {
		t.rounds.K = recordedK{r.rounds}
	}
	t.link, err = p.ModelledLink()
	if err != nil {
		return nil, err
	}
	if r.hasEvents {
		hasTaskEachRound := !t.rounds.Devices.Sampled && !c.CountsLater()
		t.recorded = presences(r.rounds, t.devices, hasTaskEachRound)
	}
	return t, nil
}

// roundsOf returns the configuration of the round machine for a problem of which only the time is played: its
// jobs are answered at once, and nothing is evaluated. limit is the virtual time at which the run ends, 0 for
// none.
func roundsOf(p *problem.Problem, limit round.Time) (round.Config, error) {
	r, err := p.Rounds(limit)
	r.Train = true
	r.Metrics = nil
	r.Evaluate = metric.Timetable{}
	r.EvaluateClients = metric.Timetable{}
	r.Stop.Targets = nil
	return r, err
}

// recordedK is the schedule with the K_r that a run had. After the recorded rounds, K stays at the last.
type recordedK struct{ rounds []roundTimes }

// LocalSteps implements [schedule.K].
func (k recordedK) LocalSteps(p schedule.Progress) int {
	return k.rounds[min(p.Round, len(k.rounds))-1].steps
}

// presence is whether a device was there in a round, and fell silent over its task.
type presence struct{ present, lost bool }

// presences returns, for each round and device, whether the device was present and whether it fell
// silent. hasTaskEachRound says that every present device has a task in every round, so that a device without
// one was absent. Otherwise a device counts as present except after the round in which it fell
// silent until its next task.
func presences(rounds []roundTimes, devices int, hasTaskEachRound bool) [][]presence {
	list := make([][]presence, len(rounds))
	gone := make([]bool, devices)
	for i := range rounds {
		current := make([]presence, devices)
		for _, t := range rounds[i].tasks {
			if t.device < devices {
				current[t.device] = presence{true, t.lost}
			}
		}
		for d := range current {
			gone[d] = gone[d] && !current[d].present
			current[d].present = current[d].present || !hasTaskEachRound && !gone[d]
			gone[d] = gone[d] || current[d].lost
		}
		list[i] = current
	}
	return list
}

// presenceOf says whether a device was present in a recorded round, numbered from 1. Beyond
// what was recorded every device is.
func (t *counterpart) presenceOf(number, device int) presence {
	if number > len(t.recorded) {
		return presence{present: true}
	}
	return t.recorded[number-1][device]
}

// draw simulates the run once with its devices replaced by clients of their classes, who are there when the
// devices were, with the n-th seed of the devices' fleet. It calls report with each round. report must not keep
// a round's tasks, whose memory is reused. It is an error if the twin's run ends before it has as many rounds as
// the run had.
func (t *counterpart) draw(ctx context.Context, n int, report func(*roundTimes)) error {
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
		answer: func(task *round.Task) (round.Event, error) {
			i := task.Client - t.first
			switch {
			// The client was simulated in the run, too, so its plan is that of the run.
			case i < 0:
				return planTask(t.problem.Fleet, task, t.problem.Bits)
			case t.presenceOf(task.Round, i).lost:
				joined[i] = false
				return round.Event{Kind: round.Silent, Task: task.Task, Client: task.Client}, nil
			}
			e, err := planTask(devices, task, t.bits)
			e.Samples = t.samples[task.Client].Answered
			paces[i].apply(&e.Plan)
			if t.link != nil {
				e.Plan.Download, e.Plan.Upload = t.link(task.Client)
			}
			return e, err
		},
		beforeRound: func(number int) (list []round.Event) {
			for d := range joined {
				isPresent := t.presenceOf(number, d).present
				switch {
				case isPresent && !joined[d]:
					list = append(
						list,
						round.Event{Kind: round.Joined, Client: t.first + d, Samples: t.samples[t.first+d].Joined},
					)
				case !isPresent && joined[d]:
					list = append(list, round.Event{Kind: round.Departed, Client: t.first + d})
				}
				joined[d] = isPresent
			}
			return list
		},
		task: func(e *round.TaskReport) {
			if e.Client >= t.first {
				tasks = append(tasks, taskOf(e, t.first))
			}
		},
		report: func(r *round.Report) error {
			report(&roundTimes{
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

// play makes this number of draws of the twin, side by side, and returns the means of each.
func (t *counterpart) play(ctx context.Context, draws int) ([]*means, error) {
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
