package simclock

import (
	"math/bits"
	"slices"
)

// queue holds events in their order. Those that are added together in large numbers, as at the start of a
// round, are sorted once, into a run; all others wait in a heap.
type queue struct {
	// added has the events that were added since the first event was looked up last, in any order.
	added []item
	// run has events in their order. It is the end of sorted, whose beginning was taken out already.
	run    []item
	sorted []item
	heap   heap
	// spare is memory for sorting.
	spare []item
}

// minRun is how many events are at least sorted into a run: for fewer the heap costs no more.
const minRun = 256

// len returns the number of events in the queue.
func (q *queue) len() int { return len(q.added) + len(q.run) + len(q.heap) }

// room returns for how many events the queue has memory.
func (q *queue) room() int { return cap(q.added) + cap(q.sorted) + cap(q.heap) + cap(q.spare) }

// add adds event e.
func (q *queue) add(e item) { q.added = append(q.added, e) }

// settle puts the added events where they are found in their order: into the heap or, if they are many, into a
// new run, with what is left of the present one.
func (q *queue) settle() {
	if len(q.added) < max(minRun, len(q.run)) {
		for _, e := range q.added {
			q.heap.push(e)
		}
		q.added = q.added[:0]
		return
	}
	all := append(q.added, q.run...)
	sorted, other := sortItems(all, slices.Grow(q.spare[:0], len(all))[:len(all)])
	// The memory of the present run is not needed any more. It serves the events that are added next.
	q.added = q.sorted[:0]
	q.run = sorted
	q.sorted = sorted
	q.spare = other
}

// isInRun reports whether the first event is that of the run; else it is that of the heap. The queue must not be empty.
func (q *queue) isInRun() bool {
	if len(q.added) > 0 {
		q.settle()
	}
	return len(q.heap) == 0 || len(q.run) > 0 && q.run[0].before(q.heap[0])
}

// first returns the first event. The queue must not be empty.
func (q *queue) first() item {
	if q.isInRun() {
		return q.run[0]
	}
	return q.heap[0]
}

// pop removes the first event. The queue must not be empty.
func (q *queue) pop() item {
	if q.isInRun() {
		first := q.run[0]
		q.run = q.run[1:]
		return first
	}
	return q.heap.pop()
}

// items returns a copy of all events, in no particular order, with room for as many more.
func (q *queue) items() []item {
	list := make([]item, 0, 2*q.len())
	list = append(list, q.added...)
	list = append(list, q.run...)
	return append(list, q.heap...)
}

// deleteFunc removes the events for which isUnwanted is true.
func (q *queue) deleteFunc(isUnwanted func(item) bool) {
	q.added = slices.DeleteFunc(q.added, isUnwanted)
	q.run = slices.DeleteFunc(q.run, isUnwanted)
	q.heap = slices.DeleteFunc(q.heap, isUnwanted)
	q.heap.build()
}

// shrink releases memory that a longer queue has needed.
func (q *queue) shrink() {
	all := heap(q.items())
	all.build()
	*q = queue{heap: all}
}

// sortItems sorts items. spare is memory of the same length. The sorted items are in one of the two, and other
// is the other one.
func sortItems(items, spare []item) (sorted, other []item) {
	earliest := items[0].at
	latest := items[0].at
	// ordered says that the items are in their order, bySeq that they would be if all times were equal.
	ordered := true
	bySeq := true
	for i := 1; i < len(items); i++ {
		e := items[i]
		earliest = min(earliest, e.at)
		latest = max(latest, e.at)
		ordered = ordered && items[i-1].before(e)
		sameTime := item{at: e.at, seq: items[i-1].seq, rankKind: items[i-1].rankKind}
		bySeq = bySeq && sameTime.before(e)
	}
	switch {
	case ordered:
		return items, spare
	case !bySeq:
		slices.SortFunc(items, item.compare)
		return items, spare
	}
	// Radix sort: each pass sorts by one digit of the time since the earliest and leaves the order of equal
	// digits as it is, the lowest digit first.
	const digitBits = 11
	for shift := 0; shift < bits.Len64(uint64(latest-earliest)); shift += digitBits {
		digit := func(e *item) int { return int(uint64(e.at-earliest)>>shift) & (1<<digitBits - 1) }
		// places has by digit first how many items have it, and then the place for the next of them.
		var places [1 << digitBits]int
		for i := range items {
			places[digit(&items[i])]++
		}
		first := 0
		for d, count := range places {
			places[d] = first
			first += count
		}
		for i := range items {
			place := &places[digit(&items[i])]
			spare[*place] = items[i]
			*place++
		}
		items, spare = spare, items
	}
	return items, spare
}
