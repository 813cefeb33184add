package round

import (
	"cmp"
	"maps"
	"slices"
)

// Tasks are the tasks of the simulated clients, or those of the devices: each
// kind has numbers of its own.
type Tasks struct {
	List []TaskState // under way, or accepted and waiting for training; ascending by number and by model
	Next uint64      // number of the next task

	outstanding int // tasks without an outcome
	late        int // tasks of earlier rounds among them; 0 where rounds overlap
	unplaced    int // tasks that are not on the clock, the last ones of the list
}

// TaskState is what the machine remembers of one task, or of one candidate.
type TaskState struct {
	Task  uint64
	Model uint64 // version of its base model
	Timer uint64 // TaskArrives or TaskDrops; 0: none is set
	// where transfers are shared: its TaskComputed timer or, while it has one, the handle of its transfer
	Link         uint64
	Start        Time // when it was issued
	Dropout      Time // planned: from Start until its client drops out; 0: it does not
	Download     Time // planned: its phases
	Compute      Time
	Upload       Time
	StepsDone    int64 // local steps of its client that were accepted when it was issued; 0 unless the run trains
	LearningRate float64
	Client       int32
	Round        int32
	LocalSteps   int32 // the client's K
	Status       Status
	Stage        Stage // how far its transfers are, where they are shared
	Drops        bool  // planned: its client drops out
	// Lost, Refused or Late: the outcome of a device's task that is known before its time; Accepted: none
	Forced Outcome
}

// Status is how far a task is.
type Status uint8

// The statuses.
const (
	TaskIssued   Status = iota // it has no plan
	TaskPlanned                // it is on the clock, or waits there for the plans of others
	TaskAccepted               // its update waits for training
	TaskDone                   // nothing of it is needed any more
)

// Stage is how far a task is where transfers are shared.
type Stage uint8

// The stages. A task's transfers that are not shared belong to its work.
const (
	NoStage     Stage = iota // not under way, or transfers are not shared
	Downloading              // shares the server's download
	Computing                // until its TaskComputed timer
	Uploading                // shares the server's upload
	Finished                 // waits for the client to drop out, or for other candidates
)

// FirstDeviceTask is the number of the first task to a device. Devices' tasks
// have numbers of their own, so that those of simulated clients, of which their
// plans are functions, are the same with and without devices. The numbers stay
// exact in float64.
const FirstDeviceTask = 1 << 52

// duration is the task's time from Start until it is done or its client drops out.
func (t *TaskState) duration() Time {
	if t.Drops {
		return t.Dropout
	}
	return t.Download + t.Compute + t.Upload
}

// current is the number of the round's own tasks without an outcome.
func (t *Tasks) current() int { return t.outstanding - t.late }

// underWay reports whether a task has no outcome.
func (t *TaskState) underWay() bool { return t.Status < TaskAccepted }

// onClock reports whether the end of a task with a plan is to come on the clock
// or has come.
func (t *TaskState) onClock() bool { return t.Timer != 0 || t.Stage != NoStage }

// atWork reports whether a candidate on the link has yet to answer or drop out.
func (t *TaskState) atWork() bool { return t.Timer != 0 || t.Stage != NoStage && t.Stage != Finished }

// find finds a task by its number; nil: it is not in the list.
func find(list []TaskState, task uint64) *TaskState {
	if len(list) == 0 || task < list[0].Task {
		return nil
	}
	// Numbers ascend, so a task is at its distance from the first, or before.
	i := task - list[0].Task
	if i < uint64(len(list)) && list[i].Task == task {
		return &list[i]
	}
	before := list[:min(i, uint64(len(list)))]
	j, ok := slices.BinarySearchFunc(
		before,
		task,
		func(t TaskState, task uint64) int { return cmp.Compare(t.Task, task) },
	)
	if !ok {
		return nil
	}
	return &list[j]
}

// tasks are all tasks of a run that are under way or wait for training, and the versions
// of the model that they start from.
type tasks struct {
	step      *step
	simulated Tasks
	devices   Tasks

	model    uint64         // newest version
	versions map[uint64]int // tasks that start from each version that is kept; nil: the run does not train
}

// listOf is where a task is listed, by its number.
func (x *tasks) listOf(task uint64) *Tasks {
	if task >= FirstDeviceTask {
		return &x.devices
	}
	return &x.simulated
}

// find finds a task by its number; nil: there is none.
func (x *tasks) find(task uint64) *TaskState { return find(x.listOf(task).List, task) }

// lists are the tasks of simulated clients, then those of devices.
func (x *tasks) lists() [2]*Tasks { return [2]*Tasks{&x.simulated, &x.devices} }

// outstanding is the number of tasks without an outcome.
func (x *tasks) outstanding() int { return x.simulated.outstanding + x.devices.outstanding }

// current is the number of the round's own tasks without an outcome.
func (x *tasks) current() int { return x.simulated.current() + x.devices.current() }

// begin counts a task that is about to be listed.
func (x *tasks) begin(list *Tasks) {
	list.unplaced++
	list.outstanding++
	if x.versions != nil {
		x.versions[x.model]++
	}
}

// shrink removes the tasks that are done once they are the greater part, so that each
// costs at most one move. accepted is how many wait for training.
func (x *tasks) shrink(accepted int) {
	needed := x.outstanding() + accepted
	if len(x.simulated.List)+len(x.devices.List) <= 2*needed {
		return
	}
	for _, tasks := range x.lists() {
		if needed == 0 { // often: without a look at each
			tasks.List = tasks.List[:0]
			tasks.unplaced = 0
			continue
		}
		tasks.List = slices.DeleteFunc(tasks.List, func(t TaskState) bool { return t.Status == TaskDone })
	}
}

// forgetAccepted lets go of the updates that wait for training.
func (x *tasks) forgetAccepted() {
	for _, tasks := range x.lists() {
		for i := range tasks.List {
			if t := &tasks.List[i]; t.Status == TaskAccepted {
				t.Status = TaskDone
				x.releaseTask(t.Model)
			}
		}
	}
}

// nextModel counts the next version of the model, which is kept whether or not a task names it.
func (x *tasks) nextModel() {
	x.model++
	if x.versions != nil {
		x.versions[x.model] = 0
	}
}

// releaseTask counts one task less that starts from a version of the model, which is released
// with the last one.
func (x *tasks) releaseTask(model uint64) {
	if n, kept := x.versions[model]; kept { // else too old for the tasks that name it, released before
		x.versions[model] = n - 1
		if n == 1 && model != x.model {
			x.release(model)
		}
	}
}

// releaseStale releases the versions without a task, and those from which every update
// would be late.
func (x *tasks) releaseStale(stale func(model uint64) bool) {
	for _, model := range slices.Sorted(maps.Keys(x.versions)) {
		if model != x.model && (x.versions[model] == 0 || stale(model)) {
			x.release(model)
		}
	}
}

func (x *tasks) release(model uint64) {
	delete(x.versions, model)
	x.step.effects.Release = append(x.step.effects.Release, model)
}
