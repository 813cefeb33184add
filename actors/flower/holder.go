package flower

// holder knows which arrays somebody keeps who serves tasks: a client's process, or a host. Arrays are sent to them
// once.
type holder struct {
	// held are the sizes of the arrays, by digest, and order their digests in the order in which they came.
	held  map[string]int
	order []string
	// bytes is their size in all.
	bytes int
}

// request returns the frame of task t: a header, and as blobs the arrays that are not
// held yet, the content's text, and the node's state. It notes which arrays are held from then on,
// so the frame must be sent.
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

// hold notes that array a is held from now on, and returns true if it must be sent. It returns
// false, and changes nothing, if it was held already.
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

// makeRoom returns the digests of the arrays that are to be dropped, and forgets that they were
// held; nil if all may stay. If they exceed maxHeld bytes, the oldest ones go that are not
// needed now, until the others take no more than half of that. needed has the digests of the
// message under way.
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
