package vector

import (
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"
)

// Number is what a vector holds.
type Number interface {
	float32 | float64 | uint8 | uint16 | uint32 | int32 | int64
}

// littleEndian says whether memory holds numbers as files and messages do.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Size is the number of bytes of one T.
func Size[T Number]() int { return int(unsafe.Sizeof(*new(T))) }

// Bytes returns the bytes of v: its own memory where the machine is
// little-endian, else a copy. They must not be written to.
func Bytes[T Number](v []T) []byte {
	b := memory(v)
	if littleEndian {
		return b
	}
	return swapped(append([]byte(nil), b...), Size[T]())
}

// Append decodes b and appends its numbers to dst. The length of b must be a
// multiple of the size of T.
func Append[T Number](dst []T, b []byte) []T {
	n := len(dst)
	dst = append(dst, make([]T, len(b)/Size[T]())...)
	copy(memory(dst[n:]), b)
	if !littleEndian {
		swapped(memory(dst[n:]), Size[T]())
	}
	return dst
}

// Read fills dst.
func Read[T Number](r io.Reader, dst []T) error {
	if _, err := io.ReadFull(r, memory(dst)); err != nil {
		return fmt.Errorf("a vector of %d numbers: %w", len(dst), err)
	}
	if !littleEndian {
		swapped(memory(dst), Size[T]())
	}
	return nil
}

func memory[T Number](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), Size[T]()*len(v))
}

// swapped reverses the bytes of every number of so many bytes, in place.
func swapped(b []byte, size int) []byte {
	for i := 0; i < len(b); i += size {
		for l, r := i, i+size-1; l < r; l, r = l+1, r-1 {
			b[l], b[r] = b[r], b[l]
		}
	}
	return b
}
