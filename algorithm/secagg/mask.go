package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"encoding/binary"
	"slices"
)

// maskBlock is how many bytes of a mask are made at a time, and maskGroup of how many masks: they and
// the words stay in the fastest cache, and a pass over the words adds all masks of a group.
const (
	maskBlock = 2 << 10
	maskGroup = 8
)

// mask is the stream of one mask and how it enters. Word i of a mask is the bytes 8i to 8i+7, the lowest
// first, of AES-128 in counter mode.
type mask struct {
	stream    cipher.Stream
	subtracts bool
}

// cipherKeyBytes is how many bytes of a mask's key are the key of AES-128. The others are the first counter.
const cipherKeyBytes = 16

// newMask returns the mask that follows from key, which has 32 bytes: the stream of AES-128 in counter mode, with the
// first 16 bytes as the cipher's key and the others as the first counter. A cipher's key of 128 bits is as hard to
// find as the X25519 keys that masks follow from. As the first counter is secret, too, an attacker who knows the
// streams of many masks must try each key on each of them, as for one. subtracts says whether the mask is subtracted
// from an update instead of added. A key must be used for one mask only.
func newMask(key []byte, subtracts bool) mask {
	block, err := aes.NewCipher(key[:cipherKeyBytes])
	if err != nil {
		panic("secagg: AES-128 refuses a key of 16 bytes")
	}
	return mask{cipher.NewCTR(block, key[cipherKeyBytes:]), subtracts}
}

// addMasks adds masks to words modulo 2^64, or subtracts those that are to be subtracted. It goes through
// the words once, block by block, and in each block handles the masks in groups, since additions modulo
// 2^64 may be in any order.
func addMasks(words []uint64, masks []mask) {
	var added, subtracted []cipher.Stream
	for _, m := range masks {
		if m.subtracts {
			subtracted = append(subtracted, m.stream)
		} else {
			added = append(added, m.stream)
		}
	}
	var buffers maskBuffers
	for len(words) > 0 {
		n := min(len(words), maskBlock/8)
		for group := range slices.Chunk(added, maskGroup) {
			addWords(words[:n], buffers.fill(group, 8*n))
		}
		for group := range slices.Chunk(subtracted, maskGroup) {
			subtractWords(words[:n], buffers.fill(group, 8*n))
		}
		words = words[n:]
	}
}

// maskBuffers hold a block of each mask of a group. zeros stays zero: the cipher makes its key stream of it. The
// first filled blocks are those of the last group; the blocks behind them are zero.
type maskBuffers struct {
	zeros  [maskBlock]byte
	blocks [maskGroup][maskBlock]byte
	filled int
}

// fill returns blocks with the next n bytes of each stream of a group, which has at most maskGroup streams. Blocks
// without a stream are zero, so that the caller can add all of them. The blocks are used again by the next call.
func (b *maskBuffers) fill(group []cipher.Stream, n int) *[maskGroup][maskBlock]byte {
	for i, stream := range group {
		stream.XORKeyStream(b.blocks[i][:n], b.zeros[:n])
	}
	for i := len(group); i < b.filled; i++ {
		clear(b.blocks[i][:])
	}
	b.filled = len(group)
	return &b.blocks
}

// addMask adds or subtracts the mask of one key.
func addMask(words []uint64, key []byte, subtract bool) {
	addMasks(words, []mask{newMask(key, subtract)})
}

// addWords adds to words[i], modulo 2^64, word i of each of the maskGroup blocks, whose words are little-endian and
// have 64 bits. There are at most maskBlock/8 words.
func addWords(words []uint64, blocks *[maskGroup][maskBlock]byte) {
	word := func(block int, i uint) uint64 {
		return binary.LittleEndian.Uint64(blocks[block][8*i:][:8])
	}
	for i := range uint(min(len(words), maskBlock/8)) {
		firstFour := word(0, i) + word(1, i) + word(2, i) + word(3, i)
		words[i] += firstFour + word(4, i) + word(5, i) + word(6, i) + word(7, i)
	}
}

// subtractWords subtracts from words[i], modulo 2^64, word i of each of the maskGroup blocks, whose words are
// little-endian and have 64 bits. There are at most maskBlock/8 words.
func subtractWords(words []uint64, blocks *[maskGroup][maskBlock]byte) {
	word := func(block int, i uint) uint64 {
		return binary.LittleEndian.Uint64(blocks[block][8*i:][:8])
	}
	for i := range uint(min(len(words), maskBlock/8)) {
		firstFour := word(0, i) + word(1, i) + word(2, i) + word(3, i)
		words[i] -= firstFour + word(4, i) + word(5, i) + word(6, i) + word(7, i)
	}
}

// selfMaskKey returns the key of a member's self-mask, which follows from the member's secret seed.
func (r *Roster) selfMaskKey(seed secret) []byte { return deriveKey(seed[:], r.digest[:], seedText) }

// pairMaskKey returns the key of 32 bytes for the mask that a member shares with the neighbour of this
// index. private is the member's mask key. Both members derive the same key, which also depends on
// the roster, so that no two rounds share a mask.
func (r *Roster) pairMaskKey(private *ecdh.PrivateKey, neighbour int) ([]byte, error) {
	shared, err := agreeOnSecret(private, r.Entries[neighbour].MaskKey)
	if err != nil {
		return nil, err
	}
	return deriveKey(shared, r.digest[:], pairText), nil
}

// subtractsPairMask reports whether a member subtracts the mask that it shares with a neighbour: the one of
// the higher index does.
func subtractsPairMask(member, neighbour int) bool { return member > neighbour }
