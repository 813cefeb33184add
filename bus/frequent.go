package bus

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// Every task of a simulated client is one Task and one Plan, so these two messages are encoded and
// decoded far more often than any other. The code that vtprotobuf generates takes a third of
// protobuf's time for it, but checks neither that text is UTF-8 nor how deep messages are nested.
// Whatever these checks could refuse is therefore left to protobuf, which also says what is wrong.
// The functions below name the two concrete types, not an interface: the linker then drops the
// generated code of all other messages.

// maxFrequent is the length in bytes up to which a message is decoded by the generated code. Tasks
// and plans are shorter. A longer message might be nested too deep for a decoder without a limit.
const maxFrequent = 16 << 10

// marshalFrequent appends the encoding of m to dst if m is a Task or a Plan. It returns false, and
// leaves the work to protobuf, for every other message and for text that is not UTF-8.
func marshalFrequent(dst []byte, m proto.Message) (b []byte, ok bool) {
	switch m := m.(type) {
	case *Task:
		if utf8.ValidString(m.Version) {
			return appendFrequent(dst, m)
		}
	case *Plan:
		return appendFrequent(dst, m)
	}
	return nil, false
}

// appendFrequent appends the encoding of m by the generated code, which fills a buffer of exactly
// SizeVT bytes from its end. ok is false if that code fails; b then holds nothing of use.
func appendFrequent[T interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}](dst []byte, m T) (b []byte, ok bool) {
	n := m.SizeVT()
	b = slices.Grow(dst, n)[:len(dst)+n]
	_, err := m.MarshalToSizedBufferVT(b[len(dst):])
	return b, err == nil
}

// unmarshalFrequent decodes b into m, in place of what m held, if m is a Task or a Plan. It returns
// false, and leaves the work to protobuf, for every other message and for bytes that may be invalid.
func unmarshalFrequent(b []byte, m proto.Message) bool {
	if len(b) > maxFrequent {
		return false
	}
	switch m := m.(type) {
	case *Task:
		m.Reset()
		return m.UnmarshalVT(b) == nil && utf8.ValidString(m.Version)
	case *Plan:
		m.Reset()
		return m.UnmarshalVT(b) == nil
	}
	return false
}
