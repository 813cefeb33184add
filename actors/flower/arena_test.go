package flower

import (
	"bytes"
	"testing"
)

// Rooms never overlap, and what was released is one part again, in whatever order.
func TestArena_Rooms(t *testing.T) {
	a, err := NewArena()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	var rooms []*room
	state := uint32(1)
	for range 2000 {
		state = state*1664525 + 1013904223
		draw := int(state >> 8)
		if len(rooms) > 40 || draw%3 == 0 && len(rooms) > 0 {
			i := draw / 3 % len(rooms)
			rooms[i].release()
			rooms = append(rooms[:i], rooms[i+1:]...)
			continue
		}
		r := a.take(minShared + draw%100_000)
		if draw%2 == 0 {
			r.shrink(r.size / 128 * 64)
		}
		for _, other := range rooms {
			if r.offset < other.offset+other.size && other.offset < r.offset+r.size {
				t.Fatalf("the room %v overlaps %v", r.span, other.span)
			}
		}
		rooms = append(rooms, r)
	}
	for _, r := range rooms {
		r.release()
	}
	if len(a.free) != 1 || a.free[0] != (span{0, arenaSize}) {
		t.Errorf("free are %v, want all", a.free)
	}
}

// There is no room for more than is left, for little, and without an arena.
func TestArena_NoRoom(t *testing.T) {
	a, err := NewArena()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	whole := a.take(arenaSize)
	if whole == nil || a.take(minShared) != nil {
		t.Error("there is room beside a room of everything")
	}
	whole.release()
	var none *Arena
	if a.take(minShared-1) != nil || a.take(arenaSize+1) != nil || none.take(minShared) != nil {
		t.Error("there is room for little, for too much, or without an arena")
	}
}

// A reply that was placed shares its content with the room, but not the node's state, and takes no more
// than its content. Sizes that do not fit are an error.
func TestReply_Placed(t *testing.T) {
	a, err := NewArena()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	room := a.take(1 << 20)
	copy(a.memory.Bytes[room.offset:], "text")
	copy(a.memory.Bytes[room.offset+64:], bytes.Repeat([]byte("n"), 100))
	copy(a.memory.Bytes[room.offset+192:], "state")
	header := clientReply{Replied: true, Arrays: 1, State: "new", sizes: sizes{Sizes: []int64{4, 100, 5}, Placed: true}}
	for _, wrong := range [][]int64{{4, 1 << 20}, {-1, 3}, {4}} {
		bad := header
		bad.Sizes = wrong
		if _, err := bad.placed(&Task{}, room); err == nil {
			t.Errorf("blobs of %v bytes are no error", wrong)
		}
	}
	r, err := header.placed(&Task{}, room)
	if err != nil {
		t.Fatal(err)
	}
	if free := a.free[0].offset; free != 192 {
		t.Errorf("the arena is free from byte %d on, want 192", free)
	}
	clear(a.memory.Bytes[:256])
	if string(r.State[0]) != "state" || len(r.Content[1]) != 100 || r.Content[1][99] != 0 {
		t.Errorf("the state %q, the content %q", r.State, r.Content)
	}
	taken := r.Take()
	if r.Content != nil || r.State != nil || len(taken.Content) != 2 {
		t.Errorf("%v is left of a reply that was taken", r)
	}
	r.Drop()
	taken.Drop()
	if len(a.free) != 1 {
		t.Errorf("free are %v, want all", a.free)
	}
}
