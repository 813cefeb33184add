package fit

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"fedpace/actors/fleet"
	"fedpace/internal/keyed"
	"fedpace/internal/robust"
)

// Check says how long the run's own tasks take simulated clients of the classes, over draws
// of the fleet's seed. Times are in virtual seconds.
type Check struct {
	// Draws is the number of draws.
	Draws int `json:"draws"`

	// TaskSeconds is the measured time of all tasks to which the classes were fitted, together.
	TaskSeconds float64 `json:"task_seconds"`
	// FittedTaskSeconds is the time of these tasks with the classes, the mean over the draws.
	FittedTaskSeconds float64 `json:"fitted_task_seconds"`

	// Rounds is the number of rounds that can be compared: those in which the times of all devices' tasks
	// are known, of a run whose rounds close with their last task. It is 0 for any other run.
	Rounds int `json:"rounds"`
	// RoundSeconds is the measured time of these rounds together.
	RoundSeconds float64 `json:"round_seconds"`
	// FittedRoundSeconds is their time with the classes, the mean over the draws.
	FittedRoundSeconds float64 `json:"fitted_round_seconds"`
	// DealtRoundSeconds is the mean time of the rounds after the measured phases were permuted among the
	// rounds, each phase of each device by itself. It differs from RoundSeconds where devices, or the phases
	// of a task, are slow together.
	DealtRoundSeconds float64 `json:"dealt_round_seconds"`
	// RoundsInside is the number of rounds whose measured time is within the 90 % interval of the draws.
	RoundsInside int `json:"rounds_within"`
	// Another is the time of the rounds in another run, whose devices differ from their classes as the
	// classes' uncertainty says; Low and High are the ends of 90 % of the draws.
	Another robust.Estimate `json:"another_run_seconds"`
}

// Limits of a check: there are as many draws as draw maxDurations durations of tasks in all, but at least
// minDraws and at most maxDraws.
const (
	maxDurations = 500_000
	minDraws     = 50
	maxDraws     = 1000
	// drawsPerSeed is the number of draws with one seed of the fleet, from which follows what is each
	// client's own. They differ by what varies from task to task.
	drawsPerSeed = 25
)

// compareWithRun plays the recorded tasks again with the fitted classes, many times, and compares tasks and
// rounds with what was measured. It shows how well the classes repeat the run and how far another
// run may be from it.
func (f *Fit) compareWithRun(r *record) (*Check, error) {
	rounds := r.comparableRounds()
	c := &Check{Rounds: len(rounds)}
	tasks := 0
	for i := range r.devices {
		tasks += len(r.devices[i].tasks.Kept)
		for _, x := range r.devices[i].tasks.Kept {
			c.TaskSeconds += x.seconds()
		}
	}
	for i := range rounds {
		tasks += len(rounds[i].tasks)
	}
	// The number of draws is bounded by the durations that are drawn.
	draws := min(max(maxDurations/tasks, minDraws), maxDraws)
	c.Draws = draws
	c.DealtRoundSeconds = f.permutedSeconds(r, rounds)
	// drawn holds, for each round, its length in each draw.
	drawn := make([][]float64, len(rounds))
	another := make([]float64, draws)
	var fleet *fleet.Fleet
	for draw := range draws {
		// A fleet is expensive to make, so one serves several draws, which differ by their task
		// numbers.
		if draw%drawsPerSeed == 0 {
			drawConfig := f.config
			drawConfig.Seed = uint64(draw)
			var err error
			fleet, err = drawConfig.NewFleet()
			if err != nil {
				return nil, err
			}
			fleet.SetDevices(r.first)
		}
		var taskSeconds float64
		var err error
		taskSeconds, another[draw], err = f.drawTimes(fleet, r, rounds, uint64(draw), drawn)
		if err != nil {
			return nil, err
		}
		c.FittedTaskSeconds += taskSeconds / float64(draws)
	}
	slices.Sort(another)
	c.Another = robust.Estimate{
		Value: stat.Mean(another, nil),
		Low:   quantile((1-confidence)/2, another),
		High:  quantile((1+confidence)/2, another),
	}
	for i, list := range drawn {
		c.RoundSeconds += rounds[i].took
		c.FittedRoundSeconds += stat.Mean(list, nil)
		slices.Sort(list)
		low := quantile((1-confidence)/2, list)
		high := quantile((1+confidence)/2, list)
		if low <= rounds[i].took && rounds[i].took <= high {
			c.RoundsInside++
		}
	}
	return c, nil
}

// quantile is the empirical quantile of sorted values at a share from 0 to 1.
func quantile(share float64, sorted []float64) float64 {
	return stat.Quantile(share, stat.Empirical, sorted, nil)
}

// drawTimes draws the recorded tasks once with the fitted classes. It returns the seconds of all tasks,
// appends the seconds of each round to drawn, and returns the seconds of all rounds in another run,
// in which each device has a pace of its own, drawn by its uncertainty: a factor of each phase's time beyond its
// overhead. draw is the number of the draw.
func (f *Fit) drawTimes(
	fleet *fleet.Fleet,
	r *record,
	rounds []roundRecord,
	draw uint64,
	drawn [][]float64,
) (all, another float64, err error) {
	paces := make([][phases]float64, len(f.Devices))
	for i, d := range f.Devices {
		if k := classOf(&f.config, d.Class); k != nil {
			paces[i] = k.Uncertainty.Pace(draw, r.first+i)
		}
	}
	// The classes have neither slowdowns nor traces: the time of the start says which tasks start together.
	duration := func(x *task, round uint64) (seconds, paced float64, err error) {
		d, err := fleet.Durations(x.client, x.number+draw<<40, x.steps, r.bits, int64(round<<20|draw))
		took := [phases]float64{float64(d.Download) / 1e9, float64(d.Compute) / 1e9, float64(d.Upload) / 1e9}
		// Without classes of links, transfers take as long as they took in the run.
		if !f.LinksMeasured {
			took[download] = x.took[download]
			took[upload] = x.took[upload]
		}
		for p, t := range took {
			// A pace changes what a phase takes beyond its overhead.
			over := min(t, f.Devices[x.client-r.first].model.phases[p].overhead)
			seconds = seconds + t
			paced = paced + over + (t-over)*paces[x.client-r.first][p]
		}
		return seconds, paced, err
	}
	for i := range r.devices {
		for _, x := range r.devices[i].tasks.Kept {
			seconds, _, err := duration(&x, x.number)
			if err != nil {
				return 0, 0, err
			}
			all += seconds
		}
	}
	for i := range rounds {
		// A round lasts as long as its slowest task, simulated clients included.
		longest := rounds[i].simulated
		longestPaced := rounds[i].simulated
		for _, x := range rounds[i].tasks {
			seconds, paced, err := duration(&x, uint64(i))
			if err != nil {
				return 0, 0, err
			}
			longest = max(longest, seconds)
			longestPaced = max(longestPaced, paced)
		}
		drawn[i] = append(drawn[i], longest)
		another = another + longestPaced
	}
	return all, another, nil
}

// permutedSeconds returns how many seconds the rounds would take together if the measured durations of each device
// were permuted among its rounds, each phase by itself, in the mean over 50 permutations. If that differs much from
// the measured time, devices or phases are slow at the same time. The time of local steps is scaled to the
// round's own number of them.
func (f *Fit) permutedSeconds(r *record, rounds []roundRecord) (seconds float64) {
	const permutations = 50
	type place struct {
		round int
		*task
	}
	// places holds, for each device, its tasks with the rounds that they are in.
	places := make([][]place, len(f.Devices))
	for i := range rounds {
		for j := range rounds[i].tasks {
			x := &rounds[i].tasks[j]
			places[x.client-r.first] = append(places[x.client-r.first], place{i, x})
		}
	}
	longest := make([]float64, len(rounds))
	for n := range permutations {
		for i := range rounds {
			longest[i] = rounds[i].simulated
		}
		for device, list := range places {
			overhead := f.Devices[device].model.phases[compute].overhead
			var permutation [phases][]int
			for p := range permutation {
				permutation[p] = keyed.New(uint64(n), keyed.Dealt, uint64(device), uint64(p)).Perm(len(list))
			}
			for i, x := range list {
				// The three phases of the task come from three other tasks of the device.
				downloaded := list[permutation[download][i]]
				computed := list[permutation[compute][i]]
				uploaded := list[permutation[upload][i]]
				stepSeconds := (computed.took[compute] - overhead) * float64(x.steps) / float64(computed.steps)
				computing := overhead + stepSeconds
				seconds := downloaded.took[download] + computing + uploaded.took[upload]
				longest[x.round] = max(longest[x.round], seconds)
			}
		}
		for _, l := range longest {
			seconds += l / permutations
		}
	}
	return seconds
}
