package simclock

// pending is a set of sequence numbers: a bitmap in chunks, by their number >> chunkBits. A
// chunk without members is taken out at once, so memory follows the members, however far the
// numbers run. Numbers that ascend, the usual case, share chunks.
type pending map[uint64]*chunk

const chunkBits = 10 // numbers in a chunk: 2^10, so 128 bytes

type chunk [1 << chunkBits / 64]uint64

// bit is where a number's bit is.
func (c *chunk) bit(seq uint64) (word *uint64, bit uint64) {
	return &c[seq>>6%uint64(len(c))], 1 << (seq & 63)
}

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

func (p pending) has(seq uint64) bool {
	c := p[seq>>chunkBits]
	if c == nil {
		return false
	}
	word, bit := c.bit(seq)
	return *word&bit != 0
}
