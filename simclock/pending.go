package simclock

// pending is a set of sequence numbers: a bitmap in chunks, and a small open
// hash table (linear probing) from chunk number to chunk. A chunk without
// members is taken out at once, so memory follows the members, however far the
// numbers run. Numbers that ascend, the usual case, share chunks.
type pending struct {
	table []entry // power of two long, at most half full
	used  int
	hot   *chunk // the chunk that was last added to
	hotID uint64
	spare []*chunk
}

const (
	chunkBits  = 10 // numbers in a chunk: 2^10, so 128 bytes
	maxSpare   = 64
	minEntries = 16
)

type chunk [1 << chunkBits / 64]uint64

type entry struct {
	id    uint64 // sequence number >> chunkBits
	chunk *chunk // nil: free
}

func (p *pending) home(id uint64) int {
	h := id * 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	return int((h ^ h>>32) & uint64(len(p.table)-1))
}

// find returns the entry of a chunk, or the free entry where it belongs. The
// table must not be empty.
func (p *pending) find(id uint64) int {
	mask := len(p.table) - 1
	i := p.home(id)
	for p.table[i].chunk != nil && p.table[i].id != id {
		i = (i + 1) & mask
	}
	return i
}

// add reports whether seq was absent.
func (p *pending) add(seq uint64) bool {
	id := seq >> chunkBits
	if p.hot == nil || p.hotID != id {
		p.hot, p.hotID = p.chunk(id), id
	}
	word := &p.hot[seq>>6%uint64(len(chunk{}))]
	bit := uint64(1) << (seq & 63)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// chunk returns the chunk with a number and makes it when it is missing.
func (p *pending) chunk(id uint64) *chunk {
	if 2*p.used >= len(p.table) {
		p.resize(max(minEntries, 2*len(p.table)))
	}
	i := p.find(id)
	if p.table[i].chunk == nil {
		var c *chunk
		if n := len(p.spare); n > 0 {
			c, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			c = new(chunk)
		}
		p.table[i] = entry{id, c}
		p.used++
	}
	return p.table[i].chunk
}

// remove reports whether seq was present.
func (p *pending) remove(seq uint64) bool {
	if len(p.table) == 0 {
		return false
	}
	i := p.find(seq >> chunkBits)
	c := p.table[i].chunk
	if c == nil {
		return false
	}
	word := &c[seq>>6%uint64(len(chunk{}))]
	bit := uint64(1) << (seq & 63)
	if *word&bit == 0 {
		return false
	}
	*word &^= bit
	if *word == 0 && *c == (chunk{}) {
		p.discard(i)
	}
	return true
}

func (p *pending) has(seq uint64) bool {
	if len(p.table) == 0 {
		return false
	}
	c := p.table[p.find(seq>>chunkBits)].chunk
	return c != nil && c[seq>>6%uint64(len(chunk{}))]&(1<<(seq&63)) != 0
}

// discard takes out the entry i, whose chunk is empty, and moves up those that
// had to give way to it, so that find never meets a gap (Knuth, 6.4, R).
func (p *pending) discard(i int) {
	c := p.table[i].chunk
	if c == p.hot {
		p.hot = nil
	}
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, c)
	}
	p.used--
	mask := len(p.table) - 1
	for j := i; ; {
		j = (j + 1) & mask
		if p.table[j].chunk == nil {
			break
		}
		if (j-p.home(p.table[j].id))&mask >= (j-i)&mask {
			p.table[i] = p.table[j]
			i = j
		}
	}
	p.table[i] = entry{}
	if len(p.table) > minEntries && 16*p.used < len(p.table) {
		p.resize(len(p.table) / 4)
	}
}

func (p *pending) resize(n int) {
	old := p.table
	p.table = make([]entry, n)
	for _, e := range old {
		if e.chunk != nil {
			p.table[p.find(e.id)] = e
		}
	}
}
