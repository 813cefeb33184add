package flower

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"fedpace/internal/child"
)

// arenaSize is the size of an [Arena] in bytes. The system takes no memory for what was never written to. A machine of
// 32 bits has not so many addresses.
const arenaSize = min(1<<30, math.MaxInt>>4+1)

// Arena is memory that all processes of an app on this machine share. A client's process leaves a reply there, where
// this process hashes it and the server's process reads it, so that nobody copies it on the way. The methods may be
// called by several goroutines.
type Arena struct {
	memory *child.Memory
	// mu guards free, the parts that no room takes, in the order of their offsets. No two of them adjoin.
	mu   sync.Mutex
	free []span
}

// span is a part of an arena: its offset and its size, both in bytes.
type span struct{ offset, size int }

// end returns the offset of the first byte behind the span.
func (s span) end() int { return s.offset + s.size }

// room is the part of an arena that one reply may take.
type room struct {
	arena *Arena
	span
}

// NewArena returns an arena without any reply. Close it when all processes that share it have ended.
func NewArena() (*Arena, error) {
	memory, err := child.NewMemory()
	if err != nil {
		return nil, err
	}
	if _, err := memory.Grow(arenaSize); err != nil {
		_ = memory.Close()
		return nil, err
	}
	return &Arena{memory: memory, free: []span{{0, arenaSize}}}, nil
}

// Close gives the memory back. No reply in it may be used afterwards.
func (a *Arena) Close() error { return a.memory.Close() }

// take returns room for this many bytes, at the lowest offset, so that as little memory as possible is ever written
// to. It is nil if there is no such room, or no arena.
func (a *Arena) take(size int) *room {
	if a == nil || size < minShared {
		return nil
	}
	size = child.Align(size)
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.free, func(s span) bool { return s.size >= size })
	if i < 0 {
		return nil
	}
	taken := span{a.free[i].offset, size}
	a.free[i].offset += size
	a.free[i].size -= size
	if a.free[i].size == 0 {
		a.free = slices.Delete(a.free, i, i+1)
	}
	return &room{a, taken}
}

// put makes a span of the arena free again: it becomes one of a.free, the spans that no room takes, which
// ascend by offset. Free spans that touch are joined to one.
func (a *Arena) put(s span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, _ := slices.BinarySearchFunc(a.free, s.offset, func(f span, offset int) int { return f.offset - offset })
	a.free = slices.Insert(a.free, i, s)
	next := i + 1
	if next < len(a.free) && s.end() == a.free[next].offset {
		a.free[i].size += a.free[next].size
		a.free = slices.Delete(a.free, next, next+1)
	}
	previous := i - 1
	if previous >= 0 && a.free[previous].end() == s.offset {
		a.free[previous].size += a.free[i].size
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// release ends the use of a room, whose memory another one may take then. It may be called on nil, but only once.
func (r *room) release() {
	if r != nil {
		r.arena.put(r.span)
	}
}

// roomOf returns how many bytes blobs of these sizes take in a room.
func roomOf(sizes []int64) (total int) {
	for _, size := range sizes {
		total += child.Align(int(size))
	}
	return total
}

// shrink gives back what lies behind the first size bytes of the room, a multiple of the alignment.
func (r *room) shrink(size int) {
	if size >= r.size {
		return
	}
	r.arena.put(span{r.offset + size, r.size - size})
	r.size = size
}

// blobs returns the blobs of these sizes that lie in the room in their order, each at the next offset that
// [child.Align] gives. They are the memory itself, which is another reply's once the room was released.
func (r *room) blobs(sizes []int64) ([][]byte, error) {
	rest := r.arena.memory.Bytes[r.offset : r.offset+r.size]
	blobs := make([][]byte, len(sizes))
	for i, size := range sizes {
		if size < 0 || size > int64(len(rest)) {
			return nil, fmt.Errorf("a blob of %d bytes in a room of %d that has %d left", size, r.size, len(rest))
		}
		blobs[i] = rest[:size:size]
		rest = rest[min(child.Align(int(size)), len(rest)):]
	}
	return blobs, nil
}
