package bus

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// Each task has a Task and a Plan. Code that vtprotobuf generates encodes and decodes them in a
// third of protobuf's time. It asks neither whether text is UTF-8 nor how deep messages are nested:
// what may fail there goes protobuf's way, which says what is wrong. Calls are of the two types
// themselves, not of an interface, so that a program holds no more of that code than it needs.

// maxFrequent is more bytes than such messages have. Longer ones may be nested without end.
const maxFrequent = 16 << 10

// marshalFrequent appends a frequent message; false: m is none, or has text that is not UTF-8.
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

func appendFrequent[T interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
}](dst []byte, m T) (b []byte, ok bool) {
	n := m.SizeVT()
	b = slices.Grow(dst, n)[:len(dst)+n]
	_, err := m.MarshalToSizedBufferVT(b[len(dst):])
	return b, err == nil
}

// unmarshalFrequent decodes a frequent message in place of what m held; false: m is none, or the
// bytes may be wrong.
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
