package bus

import (
	"crypto/sha256"
	"encoding/hex"

	"fedpace/internal/vector"
)

// Digest identifies a model: SHA-256 of its little-endian float32 values in
// model order. The zero digest stands for no model.
type Digest [sha256.Size]byte

// DigestOf hashes a model's parameters.
func DigestOf(params []float32) Digest { return sha256.Sum256(vector.Bytes(params)) }

// String is the digest in hexadecimal, as in subjects.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// DigestFrom is the digest in a message: zero where there is none.
func DigestFrom(b []byte) (d Digest) {
	copy(d[:], b)
	return d
}

// Bytes is the digest as a message holds it: nothing for no model.
func (d Digest) Bytes() []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// IsZero tells whether d stands for no model.
func (d Digest) IsZero() bool { return d == Digest{} }
