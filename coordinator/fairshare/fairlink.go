package fairshare

import "math"

// FairLink is the link that transfers share. It is not safe for concurrent use.
// Times are whole nanoseconds, and none may be before one given earlier.
type FairLink struct {
	// need is what every transfer needs.
	need Work
	// capacity is the most that all rates come to together, and maxRate the most that each is, both in units of
	// 2^-63 of the server (fullRate).
	capacity, maxRate uint64
	// now is the time up to which the link has been advanced.
	now int64

	// level is the rate of each transfer that the link slows down, and slowCount the number of these.
	// serviceClock is the work that such a transfer would have had done since the start of the link. It grows by
	// level in each nanosecond in which any transfer is slowed down.
	level        uint64
	serviceClock Work
	slowCount    int
	// freeTotal is the sum of the rates of all other transfers. Each goes at its own rate.
	freeTotal uint64

	// Flows and groups are known by their indices in these lists. freeFlows and freeGroups are the
	// indices that are not in use.
	flows      []flow
	freeFlows  []int32
	groups     []group
	freeGroups []int32
	// byUnshared has the group of each own time, in nanoseconds.
	byUnshared map[int64]int32

	// slowByRate and slowByDue hold the groups that the link slows down, by their rate and by
	// when the first flow of each is complete.
	slowByRate, slowByDue heap
	// freeByRate and freeByDue hold the other groups in the same way.
	freeByRate, freeByDue heap
	// completed holds the flows that are complete and have not been taken.
	completed heap
}

// flow is one transfer.
type flow struct {
	id uint64
	// mark is the service of its group at which the flow is complete.
	mark  Work
	group int32
	// prev and next are its neighbours in the ring of its group.
	prev, next int32
	completed  bool
}

// group are the transfers with one own time, in the order in which they will
// be complete. All of them are always equally fast.
type group struct {
	// unshared is how many nanoseconds a whole transfer of the group takes that nothing slows down.
	unshared int64
	// rate is the speed of a flow of the group that the link does not slow down.
	rate uint64
	// members is the number of flows in the group's ring.
	members int32
	// firstFlow is the index of the first flow of the ring, if there is any.
	firstFlow int32
	// slowed is true if the link slows the group down.
	slowed bool
	// baseService is the group's service at baseTime or, for a slowed group, when the link's service clock was at
	// baseClock.
	baseService Work
	// baseTime is the time in nanoseconds to which baseService belongs, for a group that is not slowed.
	baseTime int64
	// baseClock is the service clock's reading to which baseService belongs, for a slowed group.
	baseClock Work
	// dueAt is when the first flow of a group that is not slowed is complete.
	dueAt int64
	// dueClock is the service clock's reading when the first flow of a slowed group is complete.
	dueClock Work
}

// New returns a link that transfers share fairly. It has no transfers yet, and its present time is now, in nanoseconds.
// need is the work of each transfer that it will have, in the unit of [Work].
//
// Transfers that take the same time if nothing slows them down (unshared) form a group. The link either slows a
// group down or leaves it free. There are two heaps of slowed groups and two of free ones: in each pair one is
// ordered by the groups' own rates, and the other by when their next transfer is complete. The first in a heap
// of rates is the group that changes sides next: the slowest of the slowed groups, and the fastest of the free
// ones.
func New(need Work, now int64) *FairLink {
	link := &FairLink{
		need:       need,
		capacity:   fullRate,
		maxRate:    fullRate,
		now:        now,
		byUnshared: map[int64]int32{},
	}
	// Groups that are due at one time are ordered by the time that their transfers take alone, which does not depend
	// on the history of the link, so that a resumed run takes their transfers in the same order.
	link.slowByRate.before = func(a, b int32) bool { return link.groups[a].rate < link.groups[b].rate }
	link.freeByRate.before = func(a, b int32) bool { return link.groups[a].rate > link.groups[b].rate }
	link.slowByDue.before = func(a, b int32) bool {
		groupA := &link.groups[a]
		groupB := &link.groups[b]
		if groupA.dueClock == groupB.dueClock {
			return groupA.unshared < groupB.unshared
		}
		return groupA.dueClock.Less(groupB.dueClock)
	}
	link.freeByDue.before = func(a, b int32) bool {
		groupA := &link.groups[a]
		groupB := &link.groups[b]
		return groupA.dueAt < groupB.dueAt || groupA.dueAt == groupB.dueAt && groupA.unshared < groupB.unshared
	}
	link.completed.before = func(a, b int32) bool { return link.flows[a].id < link.flows[b].id }
	return link
}

// Resume adds a transfer and returns the handle by which it can be stopped. now is the time in
// nanoseconds, never before that of another call. unshared is how long the whole transfer takes
// where it has the link alone, and remaining is the part of its work that is still to be done. ids
// are unique among the transfers under way.
func (link *FairLink) Resume(now int64, id uint64, unshared int64, remaining Work) (handle int32) {
	link.advance(now)
	flowIndex := store(&link.flows, &link.freeFlows, flow{id: id})
	// A transfer without work is complete at once and needs no rate.
	if remaining.IsZero() {
		link.flows[flowIndex].completed = true
		link.completed.add(flowIndex)
		return flowIndex
	}
	// Transfers that alone would take equally long form a group.
	groupIndex := link.groupFor(unshared)
	group := &link.groups[groupIndex]
	link.flows[flowIndex].group = groupIndex
	// The transfer is complete when the group has done this much more for each of its members.
	link.flows[flowIndex].mark = link.service(group).add(remaining)
	link.enqueue(group, flowIndex)
	link.addToTotals(group, 1)
	// A transfer that becomes the first of its group changes when the group is due next.
	if group.firstFlow == flowIndex {
		link.updateDue(groupIndex)
	}
	// With one more transfer, the link must slow down others.
	link.relevel()
	return flowIndex
}

// Stop takes a transfer off the link at the time now, in nanoseconds, and returns the work that was left of it:
// zero if it was complete. handle is what [FairLink.Resume] returned for it.
func (link *FairLink) Stop(now int64, handle int32) (remaining Work) {
	link.advance(now)
	remaining = link.Remaining(now, handle)
	if link.flows[handle].completed {
		link.completed.remove(handle)
	} else {
		link.remove(handle)
		link.relevel()
	}
	link.freeFlows = append(link.freeFlows, handle)
	return remaining
}

// Remaining returns the work that is left of a transfer at the time now, zero once it is complete. That is
// the transfer's mark, the work that its group will have done for each member when the transfer is complete,
// less what the group has done until now (its service). No transfer may have become complete between the last
// change of the link and now, since the others are faster from then on.
func (link *FairLink) Remaining(now int64, handle int32) Work {
	flow := &link.flows[handle]
	if flow.completed {
		return Work{}
	}
	group := &link.groups[flow.group]
	service := link.service(group).add(workAt(link.rate(group), now-link.now))
	if flow.mark.Less(service) {
		return Work{}
	}
	return flow.mark.sub(service)
}

// Due returns when the next transfer is complete, in nanoseconds, if none is added or stopped before. ok is false
// when there is no transfer. One that is complete and not taken is due at once.
func (link *FairLink) Due() (due int64, ok bool) {
	if !link.completed.empty() {
		return link.now, true
	}
	due = never
	// A group that goes at its own rate has a time at which its first transfer is complete.
	if !link.freeByDue.empty() {
		firstFree := &link.groups[link.freeByDue.first()]
		due = firstFree.dueAt
		ok = true
	}
	// All groups that the link slows down go at one rate, the level, which changes with every transfer that comes
	// or goes. So such a group has instead a reading of link.serviceClock, the work that each of their
	// transfers has had done, at which its first transfer is complete.
	if !link.slowByDue.empty() {
		firstSlow := &link.groups[link.slowByDue.first()]
		untilDue := firstSlow.dueClock.sub(link.serviceClock)
		due = min(due, link.now+untilDue.durationAt(link.level))
		ok = true
	}
	return due, ok
}

// Take removes a transfer that is complete at the time now, of several that with the smallest id, and
// returns its id. ok is false if none is complete.
func (link *FairLink) Take(now int64) (id uint64, ok bool) {
	link.advance(now)
	if link.completed.empty() {
		return 0, false
	}
	first := link.completed.first()
	link.completed.remove(first)
	link.freeFlows = append(link.freeFlows, first)
	return link.flows[first].id, true
}

// finishDue moves the transfers that are complete at the link's present time, link.now, to those that are
// completed and wait to be taken. A group at its own rate (a free one) is due at a time; a group that the
// link slows down is due when the link's service clock reaches the group's dueClock. If any transfer was moved,
// the rates of the others are computed again.
func (link *FairLink) finishDue() {
	completedBefore := len(link.completed.list)
	for !link.freeByDue.empty() {
		group := &link.groups[link.freeByDue.first()]
		isDue := group.dueAt <= link.now
		if !isDue {
			break
		}
		link.finish(group.firstFlow)
	}
	for !link.slowByDue.empty() {
		group := &link.groups[link.slowByDue.first()]
		isDue := !link.serviceClock.Less(group.dueClock)
		if !isDue {
			break
		}
		link.finish(group.firstFlow)
	}
	if len(link.completed.list) > completedBefore {
		link.relevel()
	}
}

// finish moves a complete flow, given by its index, from its group to the flows that are completed and wait
// to be taken. It leaves the rates of the others to the caller.
func (link *FairLink) finish(flowIndex int32) {
	link.remove(flowIndex)
	link.flows[flowIndex].completed = true
	link.completed.add(flowIndex)
}

// advance moves the link's present time on to now, in nanoseconds, and finishes the transfers that are
// complete then. The caller must not skip the completion of a transfer, since the others are faster from
// then on: now is at most what Due returns. It panics if now is before the present time.
func (link *FairLink) advance(now int64) {
	if now < link.now {
		panic("fairshare: time goes back")
	}
	if link.slowCount > 0 {
		link.serviceClock = link.serviceClock.add(workAt(link.level, now-link.now))
	}
	link.now = now
	link.finishDue()
}

// service returns how much work the link has done, since a group was made, for a transfer that has been in the
// group all the time. A flow of the group is complete when this reaches its mark. It counts on from baseService: at
// the group's own rate since baseTime or, for a slowed group, by what the service clock has grown since baseClock.
func (link *FairLink) service(g *group) Work {
	if g.slowed {
		return g.baseService.add(link.serviceClock.sub(g.baseClock))
	}
	return g.baseService.add(workAt(g.rate, link.now-g.baseTime))
}

// rate returns how fast each transfer of a group is now: as fast as the level of the link if the
// group is slowed down, otherwise as fast as it would be alone.
func (link *FairLink) rate(g *group) uint64 {
	if g.slowed {
		return link.level
	}
	return g.rate
}

// store stores a value in list and returns its index. It takes an index from free, the indices whose values
// are no longer needed, if there is any. A stored value therefore keeps its index for as long as it is
// needed.
func store[T any](list *[]T, free *[]int32, value T) int32 {
	if unused := len(*free); unused > 0 {
		index := (*free)[unused-1]
		*free = (*free)[:unused-1]
		(*list)[index] = value
		return index
	}
	*list = append(*list, value)
	return int32(len(*list) - 1)
}

// groupFor returns the index of the group of transfers that take unshared nanoseconds where nothing slows
// them down, and makes the group if there is none. All transfers that could be as fast as the whole link, or faster,
// form one group. A new group counts as slowed down; the caller must call relevel, which corrects that.
func (link *FairLink) groupFor(unshared int64) int32 {
	// This is the rate of the transfers if the link does not slow them down.
	rate := link.need.rateWithin(unshared)
	if rate == fullRate {
		unshared = 0
	}
	if index, ok := link.byUnshared[unshared]; ok {
		return index
	}
	// Nothing has been served to the group yet, at the service clock's present reading.
	index := store(&link.groups, &link.freeGroups, group{
		unshared:  unshared,
		rate:      rate,
		slowed:    true,
		baseClock: link.serviceClock,
	})
	link.byUnshared[unshared] = index
	link.slowByRate.add(index)
	link.slowByDue.add(index)
	return index
}

// enqueue inserts a flow, given by its index, into the ring of a group: a doubly linked list, in the order in
// which its flows will be complete, whose last flow is followed by the first. It is sorted by mark, the
// service at which a flow is complete. A flow that starts now has the largest mark and goes last; only a
// resumed one, part of which was done before, can come before others.
func (link *FairLink) enqueue(g *group, flowIndex int32) {
	flow := &link.flows[flowIndex]
	flow.prev = flowIndex
	flow.next = flowIndex
	// passed counts the flows that will be complete after this one.
	passed := int32(0)
	if g.members > 0 {
		// The search begins at the end of the ring, where a flow that starts now belongs.
		flow.next = g.firstFlow
		flow.prev = link.flows[g.firstFlow].prev
		for passed < g.members && flow.mark.Less(link.flows[flow.prev].mark) {
			flow.next = flow.prev
			flow.prev = link.flows[flow.prev].prev
			passed++
		}
		link.flows[flow.prev].next = flowIndex
		link.flows[flow.next].prev = flowIndex
	}
	isFirst := passed == g.members
	if isFirst {
		g.firstFlow = flowIndex
	}
	g.members++
}

// remove takes a flow, given by its index, out of its group, whatever is left of it. A group has the flows of one
// unshared time, the nanoseconds of a whole transfer that nothing else slows down, in a ring in the order in which
// they will be complete. A group that is empty then is removed from the link, too. The caller has to call relevel.
func (link *FairLink) remove(flowIndex int32) {
	flow := &link.flows[flowIndex]
	groupIndex := flow.group
	group := &link.groups[groupIndex]
	link.flows[flow.prev].next = flow.next
	link.flows[flow.next].prev = flow.prev
	wasFirst := group.firstFlow == flowIndex
	if wasFirst {
		group.firstFlow = flow.next
	}
	group.members--
	link.addToTotals(group, -1)
	switch {
	case group.members == 0:
		link.removeFromHeaps(groupIndex)
		delete(link.byUnshared, group.unshared)
		link.freeGroups = append(link.freeGroups, groupIndex)
	// The group's next completion is that of another flow now.
	case wasFirst:
		link.updateDue(groupIndex)
	}
}

// Stretched estimates how many nanoseconds a whole transfer takes that has the part remaining, 0 to 1,
// of its work left after elapsed nanoseconds, if its mean pace stays as it was. The estimate is more
// than elapsed and at most maxDuration. A transfer without pace so far takes unshared, its time where
// nothing slows it down, or more than elapsed; a complete one took elapsed.
func Stretched(elapsed, unshared int64, remaining float64, maxDuration int64) int64 {
	switch {
	case remaining <= 0:
		return elapsed
	case remaining >= 1 || elapsed == 0:
		return max(unshared, elapsed+1)
	}
	stretched := math.Round(float64(elapsed) / (1 - remaining))
	return int64(min(max(stretched, float64(elapsed+1)), float64(maxDuration)))
}
