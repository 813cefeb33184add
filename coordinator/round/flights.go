package round

import (
	"cmp"
	"slices"
)

// flight is a task that is under way, or whose update waits for training.
type flight struct {
	task    uint64
	model   uint64 // aggregations before it was issued
	timer   uint64 // its TaskArrives or TaskDrops; 0: not placed on the clock
	start   Time   // when it was issued
	takes   Time   // from then to its TaskArrives or TaskDrops
	parts   parts  // of its plan
	done    int64  // local steps of its client when it was issued
	rate    float64
	client  int32
	steps   int32 // the client's K
	round   int32
	seat    int32 // on the shared link; 0: none
	planned bool
	drops   bool
	ended   bool
	waiting bool    // its update waits for training
	verdict Outcome // what is known of its end ahead: Lost or Refused; Accepted: nothing
}

// parts are the phases of a plan.
type parts struct{ download, compute, upload Time }

// appendEnded appends a flight with its outcome. It writes in place: this is
// done once for each task of a run.
func appendEnded(list []Ended, f *flight, o Outcome, end Time, probe bool) []Ended {
	n := len(list)
	if n == cap(list) {
		list = append(list, Ended{})
	}
	list = list[:n+1]
	e := &list[n]
	e.Task, e.Client, e.LocalSteps, e.Probe, e.Outcome = f.task, int(f.client), int(f.steps), probe, o
	e.Start, e.End = f.start, end
	p := &e.Plan
	p.Download, p.Compute, p.Upload, p.Drops, p.Dropout = f.parts.download, f.parts.compute, f.parts.upload, f.drops, 0
	if f.drops {
		p.Dropout = f.takes
	}
	return list
}

// flights are in the order of their tasks' numbers.
type flights struct {
	list []flight
	gone int // of them that have ended and wait for nothing
}

// add appends a flight to fill in, in place.
func (f *flights) add() *flight {
	n := len(f.list)
	if n == cap(f.list) {
		f.list = append(f.list, flight{})
	}
	f.list = f.list[:n+1]
	f.list[n] = flight{}
	return &f.list[n]
}

func (f *flights) reset() { f.list, f.gone = f.list[:0], 0 }

// find finds a task by its number, at its place unless others have left.
func (f *flights) find(task uint64) *flight {
	if len(f.list) == 0 || task < f.list[0].task {
		return nil
	}
	i := task - f.list[0].task
	if i < uint64(len(f.list)) && f.list[i].task == task {
		return &f.list[i]
	}
	// Numbers ascend, so a task is at that place or before it.
	before := f.list[:min(i, uint64(len(f.list)))]
	j, ok := slices.BinarySearchFunc(before, task, func(x flight, task uint64) int { return cmp.Compare(x.task, task) })
	if !ok {
		return nil
	}
	return &f.list[j]
}

// shrink removes those that are gone once they are the greater part, so each
// costs at most one move. It moves flights.
func (f *flights) shrink() {
	if f.gone <= len(f.list)/2 {
		return
	}
	f.list = slices.DeleteFunc(f.list, func(x flight) bool { return x.ended && !x.waiting })
	f.gone = 0
}
