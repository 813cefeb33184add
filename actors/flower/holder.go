package flower

// holder knows which arrays a receiver, a process or a host that serves tasks, holds in memory, so that each array is
// sent to it once. makeRoom decides which arrays it drops.
type holder struct {
	// held are the sizes of the arrays in bytes, by digest, and order their digests in the order of their arrival.
	held  map[string]int
	order []string
	// bytes is the size of all arrays together.
	bytes int
}

// request returns the frame of task t: a header, and as blobs the arrays that the receiver does not hold yet, the
// content's text, and the node's state. The arrays count as held by the receiver from here on, so the frame must be
// sent to it.
func (h *holder) request(t *Task) (*clientRequest, [][]byte) {
	header := &clientRequest{
		Node:      t.Node,
		Partition: t.Partition,
		Ordinal:   t.Ordinal,
		Type:      t.Type,
		ID:        t.ID,
		Group:     t.Group,
		TTL:       t.TTL,
		Arrays:    []string{},
	}
	var blobs [][]byte
	needed := map[string]bool{}
	for _, a := range t.Content.Arrays {
		header.Arrays = append(header.Arrays, a.Digest)
		needed[a.Digest] = true
		// hold returns true for an array that the receiver does not hold yet.
		if h.hold(a) {
			header.Names = append(header.Names, a.Digest)
			blobs = append(blobs, a.Data)
		}
	}
	// Arrays of this message stay, even if they alone exceed the limit.
	header.Drop = h.makeRoom(needed)
	blobs = append(blobs, []byte(t.Content.Text))
	return header, append(blobs, t.State...)
}

// has reports whether the receiver holds all arrays of task t.
func (h *holder) has(t *Task) bool {
	for _, a := range t.Content.Arrays {
		if _, ok := h.held[a.Digest]; !ok {
			return false
		}
	}
	return true
}

// hold notes that the receiver holds array a from now on, and returns true if a must be sent for that. It returns
// false, and changes nothing, if the receiver holds it already.
func (h *holder) hold(a Array) bool {
	if _, ok := h.held[a.Digest]; ok {
		return false
	}
	if h.held == nil {
		h.held = map[string]int{}
	}
	h.held[a.Digest] = len(a.Data)
	h.order = append(h.order, a.Digest)
	h.bytes += len(a.Data)
	return true
}

// makeRoom returns the digests of the arrays that the receiver is to drop, and forgets them; nil if all
// may stay. If the arrays exceed maxHeld bytes, the oldest are dropped until the others take no more
// than half of that. Arrays of the message under way, whose digests are in needed, always stay.
func (h *holder) makeRoom(needed map[string]bool) (drop []string) {
	if h.bytes <= maxHeld {
		return nil
	}
	// The order is that of arrival, so the oldest come first.
	kept := h.order[:0]
	for _, digest := range h.order {
		if needed[digest] || h.bytes <= maxHeld/2 {
			kept = append(kept, digest)
			continue
		}
		drop = append(drop, digest)
		h.bytes -= h.held[digest]
		delete(h.held, digest)
	}
	h.order = kept
	return drop
}
