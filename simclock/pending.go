package simclock

// pending is a set of sequence numbers: a bitmap in chunks. A chunk without members is
// taken out at once, so memory follows the members, however far the numbers run.
// Numbers that ascend, the usual case, share chunks.
type pending struct {
	chunks map[uint64]*chunk // by sequence number >> chunkBits
	hot    *chunk            // the chunk that was last added to
	hotID  uint64
}

const chunkBits = 10 // numbers in a chunk: 2^10, so 128 bytes

type chunk [1 << chunkBits / 64]uint64

// word is where a number's bit is.
func (c *chunk) word(seq uint64) *uint64 { return &c[seq>>6%uint64(len(c))] }

// add reports whether seq was absent.
func (p *pending) add(seq uint64) bool {
	if id := seq >> chunkBits; p.hot == nil || p.hotID != id {
		p.hot, p.hotID = p.made(id), id
	}
	word, bit := p.hot.word(seq), uint64(1)<<(seq&63)
	absent := *word&bit == 0
	*word |= bit
	return absent
}

// made returns the chunk with a number and makes it when it is missing.
func (p *pending) made(id uint64) *chunk {
	c := p.chunks[id]
	if c == nil {
		if p.chunks == nil {
			p.chunks = map[uint64]*chunk{}
		}
		c = new(chunk)
		p.chunks[id] = c
	}
	return c
}

// find returns the chunk with a number; nil: it has no members.
func (p *pending) find(id uint64) *chunk {
	if p.hotID == id && p.hot != nil {
		return p.hot
	}
	return p.chunks[id]
}

// remove reports whether seq was present.
func (p *pending) remove(seq uint64) bool {
	c := p.find(seq >> chunkBits)
	if c == nil {
		return false
	}
	word, bit := c.word(seq), uint64(1)<<(seq&63)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	if *word == 0 && *c == (chunk{}) {
		delete(p.chunks, seq>>chunkBits)
		if c == p.hot {
			p.hot = nil
		}
	}
	return true
}

func (p *pending) has(seq uint64) bool {
	c := p.find(seq >> chunkBits)
	return c != nil && *c.word(seq)&(1<<(seq&63)) != 0
}
