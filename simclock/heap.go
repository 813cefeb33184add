package simclock

// heap is a 4-ary heap of items: half the levels of a binary one, and the
// four children of a node are two cache lines side by side.
type heap []item

func (h *heap) push(e item) {
	a := append(*h, e)
	*h = a
	a.up(len(a)-1, e)
}

// up places e at i or above it.
func (h heap) up(i int, e item) {
	for i > 0 {
		p := (i - 1) / 4
		if !e.before(h[p]) {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = e
}

// pop removes the first event. The heap must not be empty.
func (h *heap) pop() item {
	a := *h
	first := a[0]
	last := a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	// The last item nearly always belongs at the bottom again: let the hole
	// sink there before the item is compared, and rise from there.
	i := 0
	for {
		c := 4*i + 1
		if c+3 >= len(a) {
			if c < len(a) {
				m := c
				for j := c + 1; j < len(a); j++ {
					if a[j].before(a[m]) {
						m = j
					}
				}
				a[i] = a[m]
				i = m
			}
			break
		}
		k := a[c : c+4 : c+4]
		m, n := 0, 2
		if k[1].before(k[0]) {
			m = 1
		}
		if k[3].before(k[2]) {
			n = 3
		}
		if k[n].before(k[m]) {
			m = n
		}
		a[i] = k[m]
		i = c + m
	}
	if len(a) > 0 {
		a.up(i, last)
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
