package fairshare

import "math/big"

// Tree is the links of sites that meet at a server. A transfer crosses its client's link, then
// that of its site, then the server's, and each of the three may hold it up. Speeds are max-min
// fair, as progressive filling finds them: all grow together, and one stays as it is from when
// a link that it crosses is full (Bertsekas and Gallager, Data Networks, 6.5.2). A transfer
// therefore goes at the least of its own speed, its site's level and the server's level, where
//
//	Σ over a site      min(own, level of the site)                   is the site's capacity,
//	Σ over the server  min(own, level of its site, level of server)  is the server's,
//
// or less where the other limits are less. A site's level is thus its own affair, and a
// [FairLink] finds it; the server's is a bound to all of them.
//
// Where the server slows nobody down an event costs what it costs in one link, and otherwise
// as many looks and moves more as there are sites with transfers.
type Tree struct {
	// links holds the link of each site, nil for one that has had no transfer.
	links []*FairLink
	need  Work
	// cap is the rate of a site's link.
	cap uint64
	// meet is true if the server holds transfers up beside the sites' links.
	meet bool
	// level is the rate at the server that no transfer is faster than, if the transfers meet there.
	level uint64

	// due holds the sites with transfers, by when the next one is complete.
	due   heap
	dueAt []int64
	// first holds for each site the transfer that is complete and has the least id, 0 if none is
	// known.
	first []uint64
	// order is memory that is used again.
	order []int32
}

// NewTree returns a tree without transfers, of a server and the links of this many sites. server
// and site are the work of one transfer at each of them. The zero value means that nothing is
// shared there, and if both are zero, the tree is nil.
func NewTree(server, site Work, sites int) *Tree {
	t := &Tree{need: server, cap: fullRate, level: fullRate}
	// If only one of the two is shared, the tree has a single level.
	switch {
	case server.IsZero() && site.IsZero():
		return nil
	case server.IsZero():
		t.need = site
	case site.IsZero():
		sites = 1
	default:
		t.meet, t.cap = true, server.per(site)
	}
	t.links = make([]*FairLink, sites)
	t.dueAt = make([]int64, sites)
	t.first = make([]uint64, sites)
	t.due.before = func(a, b int32) bool {
		return t.dueAt[a] < t.dueAt[b] || t.dueAt[a] == t.dueAt[b] && t.first[a] < t.first[b]
	}
	return t
}

// per returns the rate of a link on which a transfer is the work of, in units of a link on which it
// is the work w. It is at most the full rate.
func (w Work) per(of Work) uint64 {
	n := new(big.Int).Lsh(w.big(), 63)
	n.Add(n, of.big()).Sub(n, big.NewInt(1)).Quo(n, of.big())
	if !n.IsUint64() {
		return fullRate
	}
	return min(n.Uint64(), fullRate)
}

func (w Work) big() *big.Int {
	n := new(big.Int).SetUint64(w.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(w.Lo))
}

// Need is what each transfer needs, of the server or of its site's link: what is left of one
// is a part of it.
func (t *Tree) Need() Work { return t.need }

// Start adds a whole transfer of a client behind a site, as [FairLink.Resume] does. Ids are not 0.
func (t *Tree) Start(now int64, id uint64, client int, unshared int64) (handle uint64) {
	return t.Resume(now, id, client, unshared, t.need)
}

// Resume adds a transfer of a client at the time now, in nanoseconds, of which only remaining is
// left to do. unshared is how long the whole transfer takes if nobody slows it down. The handle
// identifies the transfer on the tree.
func (t *Tree) Resume(now int64, id uint64, client int, unshared int64, remaining Work) (handle uint64) {
	site := client % len(t.links)
	s := t.links[site]
	if s == nil {
		s = New(t.need, now)
		s.cap = t.cap
		t.links[site] = s
	}
	// The site may have had no transfer for a while, and so have missed changes of the level.
	s.setBound(now, t.level)
	x := s.Resume(now, id, unshared, remaining)
	t.settle(now, int32(site))
	return uint64(site)<<32 | uint64(uint32(x))
}

// Stop takes a transfer off the tree at the time now, in nanoseconds, and returns the work that was
// left of it. handle is what began or resumed it.
func (t *Tree) Stop(now int64, handle uint64) (remaining Work) {
	site := int32(handle >> 32)
	remaining = t.links[site].Stop(now, int32(uint32(handle)))
	t.settle(now, site)
	return remaining
}

// Left is what is left of a transfer at a time at which no other has become complete since.
func (t *Tree) Remaining(now int64, handle uint64) Work {
	return t.links[handle>>32].Remaining(now, int32(uint32(handle)))
}

// Due is when the next transfer is complete if none is added or stopped before; false when
// there is none.
func (t *Tree) Due() (due int64, ok bool) {
	if t.due.empty() {
		return 0, false
	}
	return t.dueAt[t.due.first()], true
}

// Take takes away a transfer that is complete, of several that with the least id; false when
// there is none.
func (t *Tree) Take(now int64) (id uint64, ok bool) {
	for !t.due.empty() && t.dueAt[t.due.first()] <= now {
		site := t.due.first()
		s := t.links[site]
		if t.first[site] != 0 {
			id, ok = s.Take(now)
			t.settle(now, site)
			return id, ok
		}
		s.advance(now)
		t.place(site)
	}
	return 0, false
}

// settle finds speeds and times again after a transfer of a site has come or gone.
func (t *Tree) settle(now int64, site int32) {
	t.place(site)
	if t.meet {
		t.relevel(now)
	}
}

// place puts a site where it belongs in the heap of sites with transfers, by when its next one is
// complete, or takes it out if it has none.
func (t *Tree) place(site int32) {
	s := t.links[site]
	due, ok := s.Due()
	t.dueAt[site] = due
	t.first[site] = 0
	if !s.done.empty() {
		t.first[site] = s.flows[s.done.first()].id
	}
	switch isListed := t.due.contains(site); {
	case ok && isListed:
		t.due.moved(site)
	case ok:
		t.due.add(site)
	case isListed:
		t.due.remove(site)
	}
}

// relevel finds the server's level, the least at which the sites' speeds come to its capacity
// (all of it where they never do). What they come to is piecewise linear and concave in the
// level: Newton's method is never too high after its first step, and ends at the level,
// rounded up, wherever it began.
func (t *Tree) relevel(now int64) {
	for rising := false; ; rising = true {
		next := t.improved()
		if next == t.level || rising && next < t.level {
			return
		}
		t.level = next
		t.order = append(t.order[:0], t.due.list...)
		for _, site := range t.order {
			t.links[site].setBound(now, next)
			t.place(site)
		}
	}
}

// improved is the level that would be right if all that is slowed down stayed so, and nothing
// else were.
func (t *Tree) improved() uint64 {
	var fixed Work
	slow := uint64(0)
	for _, site := range t.due.list {
		f, n := t.links[site].demand()
		fixed = fixed.add(Work{Lo: f})
		slow = slow + n
	}
	switch {
	case (Work{Lo: fullRate}).Less(fixed):
		// No level is right, and 1 is lower than any other.
		return 1
	case slow == 0:
		return fullRate
	}
	return max(1, (fullRate-fixed.Lo+slow-1)/slow)
}
