package timeline

import "fedpace/coordinator/round"

// rank orders tasks: the first number decides, then the next.
type rank [3]uint64

func (r *rank) above(o *rank) bool {
	for i := range r {
		if r[i] != o[i] {
			return r[i] > o[i]
		}
	}
	return false
}

// top holds the limit highest of the tasks that it is offered. Those that do not get in, nearly all
// of a large round, cost one comparison. Tasks come mostly in the order of their ends, each slower
// than all before: such a one goes to the end of the order at once.
type top struct {
	limit int
	held  []round.Ended // in no order
	order []entry       // lowest rank first
}

// entry is the rank of one that is held.
type entry struct {
	rank rank
	slot int
}

// wants says whether a task of that rank gets in.
func (t *top) wants(r *rank) bool {
	if len(t.order) < t.limit {
		return true
	}
	return t.limit > 0 && r.above(&t.order[0].rank)
}

// put takes in a task that wants has let pass.
func (t *top) put(r rank, e *round.Ended) {
	slot := len(t.held)
	if slot < t.limit {
		t.held = append(t.held, *e)
	} else {
		slot = t.order[0].slot
		t.held[slot] = *e
		copy(t.order, t.order[1:])
		t.order = t.order[:len(t.order)-1]
	}
	t.order = append(t.order, entry{r, slot})
	for i := len(t.order) - 1; i > 0 && t.order[i-1].rank.above(&r); i-- {
		t.order[i], t.order[i-1] = t.order[i-1], t.order[i]
	}
}

func (t *top) reset() { t.held, t.order = t.held[:0], t.order[:0] }
