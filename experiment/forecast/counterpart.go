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
	// rounds is the configuration of the round machine.
	rounds round.Config
	// firstDevice is the client number of the first device, and devices the number of devices.
	firstDevice int
	devices     int
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

// newCounterpart returns the counterpart of a run: the same run with a simulated client of its class in place of
// each device. p is the problem of the run, and r what was recorded of its rounds, from which the
// counterpart takes K_r and who was present.
func newCounterpart(p *problem.Problem, r *record) (t *counterpart, err error) {
	c := &p.Config
	t = &counterpart{
		problem:     p,
		firstDevice: c.Clients,
		devices:     len(c.Devices.Names),
		bits:        p.DeviceBits(),
		samples:     r.samples,
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
		// A device that is not drawn into the cohort, or that is still at work on a task of an earlier round, has none.
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
	// isSilent says of each device that it fell silent and has had no task since.
	isSilent := make([]bool, devices)
	for i := range rounds {
		inRound := make([]presence, devices)
		for _, t := range rounds[i].tasks {
			if t.device < devices {
				inRound[t.device] = presence{present: true, lost: t.lost}
			}
		}
		for d := range inRound {
			hasTask := inRound[d].present
			if hasTask {
				isSilent[d] = false
			} else {
				inRound[d].present = !hasTaskEachRound && !isSilent[d]
			}
			if inRound[d].lost {
				isSilent[d] = true
			}
		}
		list[i] = inRound
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

// simulate plays the run once with its devices replaced by clients of their classes, who are there when the
// devices were, with the n-th seed of the devices' fleet. It calls report with each round. report must not keep
// a round's tasks, whose memory is reused. It is an error if the simulation ends before it has as many rounds as
// the run had.
func (t *counterpart) simulate(ctx context.Context, n int, report func(*roundTimes)) error {
	seed := keyed.Hash(t.problem.Config.Seed, keyed.Draw, uint64(n))
	d := &draw{
		counterpart: t,
		fleet:       t.problem.Fleet.Reseeded(seed),
		joined:      make([]bool, t.devices),
		variations:  make([]variation, t.devices),
	}
	for device := range d.variations {
		d.variations[device] = variationOf(t.class(device), seed, device)
	}
	var tasks []deviceTask
	played := dryRun{
		rounds:      t.rounds,
		answer:      d.answer,
		beforeRound: d.joinAndLeave,
		task: func(e *round.TaskReport) {
			// The numbers of devices follow those of simulated clients, which are not compared.
			isDevice := e.Client >= t.firstDevice
			if isDevice {
				tasks = append(tasks, taskOf(e, t.firstDevice))
			}
		},
		report: func(r *round.Report) error {
			report(&roundTimes{
				took:     r.End - r.Start,
				steps:    r.LocalSteps,
				allTasks: r.Cohort,
				tasks:    tasks,
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

// draw is one simulation of a run's counterpart. Devices are numbered from 0.
type draw struct {
	*counterpart
	// fleet is the devices' fleet with the seed of the draw.
	fleet *fleet.Fleet
	// joined says of each device whether it takes part at the moment.
	joined []bool
	// variations say how far each device of the draw differs from its class.
	variations []variation
}

// answer says how a task of the draw ends. A device that fell silent over its task in the run does so here. Any
// other answers after the time that its class, its own variation and the draw give.
func (d *draw) answer(task *round.Task) (round.Event, error) {
	device := task.Client - d.firstDevice
	switch {
	// The client was simulated in the run, too, so its plan is that of the run.
	case device < 0:
		return planTask(d.problem.Fleet, task, d.problem.Bits)
	case d.presenceOf(task.Round, device).lost:
		d.joined[device] = false
		return round.Event{Kind: round.Silent, Task: task.Task, Client: task.Client}, nil
	}
	e, err := planTask(d.fleet, task, d.bits)
	// The number of samples that the device reported with its answers in the run, 0 if that is not known.
	e.Samples = d.samples[task.Client].Answered
	d.variations[device].apply(&e.Plan)
	if d.link != nil {
		e.Plan.Download, e.Plan.Upload = d.link(task.Client)
	}
	return e, err
}

// joinAndLeave returns the events of devices that join or leave before the round with this number, so that in it
// the same ones take part as in the run.
func (d *draw) joinAndLeave(number int) (list []round.Event) {
	for device, hasJoined := range d.joined {
		client := d.firstDevice + device
		isPresent := d.presenceOf(number, device).present
		switch {
		case isPresent && !hasJoined:
			list = append(list, round.Event{Kind: round.Joined, Client: client, Samples: d.samples[client].Joined})
		case !isPresent && hasJoined:
			list = append(list, round.Event{Kind: round.Departed, Client: client})
		}
		d.joined[device] = isPresent
	}
	return list
}

// play simulates the counterpart as often as draws says, several at the same time, each with a seed of its own, and
// returns the mean times of each simulation.
func (t *counterpart) play(ctx context.Context, draws int) ([]*means, error) {
	list := make([]*means, draws)
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for n := range list {
		group.Go(func() error {
			list[n] = meansOf(nil, t.devices)
			return t.simulate(inner, n, list[n].add)
		})
	}
	return list, group.Wait()
}
