package simclock

// heap is a 4-ary heap of items: half the levels of a binary one, and the
// four children of a node are two cache lines side by side.
type heap []item

func (h *heap) push(e item) {
	a := append(*h, e)
	*h = a
	i := len(a) - 1
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(a[p]) {
			break
		}
		a[i] = a[p]
		i = p
	}
	a[i] = e
}

// pop removes the first event. The heap must not be empty.
func (h *heap) pop() item {
	a := *h
	first := a[0]
	last := a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	if len(a) > 0 {
		a.down(0, last)
	}
	return first
}

// down places e at i or below it.
func (h heap) down(i int, e item) {
	for {
		c := 4*i + 1
		if c >= len(h) {
			break
		}
		m := c
		for j := c + 1; j < min(c+4, len(h)); j++ {
			if h[j].before(h[m]) {
				m = j
			}
		}
		if !h[m].before(e) {
			break
		}
		h[i] = h[m]
		i = m
	}
	h[i] = e
}

// order makes a heap of events in any order (Floyd, 1964).
func (h heap) order() {
	for i := (len(h) - 2) / 4; i >= 0 && len(h) > 1; i-- {
		h.down(i, h[i])
	}
}
