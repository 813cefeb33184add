package secagg

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// All numbers on the wire are little-endian. Lengths of the records, in bytes:
const (
	keyBytes    = 32
	digestBytes = sha256.Size
	// entryBytes: client 4, weight 8, four keys or digests of 32, signature 64.
	entryBytes  = 4 + 8 + 4*keyBytes + ed25519.SignatureSize
	headerBytes = 4*4 + digestBytes
	// sealedBytes: two shares of 32 and the tag of AES-GCM.
	sealedBytes    = 2*keyBytes + 16
	shareRecord    = 4 + sealedBytes
	signatureBytes = 4 + ed25519.SignatureSize
	revealBytes    = 4 + 1 + keyBytes
)

// Texts that keep one use of a key or signature apart from all others.
const (
	contextText   = "fedpace secure aggregation 2"
	keysText      = "fedpace secure aggregation 2 keys"
	survivorsText = "fedpace secure aggregation 2 survivors"
	ringText      = "fedpace secure aggregation 2 ring"
	seedText      = "fedpace secure aggregation 2 seed"
	pairText      = "fedpace secure aggregation 2 pair"
	keyText       = "fedpace secure aggregation 2 key"
	sealText      = "fedpace secure aggregation 2 seal"
)

// Context names a round of a run, so that no message of another round counts in it.
type Context [digestBytes]byte

// NewContext returns the context of one round of a run: a hash of the run's name and the round's
// number, which every signature covers, so that no message counts in another round.
func NewContext(run string, round uint32) Context {
	b := append([]byte(contextText), run...)
	b = append(b, 0)
	return sha256.Sum256(binary.LittleEndian.AppendUint32(b, round))
}

// Entry is what a member says of itself in the first stage.
type Entry struct {
	// Client is the member's number in the run.
	Client uint32
	// Weight is what the member's update counts with, at least 1.
	Weight uint64
	// Identity is the Ed25519 key by which the member signs.
	Identity [keyBytes]byte
	// MaskKey is the X25519 key from which pairwise masks follow, and ShareKey the one by which shares
	// are encrypted.
	MaskKey  [keyBytes]byte
	ShareKey [keyBytes]byte
	// Commitment is the SHA-256 of the member's own seed.
	Commitment [digestBytes]byte
	// Signature is that of everything above and the context.
	Signature [ed25519.SignatureSize]byte
}

// append appends the entry as it is sent to b and returns the result. With signed the signature follows;
// without it the bytes are those that the signature covers.
func (e *Entry) append(b []byte, signed bool) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.Client)
	b = binary.LittleEndian.AppendUint64(b, e.Weight)
	b = append(b, e.Identity[:]...)
	b = append(b, e.MaskKey[:]...)
	b = append(b, e.ShareKey[:]...)
	b = append(b, e.Commitment[:]...)
	if signed {
		b = append(b, e.Signature[:]...)
	}
	return b
}

// message returns the bytes that the signature of an entry covers, in the round of context c.
func (e *Entry) message(c Context) []byte {
	b := append([]byte(keysText), c[:]...)
	const signed = false
	return e.append(b, signed)
}

// maxWeight is the smallest weight that is refused: all whole numbers below it are exact in float64.
const maxWeight = 1 << 53

// parseEntry reads one entry of a roster from b, which must have entryBytes bytes, and checks its
// weight and its signature for context c. An entry of another run or round has no valid signature
// here.
func parseEntry(b []byte, c Context) (Entry, error) {
	var entry Entry
	if len(b) != entryBytes {
		return entry, fmt.Errorf("secagg: an entry of %d bytes, want %d", len(b), entryBytes)
	}
	entry.Client = binary.LittleEndian.Uint32(b)
	entry.Weight = binary.LittleEndian.Uint64(b[4:])
	// The number takes 4 bytes and the weight 8. Four values of 32 bytes follow, then the
	// signature.
	fields := b[12:]
	for _, field := range []*[keyBytes]byte{&entry.Identity, &entry.MaskKey, &entry.ShareKey, &entry.Commitment} {
		copy(field[:], fields)
		fields = fields[keyBytes:]
	}
	copy(entry.Signature[:], fields)
	if entry.Weight < 1 || entry.Weight >= maxWeight {
		return entry, fmt.Errorf("secagg: client %d has the weight %d, want 1 to 2^53", entry.Client, entry.Weight)
	}
	if !ed25519.Verify(entry.Identity[:], entry.message(c), entry.Signature[:]) {
		return entry, fmt.Errorf("secagg: the signature of client %d's keys is not valid", entry.Client)
	}
	return entry, nil
}

// Roster is all members of a round in ascending order of their clients' numbers. A member's index is
// its place there.
type Roster struct {
	Terms   Terms
	Context Context
	Entries []Entry

	digest [digestBytes]byte
	// ring has the indices of the members in the order of the ring, and place the place of each.
	ring  []int
	place []int
}

// encode returns the bytes of the roster as they are sent and hashed: the four terms, the context,
// and then the signed entries in ascending order of clients.
func (r *Roster) encode() []byte {
	b := make([]byte, 0, headerBytes+len(r.Entries)*entryBytes)
	for _, term := range []int{r.Terms.Neighbours, r.Terms.Threshold, r.Terms.Colluders, r.Terms.Minimum} {
		b = binary.LittleEndian.AppendUint32(b, uint32(term))
	}
	b = append(b, r.Context[:]...)
	const signed = true
	for i := range r.Entries {
		b = r.Entries[i].append(b, signed)
	}
	return b
}

// ParseRoster reads a roster from its bytes on the wire and checks everything that a member must
// rely on: the context c, the terms, the number of members, their ascending order and every
// signature. It then arranges the members on the ring.
func ParseRoster(b []byte, c Context) (*Roster, error) {
	if len(b) < headerBytes || (len(b)-headerBytes)%entryBytes != 0 {
		return nil, fmt.Errorf("secagg: a roster of %d bytes", len(b))
	}
	roster := &Roster{}
	// The header is as encode has it: the terms in four bytes each, and then the context.
	terms := []*int{&roster.Terms.Neighbours, &roster.Terms.Threshold, &roster.Terms.Colluders, &roster.Terms.Minimum}
	for i, term := range terms {
		*term = int(binary.LittleEndian.Uint32(b[4*i:]))
	}
	copy(roster.Context[:], b[4*len(terms):])
	if roster.Context != c {
		return nil, fmt.Errorf("secagg: the roster is of another run or round")
	}
	if err := roster.Terms.Validate(); err != nil {
		return nil, err
	}
	n := (len(b) - headerBytes) / entryBytes
	if n < roster.Terms.Minimum || n > MaxMembers {
		return nil, fmt.Errorf("secagg: a roster of %d members, want %d to %d", n, roster.Terms.Minimum, MaxMembers)
	}
	for i := range n {
		from := headerBytes + i*entryBytes
		entry, err := parseEntry(b[from:from+entryBytes], c)
		if err != nil {
			return nil, err
		}
		// Ascending order makes each client a member at most once.
		if i > 0 && roster.Entries[i-1].Client >= entry.Client {
			return nil, fmt.Errorf("secagg: client %d is out of order in the roster", entry.Client)
		}
		roster.Entries = append(roster.Entries, entry)
	}
	roster.arrangeRing(b)
	return roster, nil
}

// splitRecords splits a message into records of length bytes. Each begins with four bytes, the index of a
// member, which must be below n and larger than that of the record before. It returns these indices and, as
// bodies, the rest of each record.
func splitRecords(b []byte, length, n int) (indices []int, bodies [][]byte, err error) {
	if len(b)%length != 0 {
		return nil, nil, fmt.Errorf("secagg: %d bytes are no records of %d", len(b), length)
	}
	for from := 0; from < len(b); from += length {
		index := int(binary.LittleEndian.Uint32(b[from:]))
		isAscending := len(indices) == 0 || index > indices[len(indices)-1]
		if index >= n || !isAscending {
			return nil, nil, fmt.Errorf("secagg: a record of member %d is out of order, of %d members", index, n)
		}
		indices = append(indices, index)
		bodies = append(bodies, b[from+4:from+length])
	}
	return indices, bodies, nil
}

// encodeSet encodes a set of members as a bitmap: member i is bit i mod 8 of byte i/8.
func encodeSet(member []bool) []byte {
	b := make([]byte, (len(member)+7)/8)
	for i, isMember := range member {
		if isMember {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// parseSet decodes a set of n members from its bitmap b, in which bit i%8 of byte i/8 stands for the member
// with index i. Bits beyond n must be 0, so that each set has one encoding.
func parseSet(b []byte, n int) ([]bool, error) {
	if len(b) != (n+7)/8 {
		return nil, fmt.Errorf("secagg: a set of %d bytes for %d members", len(b), n)
	}
	set := make([]bool, n)
	for i := range 8 * len(b) {
		isMember := b[i/8]>>(i%8)&1 == 1
		if isMember && i >= n {
			return nil, fmt.Errorf("secagg: a set with member %d of %d", i, n)
		}
		if isMember {
			set[i] = true
		}
	}
	return set, nil
}

// survivorsMessage returns the bytes that members sign: the digest of the roster and the set of survivors.
func (r *Roster) survivorsMessage(set []byte) []byte {
	b := append([]byte(survivorsText), r.digest[:]...)
	return append(b, set...)
}

// countTrue returns how many members a set has: the number of its entries that are true.
func countTrue(set []bool) (n int) {
	for _, is := range set {
		if is {
			n++
		}
	}
	return n
}
