package fairshare

// heap is a binary heap of small numbers, here indices of groups, flows or sites, each in it at most
// once. Any number can be removed, not only the first one.
type heap struct {
	// list has the numbers in the order of the heap, the first one at its beginning.
	list []int32
	// positions holds for each number in the heap its position in list.
	positions []int32
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
	return int(x) < len(h.positions) && int(h.positions[x]) < len(h.list) && h.list[h.positions[x]] == x
}

// add puts the number x, which must not be there, into the heap and notes its place.
func (h *heap) add(x int32) {
	for int(x) >= len(h.positions) {
		h.positions = append(h.positions, 0)
	}
	h.list = append(h.list, x)
	h.positions[x] = int32(len(h.list) - 1)
	h.siftFrom(len(h.list) - 1)
}

// remove takes the number x, which must be there, out of the heap: the last number of the list fills its
// position and moves to where it belongs.
func (h *heap) remove(x int32) {
	position := int(h.positions[x])
	last := len(h.list) - 1
	h.swap(position, last)
	h.list = h.list[:last]
	if position < last {
		h.siftFrom(position)
	}
}

// reorder restores the order of the heap after the values by which before compares the number x have
// changed.
func (h *heap) reorder(x int32) { h.siftFrom(int(h.positions[x])) }

// siftFrom moves the number at a position of the list up the heap while it comes before its parent, then
// down while a child comes before it. The heap must be in order but for this number.
func (h *heap) siftFrom(position int) {
	for position > 0 {
		parent := (position - 1) / 2
		if !h.before(h.list[position], h.list[parent]) {
			break
		}
		h.swap(position, parent)
		position = parent
	}
	for child := 2*position + 1; child < len(h.list); child = 2*position + 1 {
		if right := child + 1; right < len(h.list) && h.before(h.list[right], h.list[child]) {
			child = right
		}
		if !h.before(h.list[child], h.list[position]) {
			return
		}
		h.swap(position, child)
		position = child
	}
}

// swap exchanges the numbers at places i and j of the list, and notes their new places.
func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.positions[h.list[i]], h.positions[h.list[j]] = int32(i), int32(j)
}
