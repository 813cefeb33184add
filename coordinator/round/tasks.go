package round

import (
	"cmp"
	"maps"
	"slices"
)

// FirstDeviceTask is the number of the first task to a device. Devices' tasks
// have numbers of their own, so that those of simulated clients, of which their
// plans are functions, are the same with and without devices. The numbers stay
// exact in float64.
const FirstDeviceTask = 1 << 52

// Tasks are the tasks of the simulated clients, or those of the devices: each
// kind has numbers of its own.
type Tasks struct {
	// List are the tasks that are under way, or accepted and waiting for training. Both their
	// numbers and the versions of their base models ascend. Tasks that are done may still be
	// among them, see tasks.removeDone.
	List []TaskState
	// Next is the number of the next task.
	Next uint64

	// outstanding is the number of tasks without an outcome. late is how many of those are of
	// earlier rounds, 0 where rounds overlap.
	outstanding int
	late        int
	// unplaced is the number of tasks that are not on the clock. They are the last of the list.
	unplaced int
}

// current returns the number of tasks of the round under way that have no outcome.
func (t *Tasks) current() int { return t.outstanding - t.late }

// TaskState is what the machine remembers of one task, or of one candidate. A run has as many as
// its clients at work, so small fields lie together.
type TaskState struct {
	// Task is the number of the task.
	Task uint64
	// Model is the version of the model from which the task starts.
	Model uint64
	// Start is the virtual time at which the task was issued.
	Start        Time
	LearningRate float64
	// StepsDone is the number of the client's local steps that were accepted when the task was
	// issued. It is 0 unless the run trains.
	StepsDone int64

	// The plan, once there is one. Dropout is the time from Start until the client drops out, if
	// it Drops, else 0.
	Download Time
	Compute  Time
	Upload   Time
	Dropout  Time

	// Timer is the timer TaskArrives or TaskDrops that is set for the task, or noTimer.
	Timer uint64
	// Link is used where transfers are shared. By Stage it is the handle of the transfer that is under way on the
	// shared link (Downloading, Uploading), the number of the timer TaskComputed (Computing), or 0.
	Link uint64

	Client int32
	Round  int32
	// LocalSteps is the client's number of local steps.
	LocalSteps int32
	// Batch is the number of samples of a minibatch where a formula gives it, else 0.
	Batch  int32
	Status Status
	// Stage is how far the task is, where transfers are shared.
	Stage Stage
	// Drops is true if the plan says that the client drops out.
	Drops bool
	// Forced is the outcome of a device's task that is known before its time: Lost, Refused or
	// Late. Accepted means that none is.
	Forced Outcome
}

// Status is how far a task is. Statuses ascend in time.
type Status uint8

const (
	// TaskIssued is a task without a plan.
	TaskIssued Status = iota
	// TaskPlanned is a task on the clock, or one that waits there for the plans of others.
	TaskPlanned
	// TaskAccepted is a task with an update that counts and waits for training.
	TaskAccepted
	// TaskDone is a task of which nothing is needed any more.
	TaskDone
)

// Stage is how far a task is where transfers are shared. Transfers that are not shared belong to
// its computing.
type Stage uint8

const (
	// NoStage is the stage of a task that is not under way, or whose transfers are not shared.
	NoStage Stage = iota
	// Downloading is the stage in which a task shares the server's download.
	Downloading
	// Computing is the stage until the task's timer TaskComputed.
	Computing
	// Uploading is the stage in which a task shares the server's upload.
	Uploading
	// Finished is the stage in which a task waits for its client to drop out, or for other
	// candidates.
	Finished
)

// duration returns the task's time from Start until it is done or its client drops out.
func (t *TaskState) duration() Time {
	if t.Drops {
		return t.Dropout
	}
	return t.Download + t.Compute + t.Upload
}

// underWay reports whether a task has no outcome.
func (t *TaskState) underWay() bool { return t.Status < TaskAccepted }

// onClock reports whether a task has been placed on the clock: a timer for its end is set or, where
// transfers are shared, it is in one of its stages.
func (t *TaskState) onClock() bool { return t.Timer != noTimer || t.Stage != NoStage }

// atWork reports whether a candidate whose transfers are shared has yet to answer or drop out.
func (t *TaskState) atWork() bool {
	isUnderWay := t.Stage != NoStage && t.Stage != Finished
	return t.Timer != noTimer || isUnderWay
}

// find returns the task with this number in a list, nil if there is none. The numbers in the list ascend
// and may have gaps.
func find(list []TaskState, task uint64) *TaskState {
	if len(list) == 0 || task < list[0].Task {
		return nil
	}
	// Without gaps a task is as far from the first as their numbers are. Gaps bring it nearer.
	furthest := task - list[0].Task
	if furthest < uint64(len(list)) && list[furthest].Task == task {
		return &list[furthest]
	}
	before := list[:min(furthest, uint64(len(list)))]
	i, ok := slices.BinarySearchFunc(before, task, func(t TaskState, task uint64) int {
		return cmp.Compare(t.Task, task)
	})
	if !ok {
		return nil
	}
	return &list[i]
}

// tasks are all tasks of a run that are under way or wait for training, and the versions
// of the model that they start from.
type tasks struct {
	step      *step
	clients   *clients
	simulated Tasks
	devices   Tasks

	// model is the newest version of the model.
	model uint64
	// tasksByVersion has for each published version of the model the number of tasks that start from it. It is nil
	// if the run does not train.
	tasksByVersion map[uint64]int
}

// listOf returns the list in which the task with this number stands: tasks of devices have numbers
// from FirstDeviceTask on.
func (x *tasks) listOf(task uint64) *Tasks {
	if task >= FirstDeviceTask {
		return &x.devices
	}
	return &x.simulated
}

// find returns the task with this number, nil if there is none.
func (x *tasks) find(task uint64) *TaskState { return find(x.listOf(task).List, task) }

// lists returns the tasks of simulated clients, then those of devices. Whatever is done for all
// tasks is done in this order.
func (x *tasks) lists() [2]*Tasks { return [2]*Tasks{&x.simulated, &x.devices} }

// outstanding returns the number of tasks without an outcome.
func (x *tasks) outstanding() int { return x.simulated.outstanding + x.devices.outstanding }

// current returns the number of tasks of the round under way that have no outcome.
func (x *tasks) current() int { return x.simulated.current() + x.devices.current() }

// begin counts a task that is about to be added to a list: it has no outcome (outstanding) and is not on the clock
// (unplaced) yet, and starts from the newest model.
func (x *tasks) begin(list *Tasks) {
	list.unplaced++
	list.outstanding++
	if x.tasksByVersion != nil {
		x.tasksByVersion[x.model]++
	}
}

// removeDone removes the tasks that are done from the lists. It does so only once they are more than the
// others, so that on average each task is moved once, however often this is called. accepted is the number of
// tasks that wait for training, which are still needed.
func (x *tasks) removeDone(accepted int) {
	needed := x.outstanding() + accepted
	if len(x.simulated.List)+len(x.devices.List) <= 2*needed {
		return
	}
	for _, tasks := range x.lists() {
		// This is how a round usually ends, and it needs no look at each task.
		if needed == 0 {
			tasks.List = tasks.List[:0]
			tasks.unplaced = 0
			continue
		}
		tasks.List = slices.DeleteFunc(tasks.List, func(t TaskState) bool { return t.Status == TaskDone })
	}
}

// endAccepted ends the tasks that wait for training, after they have been trained or when the run ends.
func (x *tasks) endAccepted() {
	for _, tasks := range x.lists() {
		for i := range tasks.List {
			t := &tasks.List[i]
			if t.Status == TaskAccepted {
				t.Status = TaskDone
				x.clients.release(t)
				x.releaseTask(t.Model)
			}
		}
	}
}

// nextModel makes the next version of the model the newest, which no task starts from yet. The newest version stays
// published whether or not a task starts from it.
func (x *tasks) nextModel() {
	x.model++
	if x.tasksByVersion != nil {
		x.tasksByVersion[x.model] = 0
	}
}

// releaseTask counts one task less that starts from this version of the model, and releases the version
// with the last one, unless it is the newest. It does nothing for a version that was released before.
func (x *tasks) releaseTask(model uint64) {
	n, isPublished := x.tasksByVersion[model]
	if !isPublished {
		return
	}
	x.tasksByVersion[model] = n - 1
	if n == 1 && model != x.model {
		x.release(model)
	}
}

// releaseStale releases the versions without a task, and those from which every update would be
// late. The newest version stays.
func (x *tasks) releaseStale(isStale func(model uint64) bool) {
	for _, model := range slices.Sorted(maps.Keys(x.tasksByVersion)) {
		if model == x.model {
			continue
		}
		if x.tasksByVersion[model] == 0 || isStale(model) {
			x.release(model)
		}
	}
}

// release has the driver delete a version of the model, from which no task will start any more.
func (x *tasks) release(model uint64) {
	delete(x.tasksByVersion, model)
	x.step.effects.Release = append(x.step.effects.Release, model)
}
