package simclock

// pending is a set of sequence numbers: a bitmap in chunks, by their number >> chunkBits. A
// chunk without members is taken out at once, so memory follows the members, however far the
// numbers run. Numbers that ascend, the usual case, share chunks. Make one with [newPending].
type pending struct {
	chunks map[uint64]*chunk
	// recent has chunks that were looked up before, each at the place number % len(recent). It spares
	// most look-ups in the map. A place without a chunk is nil; a chunk that was taken out is in none.
	recent [16]recentChunk
}

// recentChunk is a chunk with its number.
type recentChunk struct {
	number uint64
	chunk  *chunk
}

// newPending returns an empty set.
func newPending() pending { return pending{chunks: map[uint64]*chunk{}} }

// find returns the chunk with this number, or nil if there is none. It looks among the recent chunks before it
// asks the map.
func (p *pending) find(number uint64) *chunk {
	place := &p.recent[number%uint64(len(p.recent))]
	if place.chunk != nil && place.number == number {
		return place.chunk
	}
	c := p.chunks[number]
	if c != nil {
		*place = recentChunk{number: number, chunk: c}
	}
	return c
}

// takeOut removes the chunk with this number, which must be in the set, from the map and from the recent chunks.
func (p *pending) takeOut(number uint64) {
	delete(p.chunks, number)
	// Its place among the recent ones may be that of another chunk now.
	place := &p.recent[number%uint64(len(p.recent))]
	if place.number == number {
		*place = recentChunk{}
	}
}

// chunkBits says how many numbers a chunk has a bit for: 2^10, in 128 bytes.
const chunkBits = 10

// chunk has a bit for each of the numbers seq with the same seq >> chunkBits. It is set if the number is pending.
type chunk [1 << chunkBits / 64]uint64

// bit returns the word of the chunk that has the bit of this number, and a mask with that bit alone.
func (c *chunk) bit(seq uint64) (word *uint64, bit uint64) {
	return &c[seq>>6%uint64(len(c))], 1 << (seq & 63)
}

// add puts a number into the set and reports whether it was absent. The chunk that has its bit is made if there
// is none.
func (p *pending) add(seq uint64) bool {
	number := seq >> chunkBits
	c := p.find(number)
	if c == nil {
		c = new(chunk)
		p.chunks[number] = c
	}
	word, bit := c.bit(seq)
	absent := *word&bit == 0
	*word |= bit
	return absent
}

// remove takes a number out of the set and reports whether it was there. A chunk that is empty then is removed.
func (p *pending) remove(seq uint64) bool {
	c := p.find(seq >> chunkBits)
	if c == nil {
		return false
	}
	word, bit := c.bit(seq)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	if *word == 0 && *c == (chunk{}) {
		p.takeOut(seq >> chunkBits)
	}
	return true
}

// has reports whether a number is in the set.
func (p *pending) has(seq uint64) bool {
	c := p.find(seq >> chunkBits)
	if c == nil {
		return false
	}
	word, bit := c.bit(seq)
	return *word&bit != 0
}
