package simclock

// heap is a 4-ary heap of items: half the levels of a binary one, and the
// four children of a node are two cache lines side by side.
type heap []item

// push adds item e.
func (h *heap) push(e item) {
	a := append(*h, e)
	*h = a
	a.up(len(a)-1, 0, e)
}

// up places e at index i, whose place is free, or at an ancestor of it, but not above index top. Items that come
// after e move down.
func (h heap) up(i, top int, e item) {
	for i > top {
		p := (i - 1) / 4
		if !e.before(h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
}

// least returns the index of the item that comes first among the up to four siblings from index c on.
func (h heap) least(c int) int {
	if c+3 >= len(h) {
		m := c
		for j := c + 1; j < len(h); j++ {
			if h[j].before(h[m]) {
				m = j
			}
		}
		return m
	}
	k := h[c : c+4 : c+4]
	m := 0
	n := 2
	if k[1].before(k[0]) {
		m = 1
	}
	if k[3].before(k[2]) {
		n = 3
	}
	if k[n].before(k[m]) {
		m = n
	}
	return c + m
}

// pop removes the first event. The heap must not be empty.
func (h *heap) pop() item {
	a := *h
	first := a[0]
	last := a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) > 0 {
		a.sink(0, last)
	}
	return first
}

// sink places e at index i, whose place is free, or at a descendant of it. The last item of a heap nearly always
// belongs at the bottom again, so the free place sinks to the bottom without a comparison with e, and rises from
// there.
func (h heap) sink(i int, e item) {
	top := i
	for c := 4*i + 1; c < len(h); c = 4*i + 1 {
		m := h.least(c)
		h[i] = h[m]
		i = m
	}
	h.up(i, top, e)
}

// order makes a heap of items that are in any order (Floyd, 1964).
func (h heap) order() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 1; i-- {
		h.sink(i, h[i])
	}
}
