package simclock

// pending is a set of sequence numbers: a bitmap in chunks, by their number >> chunkBits. A
// chunk without members is taken out at once, so memory follows the members, however far the
// numbers run. Numbers that ascend, the usual case, share chunks.
type pending map[uint64]*chunk

// chunkBits says how many numbers a chunk has a bit for: 2^10, in 128 bytes.
const chunkBits = 10

// chunk has a bit for each of the numbers seq with the same seq >> chunkBits. It is set if the number is pending.
type chunk [1 << chunkBits / 64]uint64

// bit returns the word of the chunk that has the bit of this number, and a mask with that bit alone.
func (c *chunk) bit(seq uint64) (word *uint64, bit uint64) {
	return &c[seq>>6%uint64(len(c))], 1 << (seq & 63)
}

// add puts a number into the set and reports whether it was absent.
func (p pending) add(seq uint64) bool {
	c := p[seq>>chunkBits]
	if c == nil {
		c = new(chunk)
		p[seq>>chunkBits] = c
	}
	word, bit := c.bit(seq)
	absent := *word&bit == 0
	*word |= bit
	return absent
}

// remove takes a number out of the set and reports whether it was there.
func (p pending) remove(seq uint64) bool {
	c := p[seq>>chunkBits]
	if c == nil {
		return false
	}
	word, bit := c.bit(seq)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	if *word == 0 && *c == (chunk{}) {
		delete(p, seq>>chunkBits)
	}
	return true
}

// has reports whether a number is in the set.
func (p pending) has(seq uint64) bool {
	c := p[seq>>chunkBits]
	if c == nil {
		return false
	}
	word, bit := c.bit(seq)
	return *word&bit != 0
}
