package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"fedpace/internal/vector"
)

// Digest identifies a model or a client state: the SHA-256 of its little-endian float32 values in
// model order. The zero digest stands for no model.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a model's parameters, or of a client's state.
func DigestOf(params []float32) Digest { return sha256.Sum256(vector.Bytes(params)) }

// String returns the digest in hexadecimal, as it stands in subjects.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// DigestFrom returns the digest in a message's field. An empty field is the zero digest.
func DigestFrom(b []byte) (d Digest) {
	copy(d[:], b)
	return d
}

// Bytes returns the digest as a message's field holds it: nil for the zero digest.
func (d Digest) Bytes() []byte {
	if d.IsZero() {
		return nil
	}
	return d[:]
}

// IsZero reports whether d stands for no model.
func (d Digest) IsZero() bool { return d == Digest{} }

// Sealed is the constraint of messages that end with a checksum of all bytes before it. A bit that a
// network, a memory or a disk flips is noticed by it. It is no signature. Tasks and plans have
// none: computing it would cost an eighth of the time of a timing-only round.
type Sealed interface {
	Message
	*Job | *Sum | *SumReply | *CallPart
}

// The checksum is a protobuf field of its own, always the last one: a fixed64 with the XXH64 (seed
// 0) of the bytes before its tag. Decoders that do not know the field skip it.
const (
	digestField  = 15
	digestTag    = digestField<<3 | byte(protowire.Fixed64Type)
	digestLength = 1 + 8
)

// ErrDamaged reports that a message did not arrive as it was sent.
var ErrDamaged = errors.New("bus: the message was damaged on its way: its digest is not that of what it holds")

// MarshalSealed encodes message m and appends the checksum of its bytes, by which UnmarshalSealed
// finds out whether any bit has changed on the way.
func MarshalSealed[M Sealed](m M) ([]byte, error) { return MarshalSealedIn(nil, m) }

// MarshalSealedIn is MarshalSealed in the memory given, as far as that suffices.
func MarshalSealedIn[M Sealed](memory []byte, m M) ([]byte, error) {
	b, err := Marshal(slices.Grow(memory[:0], proto.Size(m)+digestLength), m)
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint64(append(b, digestTag), xxhash.Sum64(b)), nil
}

// UnmarshalSealed checks the checksum at the end of b and decodes what precedes it, as [Unmarshal]
// does. If the checksum is missing or wrong it returns ErrDamaged and leaves m unchanged.
func UnmarshalSealed[M Sealed](b []byte, m M) error {
	message, err := unseal(b)
	if err != nil {
		return err
	}
	return Unmarshal(message, m)
}

// UnmarshalSealedSum is UnmarshalSealed for a sum whose values are not copied: they lie in b, which must not
// change while they are read.
func UnmarshalSealedSum(b []byte, s *Sum) error {
	message, err := unseal(b)
	if err != nil {
		return err
	}
	rest, values := cutBytes(message, sumValuesField)
	if err := Unmarshal(rest, s); err != nil {
		return err
	}
	// Of a field that is there twice the last one counts, as everywhere in protobuf.
	if len(s.Values) == 0 {
		s.Values = values
	}
	return s.Validate()
}

// sumValuesField is the number of Sum.values.
const sumValuesField = 7

// unseal returns what precedes the checksum at the end of b, or ErrDamaged if the checksum is missing or wrong.
func unseal(b []byte) ([]byte, error) {
	end := len(b) - digestLength
	if end < 0 || b[end] != digestTag || binary.LittleEndian.Uint64(b[end+1:]) != xxhash.Sum64(b[:end]) {
		return nil, ErrDamaged
	}
	return b[:end], nil
}

// cutBytes cuts the first field with this number, of type bytes, out of an encoded message, which it leaves as it
// is. It returns the rest of the message and the field's content, which lies in the message's memory; nil if there
// is no such field. If the message cannot be decoded so far, the rest is the whole message.
func cutBytes(message []byte, field protowire.Number) (rest, content []byte) {
	for start := 0; start < len(message); {
		number, kind, n := protowire.ConsumeTag(message[start:])
		if n < 0 {
			break
		}
		value := start + n
		size := protowire.ConsumeFieldValue(number, kind, message[value:])
		if size < 0 {
			break
		}
		end := value + size
		if number == field && kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(message[value:end])
			return append(message[:start:start], message[end:]...), content
		}
		start = end
	}
	return message, nil
}
