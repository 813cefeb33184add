package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

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

// Sealed is a message that ends with a digest of all bytes before it, as jobs and sums
// do. A bit that a network, a memory or a disk has turned is noticed. The digest is no
// signature. Tasks and plans have none: it would cost an eighth of a timing-only round.
type Sealed interface {
	Message
	*Job | *Sum | *SumReply
}

// The digest is a field of its own, the last one: a fixed64, XXH64 without a seed.
const (
	digestField  = 15
	digestTag    = digestField<<3 | byte(protowire.Fixed64Type)
	digestLength = 1 + 8
)

// ErrDamaged reports that a message is not the one that was sent.
var ErrDamaged = errors.New("bus: the message was damaged on its way: its digest is not that of what it holds")

// MarshalSealed is m and its digest.
func MarshalSealed[M Sealed](m M) ([]byte, error) {
	b, err := Marshal(make([]byte, 0, proto.Size(m)+digestLength), m)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint64(append(b, digestTag), xxhash.Sum64(b)), nil
}

// UnmarshalSealed is [Unmarshal] of a message that ends with its digest, which m does
// not get. Of one that does not the error is ErrDamaged, and m is as it was.
func UnmarshalSealed[M Sealed](b []byte, m M) error {
	end := len(b) - digestLength
	if end < 0 || b[end] != digestTag || binary.LittleEndian.Uint64(b[end+1:]) != xxhash.Sum64(b[:end]) {
		return ErrDamaged
	}
	return Unmarshal(b[:end], m)
}
