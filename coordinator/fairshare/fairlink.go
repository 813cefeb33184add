package fairshare

import "math"

// FairLink is the link that transfers share. It is not safe for concurrent use.
// Times are whole nanoseconds, and none may be before one given earlier.
type FairLink struct {
	need       Work   // what every transfer needs
	cap, bound uint64 // all rates together are at most cap, each at most bound
	now        int64

	level uint64 // rate of each transfer that the server slows down
	clock Work   // service that such a transfer would have had since the start
	slow  int    // how many there are
	free  uint64 // rate of all others together

	flows      []flow
	freeFlows  []int32
	groups     []group
	freeGroups []int32
	byOwn      map[int64]int32

	slowByRate, slowByDue heap // groups of those that the server slows down
	freeByRate, freeByDue heap // groups of the others
	done                  heap // flows that are complete and have not been taken
}

// flow is one transfer.
type flow struct {
	id         uint64
	mark       Work // its group's service at which it is complete
	group      int32
	prev, next int32 // in its group's ring
	done       bool
}

// group are the transfers with one own time, in the order in which they will
// be complete. All of them are always equally fast.
type group struct {
	own      int64
	rate     uint64 // own speed
	n        int32
	head     int32 // the first of the ring, if n is not 0
	slowed   bool
	base     Work  // service at the time since, or slowed: at the clock's reading
	since    int64 // not slowed
	reading  Work  // slowed
	dueAt    int64 // not slowed: when its first is complete
	dueClock Work  // slowed: the clock's reading then
}

// New returns a server without transfers at time now, each of which will need
// so much.
func New(need Work, now int64) *FairLink {
	s := &FairLink{
		need:  need,
		cap:   whole,
		bound: whole,
		now:   now,
		byOwn: map[int64]int32{},
	}
	// Ties are broken by what no history decides.
	s.slowByRate.before = func(a, b int32) bool { return s.groups[a].rate < s.groups[b].rate }
	s.freeByRate.before = func(a, b int32) bool { return s.groups[a].rate > s.groups[b].rate }
	s.slowByDue.before = func(a, b int32) bool {
		x := &s.groups[a]
		y := &s.groups[b]
		return x.dueClock.Less(y.dueClock) || x.dueClock == y.dueClock && x.own < y.own
	}
	s.freeByDue.before = func(a, b int32) bool {
		x := &s.groups[a]
		y := &s.groups[b]
		return x.dueAt < y.dueAt || x.dueAt == y.dueAt && x.own < y.own
	}
	s.done.before = func(a, b int32) bool { return s.flows[a].id < s.flows[b].id }
	return s
}

// Resume adds a transfer of which so much is left, and which as a whole takes its client own
// nanoseconds where nobody slows it down. It returns the handle by which the transfer is stopped.
// ids are unique among the transfers under way.
func (s *FairLink) Resume(now int64, id uint64, own int64, left Work) (handle int32) {
	s.advance(now)
	x := place(&s.flows, &s.freeFlows, flow{id: id})
	if left.IsZero() {
		s.flows[x].done = true
		s.done.add(x)
		return x
	}
	i := s.groupOf(own)
	g := &s.groups[i]
	s.flows[x].group, s.flows[x].mark = i, s.service(g).add(left)
	s.enqueue(g, x)
	s.count(g, 1)
	if g.head == x {
		s.setDue(i)
	}
	s.relevel()
	return x
}

// Stop takes a transfer away and returns what was left of it: nothing where it
// was complete and had not been taken.
func (s *FairLink) Stop(now int64, handle int32) (left Work) {
	s.advance(now)
	left = s.Left(now, handle)
	if s.flows[handle].done {
		s.done.remove(handle)
	} else {
		s.remove(handle)
		s.relevel()
	}
	s.freeFlows = append(s.freeFlows, handle)
	return left
}

// Left is what is left of a transfer at a time at which no other has become
// complete since.
func (s *FairLink) Left(now int64, handle int32) Work {
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

// Due is when the next transfer is complete if none is added or stopped before;
// false when there is none. One that is complete and not taken is due at once.
func (s *FairLink) Due() (at int64, ok bool) {
	if !s.done.empty() {
		return s.now, true
	}
	at = never
	if !s.freeByDue.empty() {
		at = s.groups[s.freeByDue.first()].dueAt
		ok = true
	}
	if !s.slowByDue.empty() {
		at = min(at, s.now+s.groups[s.slowByDue.first()].dueClock.sub(s.clock).takes(s.level))
		ok = true
	}
	return at, ok
}

// Take takes away a transfer that is complete, of several that with the least
// id; false when there is none.
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

// collect moves what has become complete to those that are done.
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

// service is what each transfer of a group would have had since it was made.
func (s *FairLink) service(g *group) Work {
	if g.slowed {
		return g.base.add(s.clock.sub(g.reading))
	}
	return g.base.add(served(g.rate, s.now-g.since))
}

// rate is how fast a group's transfers are.
func (s *FairLink) rate(g *group) uint64 {
	if g.slowed {
		return s.level
	}
	return g.rate
}

// place puts x in a place of list that is free, or behind the others.
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

// groupOf finds or makes the group of an own time. A new one counts as slowed
// down until the level is found.
func (s *FairLink) groupOf(own int64) int32 {
	rate := s.need.rate(own)
	if rate == whole {
		own = 0 // faster than the server: all alike
	}
	if i, ok := s.byOwn[own]; ok {
		return i
	}
	i := place(&s.groups, &s.freeGroups, group{
		own:     own,
		rate:    rate,
		slowed:  true,
		reading: s.clock,
	})
	s.byOwn[own] = i
	s.slowByRate.add(i)
	s.slowByDue.add(i)
	return i
}

// enqueue puts a flow in its group's ring, at the end unless it is resumed.
func (s *FairLink) enqueue(g *group, x int32) {
	f := &s.flows[x]
	f.prev = x
	f.next = x
	passed := int32(0)
	if g.n > 0 {
		f.next = g.head
		for f.prev = s.flows[g.head].prev; passed < g.n && f.mark.Less(s.flows[f.prev].mark); passed++ {
			f.prev, f.next = s.flows[f.prev].prev, f.prev
		}
		s.flows[f.prev].next, s.flows[f.next].prev = x, x
	}
	if passed == g.n {
		g.head = x
	}
	g.n++
}

// remove takes a flow out of its group, and out with the group if it is empty.
func (s *FairLink) remove(x int32) {
	f := &s.flows[x]
	i := f.group
	g := &s.groups[i]
	s.flows[f.prev].next, s.flows[f.next].prev = f.next, f.prev
	first := g.head == x
	if first {
		g.head = f.next
	}
	g.n--
	s.count(g, -1)
	switch {
	case g.n == 0:
		s.leave(i)
		delete(s.byOwn, g.own)
		s.freeGroups = append(s.freeGroups, i)
	case first:
		s.setDue(i)
	}
}

// Stretched is how long a transfer takes at the pace that left a part of it undone after
// so long, at most most; own is its time by itself.
func Stretched(after, own int64, left float64, most int64) int64 {
	switch {
	case left <= 0:
		return after
	case left >= 1 || after == 0:
		return max(own, after+1)
	}
	whole := math.Round(float64(after) / (1 - left))
	return int64(min(max(whole, float64(after+1)), float64(most)))
}
