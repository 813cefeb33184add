package fairshare

import "math/bits"

// relevel finds which groups are slowed down and the level, their common rate, after transfers or the
// bound have changed. A group is slowed down unless its own rate is below both the bound and an equal
// share of the capacity that the groups at their own rates leave. In each turn one group that is on
// the wrong side moves to the other: the slowest of the slowed ones or the fastest of the free ones.
// Adding a transfer only lowers the level and removing one only raises it, so that all groups move
// one way, except the one just added.
func (s *FairLink) relevel() {
	for {
		switch {
		case s.slow == 0 &&
			s.free <= s.cap &&
			(s.freeByRate.empty() || s.groups[s.freeByRate.first()].rate <= s.bound):
			return
		case s.slow == 0:
			s.move(s.freeByRate.first())
		case !s.slowByRate.empty() && s.below(s.groups[s.slowByRate.first()].rate):
			s.move(s.slowByRate.first())
		case !s.freeByRate.empty() && !s.below(s.groups[s.freeByRate.first()].rate):
			s.move(s.freeByRate.first())
		default:
			// Rounded up, so that a transfer that takes a whole number of nanoseconds takes
			// no more; n transfers so have at most n·2^-63 of a server too much.
			n := uint64(s.slow)
			s.level = min(s.bound, (s.cap-s.free+n-1)/n)
			return
		}
	}
}

// below reports whether a rate is less than the bound and than the share of hasShare, so that a group
// of this rate is not slowed down.
func (s *FairLink) below(rate uint64) bool { return rate < s.bound && s.hasShare(rate) }

// hasShare reports whether the capacity that the free groups leave is more than this rate for each of
// the transfers that are slowed down.
func (s *FairLink) hasShare(rate uint64) bool {
	if s.free >= s.cap {
		return false
	}
	hi, lo := bits.Mul64(rate, uint64(s.slow))
	return hi == 0 && lo < s.cap-s.free
}

// setBound sets the largest rate of a transfer on this link from the time now on, and finds which
// groups are slowed down by it. A tree bounds the links of its sites by the level of its server.
func (s *FairLink) setBound(now int64, bound uint64) {
	if bound == s.bound {
		return
	}
	s.advance(now)
	s.bound = bound
	s.relevel()
}

// demand returns the total rate of the link's transfers near the present bound, as a linear function
// of the bound: fixed + slow·bound. slow is the number of transfers that go at the bound. It is 0
// where the link itself slows its transfers down, whose total is its capacity at any bound.
func (s *FairLink) demand() (fixed, slow uint64) {
	switch {
	case s.slow == 0:
		return s.free, 0
	case s.hasShare(s.bound):
		return s.free, uint64(s.slow)
	}
	return s.cap, 0
}

// move moves group i from those that are slowed down to the others, or back. What the group has
// been served until now is kept, and both heaps follow.
func (s *FairLink) move(i int32) {
	g := &s.groups[i]
	g.base = s.service(g)
	s.leave(i)
	s.count(g, -int(g.n))
	g.slowed = !g.slowed
	g.since = s.now
	g.reading = s.clock
	s.count(g, int(g.n))
	s.findDue(g)
	byRate, byDue := s.heaps(g.slowed)
	byRate.add(i)
	byDue.add(i)
}

// leave takes group i out of the two heaps in which it is, those of the slowed groups or of the
// others.
func (s *FairLink) leave(i int32) {
	byRate, byDue := s.heaps(s.groups[i].slowed)
	byRate.remove(i)
	byDue.remove(i)
}

// count adds n transfers of a group to the link's totals, or takes them away if n is negative.
// Slowed transfers are counted, and the rates of the others are added up.
func (s *FairLink) count(g *group, n int) {
	if g.slowed {
		s.slow += n
	} else {
		s.free += uint64(n) * g.rate
	}
}

// heaps returns the heaps of the groups that are slowed down, or of the others.
func (s *FairLink) heaps(slowed bool) (byRate, byDue *heap) {
	if slowed {
		return &s.slowByRate, &s.slowByDue
	}
	return &s.freeByRate, &s.freeByDue
}

// findDue sets when the first transfer of a group is complete: a reading of the link's clock if the
// group is slowed down, otherwise a time in nanoseconds.
func (s *FairLink) findDue(g *group) {
	remaining := s.flows[g.head].mark.sub(g.base)
	if g.slowed {
		g.dueClock = g.reading.add(remaining)
	} else {
		g.dueAt = min(never, g.since+remaining.duration(g.rate))
	}
}

// setDue finds when the first transfer of group i is complete, and moves the group to its place in
// the heap of such times.
func (s *FairLink) setDue(i int32) {
	g := &s.groups[i]
	s.findDue(g)
	_, byDue := s.heaps(g.slowed)
	byDue.moved(i)
}
