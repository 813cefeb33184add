package fairshare

import "math/big"

// Tree is the links of sites that meet at a server. A transfer crosses its client's link, then
// that of its site, then the server's, and each of the three may hold it up. Speeds are max-min
// fair, as progressive filling finds them: all grow together, and one stays as it is from when
// a link that it crosses is full (Bertsekas and Gallager, Data Networks, 6.5.2). A transfer's
// speed is therefore the minimum of its own speed, its site's level and the server's level, where
//
//	Σ over a site      min(own, level of the site)                   is the site's capacity,
//	Σ over the server  min(own, level of its site, level of server)  is the server's,
//
// or less where the other limits are less. A site's level is thus its own affair, and a
// [FairLink] finds it; the server's is a bound to all of them.
//
// While the server slows no transfer down, an event costs as much as in one link. Otherwise the
// levels of all sites with transfers have to be compared and changed in addition.
type Tree struct {
	// links holds the link of each site, nil for one that has had no transfer.
	links []*FairLink
	// need is the work of a whole transfer, see [Tree.Need].
	need Work
	// siteCapacity is the capacity of each site's link, as a rate at the server.
	siteCapacity uint64
	// twoLevels is true if both the sites' links and the server's are shared, so that a transfer crosses two.
	twoLevels bool
	// level is the rate at the server that no transfer is faster than, if the transfers meet there.
	level uint64

	// due holds the sites with transfers, by when the next one is complete.
	due   heap
	dueAt []int64
	// firstCompleted holds for each site the transfer that is complete and has the least id, 0 if none is
	// known.
	firstCompleted []uint64
	// scratch is memory that relevel uses again, for the sites whose links it visits.
	scratch []int32
}

// NewTree returns a tree without transfers, of a server and the links of this many sites. server
// and site are the work of one transfer at each of them. The zero value means that nothing is
// shared there, and if both are zero, the tree is nil.
func NewTree(server, site Work, sites int) *Tree {
	// At first nothing limits a site's link or a transfer to less than the full rate.
	tree := &Tree{need: server, siteCapacity: fullRate, level: fullRate}
	// If only one of the two is shared, the tree has a single level: each site's link by itself, or one
	// link, that of the server, which all sites share.
	switch {
	case server.IsZero() && site.IsZero():
		return nil
	case server.IsZero():
		tree.need = site
	case site.IsZero():
		sites = 1
	default:
		tree.twoLevels = true
		tree.siteCapacity = server.siteRate(site)
	}
	tree.links = make([]*FairLink, sites)
	tree.dueAt = make([]int64, sites)
	tree.firstCompleted = make([]uint64, sites)
	// Sites are ordered by when their next transfer is complete. Of several complete at one time, the transfer
	// with the smallest id comes first.
	tree.due.before = func(a, b int32) bool {
		if tree.dueAt[a] == tree.dueAt[b] {
			return tree.firstCompleted[a] < tree.firstCompleted[b]
		}
		return tree.dueAt[a] < tree.dueAt[b]
	}
	return tree
}

// siteRate returns the capacity of a site's link as a rate at the server. One transfer is the work w at the
// server and the work site at the link, so the link serves w/site times as much of the server's work in a
// nanosecond as the whole server does. That ratio is rounded up to a multiple of 2^-63, the unit of rates,
// and is at most the full rate, 1.
func (w Work) siteRate(site Work) uint64 {
	rate := new(big.Int).Lsh(w.big(), 63)
	rate.Add(rate, site.big()).Sub(rate, big.NewInt(1)).Quo(rate, site.big())
	if !rate.IsUint64() {
		return fullRate
	}
	return min(rate.Uint64(), fullRate)
}

// big returns the work as a big integer.
func (w Work) big() *big.Int {
	n := new(big.Int).SetUint64(w.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(w.Lo))
}

// Need returns the work of a whole transfer: of the server, or of a site's link where only those are
// shared. What [Tree.Remaining] and [Tree.Stop] return is in the same unit.
func (t *Tree) Need() Work { return t.need }

// Start adds a whole transfer of a client behind a site, as [FairLink.Resume] does. Ids are not 0.
func (t *Tree) Start(now int64, id uint64, client int, unshared int64) (handle uint64) {
	return t.Resume(now, id, client, unshared, t.need)
}

// Resume adds a transfer of a client at the time now, in nanoseconds, of which only remaining is
// left to do. unshared is how long the whole transfer takes, in nanoseconds, if no link slows it down.
// The handle identifies the transfer on the tree: the site in its upper 32 bits, and in the lower ones
// the handle on the site's link.
func (t *Tree) Resume(now int64, id uint64, client int, unshared int64, remaining Work) (handle uint64) {
	// Clients are dealt to the sites in turn.
	site := client % len(t.links)
	link := t.links[site]
	if link == nil {
		link = New(t.need, now)
		link.capacity = t.siteCapacity
		t.links[site] = link
	}
	// The site may have had no transfer for a while, and so have missed changes of the level.
	link.setBound(now, t.level)
	linkHandle := link.Resume(now, id, unshared, remaining)
	t.update(now, int32(site))
	return join(int32(site), linkHandle)
}

// join returns the handle of a transfer on the tree, which [split] takes apart again.
func join(site, linkHandle int32) (handle uint64) {
	return uint64(site)<<32 | uint64(uint32(linkHandle))
}

// split returns the parts of a transfer's handle: the site in the upper 32 bits, and the handle on the site's
// link in the lower ones.
func split(handle uint64) (site, linkHandle int32) {
	return int32(handle >> 32), int32(uint32(handle))
}

// Stop takes a transfer off the tree at the time now, in nanoseconds, and returns the work that was
// left of it. handle is what [Tree.Start] or [Tree.Resume] returned for the transfer.
func (t *Tree) Stop(now int64, handle uint64) (remaining Work) {
	site, linkHandle := split(handle)
	remaining = t.links[site].Stop(now, linkHandle)
	t.update(now, site)
	return remaining
}

// Remaining returns the work that is left of a transfer at the time now, as [FairLink.Remaining] does.
func (t *Tree) Remaining(now int64, handle uint64) Work {
	site, linkHandle := split(handle)
	return t.links[site].Remaining(now, linkHandle)
}

// Due returns when the next transfer is complete if none is added or stopped before. ok is false
// when there is no transfer.
func (t *Tree) Due() (due int64, ok bool) {
	if t.due.empty() {
		return 0, false
	}
	return t.dueAt[t.due.first()], true
}

// Take removes a transfer that is complete at the time now, of several at one time that with the
// smallest id, and returns its id. ok is false if none is complete.
func (t *Tree) Take(now int64) (id uint64, ok bool) {
	for !t.due.empty() && t.dueAt[t.due.first()] <= now {
		site := t.due.first()
		link := t.links[site]
		// The site's complete transfers are known, and no other site has an earlier or smaller one.
		if t.firstCompleted[site] != 0 {
			id, ok = link.Take(now)
			t.update(now, site)
			return id, ok
		}
		// The site's link moves on to now, which shows which of its transfers are complete. The site
		// takes its place among the others by them, and the first is looked up again.
		link.advance(now)
		t.placeSite(site)
	}
	return 0, false
}

// update brings the tree up to date after a transfer of a site was added or taken away, which has changed the
// speeds on the site's link: when the site's next transfer is complete and, where sites also share the server's
// link, the level of the server and with it the speeds on all other sites' links.
func (t *Tree) update(now int64, site int32) {
	t.placeSite(site)
	if t.twoLevels {
		t.relevel(now)
	}
}

// placeSite puts a site where it belongs in the heap of sites with transfers, after its transfers or their
// speeds have changed, or takes it out if it has none. Sites are sorted by when their next transfer is
// complete, and of equal ones by the smallest id of their transfers that are complete.
func (t *Tree) placeSite(site int32) {
	link := t.links[site]
	due, hasTransfer := link.Due()
	t.dueAt[site] = due
	t.firstCompleted[site] = 0
	if !link.completed.empty() {
		t.firstCompleted[site] = link.flows[link.completed.first()].id
	}
	switch isListed := t.due.contains(site); {
	case hasTransfer && isListed:
		t.due.reorder(site)
	case hasTransfer:
		t.due.add(site)
	case isListed:
		t.due.remove(site)
	}
}

// relevel sets the server's level to the lowest one at which the rates of all transfers total the
// server's capacity, or to the full rate if they never do. The total is a concave, piecewise linear
// function of the level, and so lies below its tangents: each step of Newton's method ends at or below
// the level that is sought, up to rounding. After the first step the levels therefore rise, and the
// search ends when one does not.
func (t *Tree) relevel(now int64) {
	for rising := false; ; rising = true {
		next := t.nextLevel()
		if next == t.level || rising && next < t.level {
			return
		}
		t.level = next
		t.scratch = append(t.scratch[:0], t.due.list...)
		for _, site := range t.scratch {
			t.links[site].setBound(now, next)
			t.placeSite(site)
		}
	}
}

// nextLevel returns the next value of the server's level in the search of [Tree.relevel]: the one at which
// the rates of all transfers would total the server's capacity if exactly those transfers went at the level
// that do so now.
func (t *Tree) nextLevel() uint64 {
	var fixed Work
	slow := uint64(0)
	for _, site := range t.due.list {
		siteFixed, siteSlow := t.links[site].demand()
		fixed = fixed.add(Work{Lo: siteFixed})
		slow += siteSlow
	}
	switch {
	// The transfers that are below the level take more than the capacity already, so more of them must
	// be slowed down. At level 1, the lowest, all are.
	case (Work{Lo: fullRate}).Less(fixed):
		return 1
	case slow == 0:
		return fullRate
	}
	// The capacity that is left, in equal shares that are rounded up.
	equalShare := (fullRate - fixed.Lo + slow - 1) / slow
	return max(1, equalShare)
}
