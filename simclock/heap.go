package simclock

// heap is a 4-ary heap of items: no item comes before its parent, so the first is at index 0. The children of the
// item at index i are at 4i+1 to 4i+4. It has half the levels of a binary heap, and the four children of a node
// are two cache lines side by side.
type heap []item

// push adds item e.
func (h *heap) push(e item) {
	a := append(*h, e)
	*h = a
	a.siftUp(len(a)-1, 0, e)
}

// siftUp places item e at index i, which is free, or at an ancestor of it, but not above index top.
// Ancestors that come after e move down. The parent of index i is at (i−1)/4.
func (h heap) siftUp(i, top int, e item) {
	for i > top {
		parent := (i - 1) / 4
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

// firstSibling returns the index of the item that comes first among the up to four siblings that begin at
// index c.
func (h heap) firstSibling(c int) int {
	hasAllFour := c+3 < len(h)
	if !hasAllFour {
		first := c
		for j := c + 1; j < len(h); j++ {
			if h[j].before(h[first]) {
				first = j
			}
		}
		return first
	}
	siblings := h[c : c+4 : c+4]
	// The first of each pair is found, and then the first of these two.
	first := 0
	second := 2
	if siblings[1].before(siblings[0]) {
		first = 1
	}
	if siblings[3].before(siblings[2]) {
		second = 3
	}
	if siblings[second].before(siblings[first]) {
		first = second
	}
	return c + first
}

// pop removes the first event. The heap must not be empty.
func (h *heap) pop() item {
	a := *h
	first := a[0]
	last := a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) > 0 {
		a.siftDown(0, last)
	}
	return first
}

// siftDown places item e at index i, which is free, or at a descendant of it. An item from the end of the
// heap nearly always belongs at the bottom again, so the free place first sinks to the bottom, without
// comparisons with e, and then rises to where e belongs. The first child of index i is at 4i+1.
func (h heap) siftDown(i int, e item) {
	top := i
	for child := 4*i + 1; child < len(h); child = 4*i + 1 {
		first := h.firstSibling(child)
		h[i] = h[first]
		i = first
	}
	h.siftUp(i, top, e)
}

// build makes a heap of items that are in any order (Floyd, 1964).
func (h heap) build() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 1; i-- {
		h.siftDown(i, h[i])
	}
}
