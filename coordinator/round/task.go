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
	Task         uint64
	Model        uint64 // version of its base model
	Timer        uint64 // TaskArrives or TaskDrops; 0: none is set
	Link         uint64 // where transfers are shared: its TaskComputed timer or, while it has one, the handle of its transfer
	Start        Time   // when it was issued
	Dropout      Time   // planned: from Start until its client drops out; 0: it does not
	Download     Time   // planned: its phases
	Compute      Time
	Upload       Time
	StepsDone    int64 // local steps of its client that were accepted when it was issued
	LearningRate float64
	Client       int32
	Round        int32
	LocalSteps   int32 // the client's K
	Status       Status
	Stage        Stage   // how far its transfers are, where they are shared
	Drops        bool    // planned: its client drops out
	Forced       Outcome // Lost, Refused or Late: the outcome of a device's task that is known before its time; Accepted: none
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

// takes is the task's time from Start until it is done or its client drops out.
func (t *TaskState) takes() Time {
	if t.Drops {
		return t.Dropout
	}
	return t.Download + t.Compute + t.Upload
}

// own is the number of the round's own tasks without an outcome.
func (t *Tasks) own() int { return t.outstanding - t.late }

// underWay reports whether a task has no outcome.
func (t *TaskState) underWay() bool { return t.Status < TaskAccepted }

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
	j, ok := slices.BinarySearchFunc(before, task, func(t TaskState, task uint64) int { return cmp.Compare(t.Task, task) })
	if !ok {
		return nil
	}
	return &list[j]
}

// grow appends an element to a list and returns it, to be filled in place: it
// may hold what its memory held before.
func grow[T any](list *[]T) *T {
	n := len(*list)
	if n == cap(*list) {
		*list = append(*list, *new(T))
	}
	*list = (*list)[:n+1]
	return &(*list)[n]
}

// task finds a task that is no candidate; nil: there is none of this number.
func (m *Machine) task(task uint64) *TaskState { return find(m.tasksOf(task).List, task) }

// tasksOf is where a task is listed, by its number.
func (m *Machine) tasksOf(task uint64) *Tasks {
	if task >= FirstDeviceTask {
		return &m.s.Devices
	}
	return &m.s.Simulated
}

// bothTasks are the tasks of simulated clients, then those of devices.
func (m *Machine) bothTasks() [2]*Tasks { return [2]*Tasks{&m.s.Simulated, &m.s.Devices} }

// outstanding is the number of tasks without an outcome.
func (m *Machine) outstanding() int { return m.s.Simulated.outstanding + m.s.Devices.outstanding }

// shrink removes the tasks that are done once they are the greater part, so
// that each costs at most one move.
func (m *Machine) shrink() {
	kept := m.outstanding() + m.s.Round.Outcomes[Accepted]
	if len(m.s.Simulated.List)+len(m.s.Devices.List) <= 2*kept {
		return
	}
	for _, tasks := range m.bothTasks() {
		if kept == 0 { // often: without a look at each
			tasks.List, tasks.unplaced = tasks.List[:0], 0
			continue
		}
		tasks.List = slices.DeleteFunc(tasks.List, func(t TaskState) bool { return t.Status == TaskDone })
	}
}

// versions counts the tasks that start from each version of the model, so that
// the driver keeps no other. The newest is kept whether or not a task names it.
type versions map[uint64]int

// drop counts one task less that starts from a model, which is released with the
// last one.
func (m *Machine) drop(model uint64) {
	if !m.config.Train {
		return
	}
	if n, kept := m.versions[model]; kept { // else too old for the tasks that name it, released before
		if m.versions[model] = n - 1; n == 1 && model != m.s.Model {
			m.release(model)
		}
	}
}

// dropStale releases the versions without a task, and those from which every update
// would be late.
func (m *Machine) dropStale() {
	for _, model := range slices.Sorted(maps.Keys(m.versions)) {
		if model != m.s.Model && (m.versions[model] == 0 || m.stale(model)) {
			m.release(model)
		}
	}
}

func (m *Machine) release(model uint64) {
	delete(m.versions, model)
	m.out.Release = append(m.out.Release, model)
}
