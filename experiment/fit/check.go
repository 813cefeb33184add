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
	// Each draw takes a duration for every task by itself, and again for every task of the rounds.
	durations := 0
	for i := range r.devices {
		durations += len(r.devices[i].tasks.Kept)
		for _, x := range r.devices[i].tasks.Kept {
			c.TaskSeconds += x.seconds()
		}
	}
	for i := range rounds {
		durations += len(rounds[i].tasks)
	}
	draws := min(max(maxDurations/durations, minDraws), maxDraws)
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
			fleet.SetDevices(r.firstDevice)
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

// drawTimes draws once how long the recorded tasks take with the fitted classes. all is the seconds of all tasks
// together. It appends the seconds of each round to that round's list in drawn. another is the seconds of all rounds
// together in another run, in which each device has a pace of its own, drawn by its class's uncertainty: a factor of
// each phase's time beyond its overhead. draw is the number of the draw.
func (f *Fit) drawTimes(
	fleet *fleet.Fleet,
	r *record,
	rounds []roundRecord,
	draw uint64,
	drawn [][]float64,
) (all, another float64, err error) {
	t := &taskDraw{fit: f, fleet: fleet, record: r, number: draw, paces: make([][phases]float64, len(f.Devices))}
	for i, d := range f.Devices {
		if class := classOf(&f.config, d.Class); class != nil {
			t.paces[i] = class.Uncertainty.Pace(draw, r.firstDevice+i)
		}
	}
	for i := range r.devices {
		for _, x := range r.devices[i].tasks.Kept {
			seconds, _, err := t.duration(&x, x.number)
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
			seconds, paced, err := t.duration(&x, uint64(i))
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

// taskDraw is one draw of how long recorded tasks take with the fitted classes.
type taskDraw struct {
	fit    *Fit
	fleet  *fleet.Fleet
	record *record
	// number is the number of the draw, from 0.
	number uint64
	// paces has for each device the factor of each phase's time beyond its overhead in another run. The factors of a
	// device without a class are 0: it has no tasks that are drawn.
	paces [][phases]float64
}

// duration draws how many seconds the task x takes a mean device of its class (seconds), and how many it takes with the
// pace that t.paces has for its device (paced): by its pace a device deviates from its class. Tasks with the same round
// start together.
func (t *taskDraw) duration(x *task, round uint64) (seconds, paced float64, err error) {
	// What a fleet draws for a task follows from the task's number and, with vary.together, from the time at which it
	// starts. Both are made so that no two draws have one in common: a run has fewer than 2^40 tasks,
	// and there are fewer than 2^20 draws. The classes have neither slowdowns nor traces, so the start says nothing
	// but which tasks start together.
	number := x.number + t.number<<40
	start := int64(round<<20 | t.number)
	d, err := t.fleet.Durations(x.client, number, x.steps, t.record.bits, start)
	took := [phases]float64{float64(d.Download) / 1e9, float64(d.Compute) / 1e9, float64(d.Upload) / 1e9}
	// Without classes of links, transfers take as long as they took in the run.
	if !t.fit.LinksMeasured {
		took[download] = x.took[download]
		took[upload] = x.took[upload]
	}
	device := x.client - t.record.firstDevice
	for p, phaseSeconds := range took {
		// A pace changes what a phase takes beyond its overhead.
		overhead := min(phaseSeconds, t.fit.Devices[device].model.phases[p].overhead)
		seconds = seconds + phaseSeconds
		paced = paced + overhead + (phaseSeconds-overhead)*t.paces[device][p]
	}
	return seconds, paced, err
}

// permutedSeconds returns how many seconds the rounds would take together if the measured durations of each device
// were permuted among its rounds, each phase by itself, in the mean over 50 permutations. If that differs much from
// the measured time, devices or phases are slow at the same time. The time of local steps is scaled to the
// round's own number of them.
func (f *Fit) permutedSeconds(r *record, rounds []roundRecord) (seconds float64) {
	const permutations = 50
	// tasksOf holds, for each device, its tasks with the rounds that they are in.
	tasksOf := make([][]roundTask, len(f.Devices))
	for i := range rounds {
		for j := range rounds[i].tasks {
			x := &rounds[i].tasks[j]
			device := x.client - r.firstDevice
			tasksOf[device] = append(tasksOf[device], roundTask{i, x})
		}
	}
	// longest has, for each round, the seconds of its longest task so far in one permutation.
	longest := make([]float64, len(rounds))
	for n := range permutations {
		for i := range rounds {
			longest[i] = rounds[i].simulated
		}
		for device, tasks := range tasksOf {
			overhead := f.Devices[device].model.phases[compute].overhead
			permute(tasks, overhead, n, device, longest)
		}
		for _, roundSeconds := range longest {
			seconds += roundSeconds / permutations
		}
	}
	return seconds
}

// roundTask is a task in the round with this index.
type roundTask struct {
	round int
	*task
}

// permute gives each task of a device the durations of three other tasks of it, one for each phase, and raises
// longest, the seconds of each round, where the task then takes longer. The permutation follows from its number
// n and the device. overhead is the time in seconds that computing takes the device beside its steps.
func permute(tasks []roundTask, overhead float64, n, device int, longest []float64) {
	var permutation [phases][]int
	for p := range permutation {
		permutation[p] = keyed.New(uint64(n), keyed.Dealt, uint64(device), uint64(p)).Perm(len(tasks))
	}
	for i, x := range tasks {
		downloaded := tasks[permutation[download][i]]
		computed := tasks[permutation[compute][i]]
		uploaded := tasks[permutation[upload][i]]
		stepSeconds := (computed.took[compute] - overhead) * float64(x.steps) / float64(computed.steps)
		computing := overhead + stepSeconds
		seconds := downloaded.took[download] + computing + uploaded.took[upload]
		longest[x.round] = max(longest[x.round], seconds)
	}
}
