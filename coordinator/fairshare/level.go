package fairshare

import "math/bits"

// relevel finds which groups of transfers the link slows down, and the level, their common rate, after
// transfers or the bound have changed. The others are free: they go at their own rates. A group is slowed
// down unless its own rate is below both the bound (maxRate) and an equal share of the capacity that the free
// groups leave.
//
// In each turn one group that is on the wrong side moves to the other: the slowest of the slowed ones or the
// fastest of the free ones. Adding a transfer only lowers the level and removing one only raises it, so that
// all groups move one way, except the one just added.
func (link *FairLink) relevel() {
	for {
		switch {
		case link.slowCount == 0 && link.allCanBeFree():
			return
		case link.slowCount == 0:
			link.switchSides(link.freeByRate.first())
		case !link.slowByRate.empty() && link.runsAtOwnRate(link.groups[link.slowByRate.first()].rate):
			link.switchSides(link.slowByRate.first())
		case !link.freeByRate.empty() && !link.runsAtOwnRate(link.groups[link.freeByRate.first()].rate):
			link.switchSides(link.freeByRate.first())
		default:
			// The share is rounded up to a whole unit, 2^-63 of the server, so that a transfer that takes
			// a whole number of nanoseconds takes no more. The n slowed transfers together then go
			// faster than the link by less than n units.
			slow := uint64(link.slowCount)
			equalShare := (link.capacity - link.freeTotal + slow - 1) / slow
			link.level = min(link.maxRate, equalShare)
			return
		}
	}
}

// allCanBeFree reports whether the free groups need not be slowed down: their rates total no more than the
// capacity, and the fastest of them is within the bound.
func (link *FairLink) allCanBeFree() bool {
	if link.freeTotal > link.capacity {
		return false
	}
	return link.freeByRate.empty() || link.groups[link.freeByRate.first()].rate <= link.maxRate
}

// runsAtOwnRate reports whether a group whose own rate is this one is not slowed down: the rate is less
// than the largest that the link allows, and less than the level that [FairLink.relevel] would set.
func (link *FairLink) runsAtOwnRate(rate uint64) bool {
	return rate < link.maxRate && link.levelExceeds(rate)
}

// levelExceeds reports whether an equal share, for each of the transfers that are slowed down, of the
// capacity that the others leave is more than this rate. The comparison is of rate · slowCount with that
// capacity, without a division, in 128 bits.
func (link *FairLink) levelExceeds(rate uint64) bool {
	if link.freeTotal >= link.capacity {
		return false
	}
	hi, lo := bits.Mul64(rate, uint64(link.slowCount))
	return hi == 0 && lo < link.capacity-link.freeTotal
}

// setBound sets the largest rate that any transfer may have on this link from the time now on, in units of 2^-63
// of the server, and computes again which groups are slowed down. In a [Tree] the level of the server bounds the
// rates on the sites' links.
func (link *FairLink) setBound(now int64, maxRate uint64) {
	if maxRate == link.maxRate {
		return
	}
	link.advance(now)
	link.maxRate = maxRate
	link.relevel()
}

// demand returns, for the search of the server's level in [Tree.relevel], the total rate of the link's
// transfers as a linear function of the bound b, the largest rate that each may have: fixedRate + atBound·b,
// valid near the present bound. atBound is the number of transfers that go at b. It is 0 where none is slowed
// down, and where the link itself slows its transfers down to less than b, so that their total is its
// capacity.
func (link *FairLink) demand() (fixedRate, atBound uint64) {
	switch {
	// All transfers go at their own rates.
	case link.slowCount == 0:
		return link.freeTotal, 0
	// The link could give the slowed transfers more than the bound, so they go at the bound.
	case link.levelExceeds(link.maxRate):
		return link.freeTotal, uint64(link.slowCount)
	}
	// The slowed transfers share what the others leave of the link.
	return link.capacity, 0
}

// switchSides moves a group, given by its index, from those that the link slows down to the free ones, which
// go at their own rates, or back. The group moves to the heaps of the other side. Its service counts by the time on
// one side and by the link's service clock on the other, so both are noted (baseTime, baseClock) together with
// what the group has been served until now (baseService).
func (link *FairLink) switchSides(groupIndex int32) {
	group := &link.groups[groupIndex]
	group.baseService = link.service(group)
	link.removeFromHeaps(groupIndex)
	link.addToTotals(group, -int(group.members))
	group.slowed = !group.slowed
	group.baseTime = link.now
	group.baseClock = link.serviceClock
	link.addToTotals(group, int(group.members))
	link.computeDue(group)
	byRate, byDue := link.heaps(group.slowed)
	byRate.add(groupIndex)
	byDue.add(groupIndex)
}

// removeFromHeaps takes a group, given by its index, out of the two heaps in which it is: those of the
// slowed groups or those of the others.
func (link *FairLink) removeFromHeaps(groupIndex int32) {
	byRate, byDue := link.heaps(link.groups[groupIndex].slowed)
	byRate.remove(groupIndex)
	byDue.remove(groupIndex)
}

// addToTotals adds n transfers of a group to the link's totals, or takes them away if n is negative: to
// slowCount, their number, if the group is slowed down, otherwise to freeTotal, the sum of their rates.
func (link *FairLink) addToTotals(g *group, n int) {
	if g.slowed {
		link.slowCount += n
	} else {
		link.freeTotal += uint64(n) * g.rate
	}
}

// heaps returns the two heaps of the groups that are slowed down, or the two of the others: one by the
// groups' own rates and one by when their first transfer is complete.
func (link *FairLink) heaps(slowed bool) (byRate, byDue *heap) {
	if slowed {
		return &link.slowByRate, &link.slowByDue
	}
	return &link.freeByRate, &link.freeByDue
}

// computeDue sets when the first transfer of a group is complete: a reading of the link's service clock
// if the group is slowed down, otherwise a time in nanoseconds. The group's base must be up to date. The
// heap by due times does not follow; see updateDue.
func (link *FairLink) computeDue(g *group) {
	// The first transfer is complete when the group's service is at its mark.
	remaining := link.flows[g.firstFlow].mark.sub(g.baseService)
	if g.slowed {
		g.dueClock = g.baseClock.add(remaining)
	} else {
		g.dueAt = min(never, g.baseTime+remaining.durationAt(g.rate))
	}
}

// updateDue computes when the first transfer of a group, given by its index, is complete, and moves the
// group to its place in the heap of such times.
func (link *FairLink) updateDue(groupIndex int32) {
	g := &link.groups[groupIndex]
	link.computeDue(g)
	_, byDue := link.heaps(g.slowed)
	byDue.reorder(groupIndex)
}
