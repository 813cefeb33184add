package fairshare

import "math"

// FairLink is the link that transfers share. It is not safe for concurrent use.
// Times are whole nanoseconds, and none may be before one given earlier.
type FairLink struct {
	// need is what every transfer needs.
	need Work
	// All rates together are at most cap, and each is at most bound.
	cap, bound uint64
	// now is the time up to which the link has been advanced.
	now int64

	// level is the rate of each transfer that the link slows down, and slow how many there are.
	// clock is the service that such a transfer would have had since the start.
	level uint64
	clock Work
	slow  int
	// free is the rate of all other transfers together. They have their own speeds.
	free uint64

	flows      []flow
	freeFlows  []int32
	groups     []group
	freeGroups []int32
	byUnshared map[int64]int32

	// slowByRate and slowByDue hold the groups that the server slows down, by their rate and by
	// when the first flow of each is complete.
	slowByRate, slowByDue heap
	// freeByRate and freeByDue hold the other groups in the same way.
	freeByRate, freeByDue heap
	// done holds the flows that are complete and have not been taken.
	done heap
}

// flow is one transfer.
type flow struct {
	id uint64
	// mark is the service of its group at which the flow is complete.
	mark  Work
	group int32
	// prev and next are its neighbours in the ring of its group.
	prev, next int32
	done       bool
}

// group are the transfers with one own time, in the order in which they will
// be complete. All of them are always equally fast.
type group struct {
	unshared int64
	// rate is the speed of a flow of the group that the link does not slow down.
	rate uint64
	n    int32
	// head is the first flow of the ring, if n is not 0.
	head   int32
	slowed bool
	// base is the group's service at the time since or, for a slowed group, at the clock's reading.
	base Work
	// since is the time to which base belongs, for a group that is not slowed.
	since int64
	// reading is the clock's reading to which base belongs, for a slowed group.
	reading Work
	// dueAt is when the first flow of a group that is not slowed is complete.
	dueAt int64
	// dueClock is the clock's reading when the first flow of a slowed group is complete.
	dueClock Work
}

// New returns a server without transfers at the time now, in nanoseconds. need is the work of each
// transfer that it will have.
func New(need Work, now int64) *FairLink {
	s := &FairLink{
		need:       need,
		cap:        fullRate,
		bound:      fullRate,
		now:        now,
		byUnshared: map[int64]int32{},
	}
	// Groups that are due at one time are ordered by a number that does not depend on the history of the
	// link, so that a resumed run takes their transfers in the same order.
	s.slowByRate.before = func(a, b int32) bool { return s.groups[a].rate < s.groups[b].rate }
	s.freeByRate.before = func(a, b int32) bool { return s.groups[a].rate > s.groups[b].rate }
	s.slowByDue.before = func(a, b int32) bool {
		x := &s.groups[a]
		y := &s.groups[b]
		return x.dueClock.Less(y.dueClock) || x.dueClock == y.dueClock && x.unshared < y.unshared
	}
	s.freeByDue.before = func(a, b int32) bool {
		x := &s.groups[a]
		y := &s.groups[b]
		return x.dueAt < y.dueAt || x.dueAt == y.dueAt && x.unshared < y.unshared
	}
	s.done.before = func(a, b int32) bool { return s.flows[a].id < s.flows[b].id }
	return s
}

// Resume adds a transfer and returns the handle by which it can be stopped. now is the time in
// nanoseconds, never before that of another call. unshared is how long the whole transfer takes
// where it has the link alone, and remaining is the part of its work that is still to be done. ids
// are unique among the transfers under way.
func (s *FairLink) Resume(now int64, id uint64, unshared int64, remaining Work) (handle int32) {
	s.advance(now)
	x := place(&s.flows, &s.freeFlows, flow{id: id})
	// A transfer without work is complete at once and needs no rate.
	if remaining.IsZero() {
		s.flows[x].done = true
		s.done.add(x)
		return x
	}
	i := s.groupOf(unshared)
	g := &s.groups[i]
	s.flows[x].group = i
	s.flows[x].mark = s.service(g).add(remaining)
	s.enqueue(g, x)
	s.count(g, 1)
	// A transfer that becomes the first of its group changes when the group is due next.
	if g.head == x {
		s.setDue(i)
	}
	s.relevel()
	return x
}

// Stop takes a transfer away and returns what was left of it: nothing where it
// was complete and had not been taken.
func (s *FairLink) Stop(now int64, handle int32) (remaining Work) {
	s.advance(now)
	remaining = s.Remaining(now, handle)
	if s.flows[handle].done {
		s.done.remove(handle)
	} else {
		s.remove(handle)
		s.relevel()
	}
	s.freeFlows = append(s.freeFlows, handle)
	return remaining
}

// Remaining returns the work that is left of a transfer at the time now, zero once it is complete. No
// transfer may have become complete between the last change of the link and now, since the others
// are faster from then on.
func (s *FairLink) Remaining(now int64, handle int32) Work {
	f := &s.flows[handle]
	if f.done {
		return Work{}
	}
	g := &s.groups[f.group]
	service := s.service(g).add(served(s.rate(g), now-s.now))
	if f.mark.Less(service) {
		return Work{}
	}
	return f.mark.sub(service)
}

// Due returns when the next transfer is complete if none is added or stopped before. ok is false
// when there is no transfer. One that is complete and not taken is due at once.
func (s *FairLink) Due() (due int64, ok bool) {
	if !s.done.empty() {
		return s.now, true
	}
	due = never
	if !s.freeByDue.empty() {
		due = s.groups[s.freeByDue.first()].dueAt
		ok = true
	}
	if !s.slowByDue.empty() {
		due = min(due, s.now+s.groups[s.slowByDue.first()].dueClock.sub(s.clock).duration(s.level))
		ok = true
	}
	return due, ok
}

// Take removes a transfer that is complete at the time now, of several that with the smallest id, and
// returns its id. ok is false if none is complete.
func (s *FairLink) Take(now int64) (id uint64, ok bool) {
	s.advance(now)
	if s.done.empty() {
		return 0, false
	}
	x := s.done.first()
	s.done.remove(x)
	s.freeFlows = append(s.freeFlows, x)
	return s.flows[x].id, true
}

// collect moves the transfers that are complete at the current time to the list of those that are
// done. Groups at their own full rate are due at a time, groups that share the link are due at a
// reading of the fair clock. If any transfer ended, the rates of the others are computed again.
func (s *FairLink) collect() {
	before := len(s.done.list)
	for !s.freeByDue.empty() && s.groups[s.freeByDue.first()].dueAt <= s.now {
		s.finish(s.groups[s.freeByDue.first()].head)
	}
	for !s.slowByDue.empty() && !s.clock.Less(s.groups[s.slowByDue.first()].dueClock) {
		s.finish(s.groups[s.slowByDue.first()].head)
	}
	if len(s.done.list) > before {
		s.relevel()
	}
}

// finish moves flow x, which is complete, from its group to the flows that are done and wait to be
// taken.
func (s *FairLink) finish(x int32) {
	s.remove(x)
	s.flows[x].done = true
	s.done.add(x)
}

// advance moves the server on to a time, at most that at which the next
// transfer is due.
func (s *FairLink) advance(now int64) {
	if now < s.now {
		panic("fairshare: time goes back")
	}
	if s.slow > 0 {
		s.clock = s.clock.add(served(s.level, now-s.now))
	}
	s.now = now
	s.collect()
}

// service returns the work that a transfer would have had by now if it had been in the group since
// the group was made. A flow is complete when this reaches its mark.
func (s *FairLink) service(g *group) Work {
	if g.slowed {
		return g.base.add(s.clock.sub(g.reading))
	}
	return g.base.add(served(g.rate, s.now-g.since))
}

// rate returns how fast each transfer of a group is now: as fast as the level of the link if the
// group is slowed down, otherwise as fast as it would be alone.
func (s *FairLink) rate(g *group) uint64 {
	if g.slowed {
		return s.level
	}
	return g.rate
}

// place stores x in list and returns its index. It reuses an index from free, a list of unused
// ones, if there is any, so that indices of stored values never move.
func place[T any](list *[]T, free *[]int32, x T) int32 {
	if n := len(*free); n > 0 {
		i := (*free)[n-1]
		*free = (*free)[:n-1]
		(*list)[i] = x
		return i
	}
	*list = append(*list, x)
	return int32(len(*list) - 1)
}

// groupOf returns the index of the group of transfers that take unshared nanoseconds where nothing
// slows them down, and makes the group if there is none. All transfers that are faster than the
// server form one group. A new group counts as slowed down; the caller's relevel corrects that.
func (s *FairLink) groupOf(unshared int64) int32 {
	rate := s.need.rate(unshared)
	if rate == fullRate {
		// All flows that are faster than the server are alike.
		unshared = 0
	}
	if i, ok := s.byUnshared[unshared]; ok {
		return i
	}
	i := place(&s.groups, &s.freeGroups, group{
		unshared: unshared,
		rate:     rate,
		slowed:   true,
		reading:  s.clock,
	})
	s.byUnshared[unshared] = i
	s.slowByRate.add(i)
	s.slowByDue.add(i)
	return i
}

// enqueue puts flow x into the ring of group g, which is sorted by mark, the service at which a
// flow is complete. A flow that starts now has the largest mark and goes last; only a resumed flow
// can come before others.
func (s *FairLink) enqueue(g *group, x int32) {
	f := &s.flows[x]
	f.prev = x
	f.next = x
	passed := int32(0)
	// The search begins at the end of the ring, where a flow that starts now belongs.
	if g.n > 0 {
		f.next = g.head
		for f.prev = s.flows[g.head].prev; passed < g.n && f.mark.Less(s.flows[f.prev].mark); passed++ {
			f.next = f.prev
			f.prev = s.flows[f.prev].prev
		}
		s.flows[f.prev].next = x
		s.flows[f.next].prev = x
	}
	if passed == g.n {
		g.head = x
	}
	g.n++
}

// remove takes flow x out of its group, whatever is left of it. A group that is empty then is taken
// off the link, too.
func (s *FairLink) remove(x int32) {
	f := &s.flows[x]
	i := f.group
	g := &s.groups[i]
	s.flows[f.prev].next = f.next
	s.flows[f.next].prev = f.prev
	first := g.head == x
	if first {
		g.head = f.next
	}
	g.n--
	s.count(g, -1)
	switch {
	case g.n == 0:
		s.leave(i)
		delete(s.byUnshared, g.unshared)
		s.freeGroups = append(s.freeGroups, i)
	// The group's next completion is that of another flow now.
	case first:
		s.setDue(i)
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
