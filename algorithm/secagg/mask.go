package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"encoding/binary"
)

// maskBlock is how many bytes of a mask are made at a time: they stay in the cache.
const maskBlock = 16 << 10

// addMask adds the mask of a key to words modulo 2^64, or subtracts it. Word i of the mask is the
// bytes 8i to 8i+7, the lowest first, of AES-256 in counter mode from a counter of zero.
func addMask(words []uint64, key []byte, subtract bool) {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("secagg: AES-256 refuses a key of 32 bytes")
	}
	stream := cipher.NewCTR(block, make([]byte, aes.BlockSize))
	var zeros, bytes [maskBlock]byte
	for len(words) > 0 {
		n := min(len(words), maskBlock/8)
		part := bytes[:8*n]
		stream.XORKeyStream(part, zeros[:8*n])
		addWords(words[:n], part, subtract)
		words = words[n:]
	}
}

// addWords adds or subtracts little-endian words.
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

// pairKey is the key of the mask that a member shares with a neighbour.
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
