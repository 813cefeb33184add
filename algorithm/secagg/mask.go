package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"encoding/binary"
)

// maskBlock is how many bytes of a mask are made at a time: they and the words stay in the fastest cache.
const maskBlock = 8 << 10

// mask is the stream of one mask and how it enters. Word i of a mask is the bytes 8i to 8i+7, the lowest
// first, of AES-256 in counter mode from a counter of zero.
type mask struct {
	stream    cipher.Stream
	subtracts bool
}

// newMask returns the mask that follows from key, which has 32 bytes: the stream of AES-256 in
// counter mode from counter 0. subtracts says whether the mask is subtracted from an update instead
// of added. A key must be used for one mask only.
func newMask(key []byte, subtracts bool) mask {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("secagg: AES-256 refuses a key of 32 bytes")
	}
	return mask{cipher.NewCTR(block, make([]byte, aes.BlockSize)), subtracts}
}

// addMasks adds masks to words modulo 2^64, or subtracts them. It goes through the words once: all masks
// of a block come before the next block.
func addMasks(words []uint64, masks []mask) {
	var zeros, bytes [maskBlock]byte
	for len(words) > 0 {
		n := min(len(words), maskBlock/8)
		part := bytes[:8*n]
		for _, m := range masks {
			m.stream.XORKeyStream(part, zeros[:8*n])
			addWords(words[:n], part, m.subtracts)
		}
		words = words[n:]
	}
}

// addMask adds or subtracts the mask of one key.
func addMask(words []uint64, key []byte, subtract bool) {
	addMasks(words, []mask{newMask(key, subtract)})
}

// addWords adds the little-endian words of 64 bits in b to words, modulo 2^64, or subtracts them if
// subtract is true. b has 8 bytes for each word.
func addWords(words []uint64, b []byte, subtract bool) {
	if subtract {
		for i := range words {
			words[i] -= binary.LittleEndian.Uint64(b[8*i:])
		}
		return
	}
	for i := range words {
		words[i] += binary.LittleEndian.Uint64(b[8*i:])
	}
}

// ownKey is the key of a member's own mask.
func (r *Roster) ownKey(seed secret) []byte { return derive(seed[:], r.digest[:], seedText) }

// pairKey returns the key of 32 bytes for the mask that a member shares with the neighbour of this
// index. private is the member's mask key. Both members derive the same key, which also depends on
// the roster, so that no two rounds share a mask.
func (r *Roster) pairKey(private *ecdh.PrivateKey, neighbour int) ([]byte, error) {
	shared, err := agree(private, r.Entries[neighbour].MaskKey)
	if err != nil {
		return nil, err
	}
	return derive(shared, r.digest[:], pairText), nil
}

// subtracts reports whether a member subtracts the mask that it shares with a neighbour: the one of
// the higher index does.
func subtracts(member, neighbour int) bool { return member > neighbour }
