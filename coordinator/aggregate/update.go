package aggregate

import (
	"math"
	"slices"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// clientUpdate is the update of one accepted task, on its way into a round's sum.
type clientUpdate struct {
	task round.Task

	// share is what the algorithm weighs the update with in the round. The shares of a round sum to
	// 1, or to less where the algorithm damps stale updates.
	share float64
	// weight is the update's weight in the exact sum that it is added to: 1 in a sum of its own.
	weight float64
	// separate says that the update is kept in a sum of its own, sum, instead of being added to the round's sum at
	// once: the server first compares or combines such updates one by one.
	separate bool
	// sum is the update as an exact sum of weight 1, nil where it is added up at once or not
	// trained yet.
	sum []int64

	// buffers are what the client sent of the model's buffers, and bufferWeight is what they count with.
	buffers      sentBuffers
	bufferWeight float64
	// combinesBuffers says that the rule of devices combines the buffers with those of the other devices,
	// value by value, before they count.
	combinesBuffers bool

	// loss is the client's loss before its first local step, NaN if a device does not report it.
	loss float64
	// failure is why the update is refused, nil if it is valid.
	failure *bus.Failure

	// stateBefore is the digest of what a simulated client has kept from its last task, zero where
	// that is nothing; stateAfter is what it keeps next.
	stateBefore bus.Digest
	stateAfter  algorithm.ClientState
}

// newUpdates makes the updates of tasks that are not trained yet, in the order of the tasks.
func newUpdates(tasks []round.Task) []clientUpdate {
	updates := make([]clientUpdate, len(tasks))
	for i, t := range tasks {
		updates[i].task = t
	}
	return updates
}

// tasksOf returns the task of each update, in the same order, as the real devices and the reports
// take them.
func tasksOf(updates []clientUpdate) []round.Task {
	tasks := make([]round.Task, len(updates))
	for i := range updates {
		tasks[i] = updates[i].task
	}
	return tasks
}

// clientsOf returns the client of each update, in the same order.
func clientsOf(updates []clientUpdate) []int {
	clients := make([]int, len(updates))
	for i := range updates {
		clients[i] = updates[i].task.Client
	}
	return clients
}

// lossesOf returns the loss of each update before its first local step, in the same order. A loss
// is NaN where a device does not report it or training failed.
func lossesOf(updates []clientUpdate) []float64 {
	losses := make([]float64, len(updates))
	for i := range updates {
		losses[i] = updates[i].loss
	}
	return losses
}

// sharesOf returns the share of each update in the round, in the same order. Shares sum to 1, or to less
// where the algorithm gives stale updates less weight.
func sharesOf(updates []clientUpdate) []float64 {
	shares := make([]float64, len(updates))
	for i := range updates {
		shares[i] = updates[i].share
	}
	return shares
}

// sumsOf returns the exact sum of each separate update, in the same order. The sums are not copied.
func sumsOf(updates []clientUpdate) [][]int64 {
	sums := make([][]int64, len(updates))
	for i := range updates {
		sums[i] = updates[i].sum
	}
	return sums
}

// meanLoss returns the mean of the losses that are not NaN, added in their order (the inner mean of Eq.
// 15). NaN stands for a device that reports no loss and for a refused update. The result is NaN if no loss
// is known.
func meanLoss(losses []float64) float64 {
	sum := 0.0
	known := 0
	for _, loss := range losses {
		if !math.IsNaN(loss) {
			sum += loss
			known++
		}
	}
	return sum / float64(known)
}

// refuse separates the updates that failed from the valid ones. refused has the task numbers of those that
// failed, and failure is the error of the last of them, nil if there is none.
func refuse(updates []clientUpdate) (valid []clientUpdate, refused []uint64, failure error) {
	for i := range updates {
		if f := updates[i].failure; f != nil {
			refused = append(refused, updates[i].task.Task)
			failure = trainerFailure{f}
		}
	}
	if refused == nil {
		return updates, nil, nil
	}
	valid = slices.DeleteFunc(slices.Clone(updates), func(u clientUpdate) bool { return u.failure != nil })
	return valid, refused, failure
}
