package fairshare

// heap is a binary heap of small numbers, each at most once. Any number can be removed, not only the
// first one.
type heap struct {
	// list has the numbers in the order of the heap, the first one at its beginning.
	list []int32
	// place holds for each number in the heap its place in list.
	place []int32
	// before reports whether a comes before b.
	before func(a, b int32) bool
}

// empty reports whether the heap has no numbers.
func (h *heap) empty() bool { return len(h.list) == 0 }

// first returns the number that comes before all others. The heap must not be empty.
func (h *heap) first() int32 { return h.list[0] }

// contains reports whether the number x is in the heap. A number that was removed keeps its old place,
// so the list decides.
func (h *heap) contains(x int32) bool {
	return int(x) < len(h.place) && int(h.place[x]) < len(h.list) && h.list[h.place[x]] == x
}

// add puts the number x, which must not be there, into the heap and notes its place.
func (h *heap) add(x int32) {
	for int(x) >= len(h.place) {
		h.place = append(h.place, 0)
	}
	h.list = append(h.list, x)
	h.place[x] = int32(len(h.list) - 1)
	h.fix(len(h.list) - 1)
}

// remove takes the number x, which must be there, out of the heap: the last number takes its place
// and moves to where it belongs.
func (h *heap) remove(x int32) {
	i := int(h.place[x])
	last := len(h.list) - 1
	h.swap(i, last)
	h.list = h.list[:last]
	if i < last {
		h.fix(i)
	}
}

// moved restores the heap's order after the values by which before compares the number x have changed.
func (h *heap) moved(x int32) { h.fix(int(h.place[x])) }

// fix moves the number at place i up or down the heap until no number is before its parent. All
// others must be in order.
func (h *heap) fix(i int) {
	for parent := (i - 1) / 2; i > 0 && h.before(h.list[i], h.list[parent]); parent = (i - 1) / 2 {
		h.swap(i, parent)
		i = parent
	}
	for child := 2*i + 1; child < len(h.list); child = 2*i + 1 {
		if right := child + 1; right < len(h.list) && h.before(h.list[right], h.list[child]) {
			child = right
		}
		if !h.before(h.list[child], h.list[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// swap exchanges the numbers at places i and j of the list, and notes their new places.
func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.place[h.list[i]], h.place[h.list[j]] = int32(i), int32(j)
}
