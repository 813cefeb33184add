package vector

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"
)

// Number is what a vector holds.
type Number interface {
	float32 | float64 | uint8 | uint16 | uint32 | uint64 | int32 | int64
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

// A block of packed numbers is a byte n, then n numbers and for each number of the block a byte, its
// place among them. If n is 0 the bytes of the block follow: the first of each number, then the
// second of each, the third and the fourth. All blocks together are shortened by DEFLATE (RFC 1951).
const (
	packedBlock = 1024
	mostPlaces  = 255
)

// Pack writes numbers in few bytes where many are alike, as those of a compressed update are.
func Pack(v []float32) []byte {
	var packed bytes.Buffer
	w, _ := flate.NewWriter(&packed, flate.DefaultCompression) // a level that there is; a buffer takes all
	for block := range slices.Chunk(v, packedBlock) {
		_, _ = w.Write(packBlock(block))
	}
	_ = w.Close()
	return packed.Bytes()
}

func packBlock(v []float32) []byte {
	bits := make([]uint32, len(v))
	for i, x := range v {
		bits[i] = math.Float32bits(x)
	}
	table := slices.Compact(slices.Sorted(slices.Values(bits)))
	if len(table) > mostPlaces {
		return append([]byte{0}, planes(Bytes(v), len(v))...)
	}
	b := append([]byte{byte(len(table))}, Bytes(table)...)
	for _, x := range bits {
		at, _ := slices.BinarySearch(table, x)
		b = append(b, byte(at))
	}
	return b
}

// planes are the first bytes of n groups, then the second of each, and so on.
func planes(b []byte, n int) []byte {
	out := make([]byte, 0, len(b))
	for i := range len(b) / n {
		for j := i; j < len(b); j += len(b) / n {
			out = append(out, b[j])
		}
	}
	return out
}

// MostPacked is how many bytes so many packed numbers take at most.
func MostPacked(numbers int) int { return 4*numbers + numbers/128 + 64 }

// Unpack reads so many numbers that Pack wrote. It takes no more memory than they do.
func Unpack(b []byte, numbers int) ([]float32, error) {
	r := bufio.NewReader(flate.NewReader(bytes.NewReader(b)))
	v := make([]float32, 0, numbers)
	for len(v) < numbers {
		var err error
		if v, err = unpackBlock(r, v, min(packedBlock, numbers-len(v))); err != nil {
			return nil, fmt.Errorf("packed values: %d of %d: %w", len(v), numbers, err)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("packed values: more than %d", numbers)
	}
	return v, nil
}

// unpackBlock appends the n numbers of a block.
func unpackBlock(r *bufio.Reader, v []float32, n int) ([]float32, error) {
	size, err := r.ReadByte()
	if err != nil {
		return v, err
	}
	if size == 0 {
		b := make([]byte, 4*n)
		_, err = io.ReadFull(r, b)
		return Append(v, planes(b, 4)), err
	}
	table := make([]float32, size)
	places := make([]byte, n)
	if err = Read(r, table); err == nil {
		_, err = io.ReadFull(r, places)
	}
	for _, at := range places {
		if int(at) >= len(table) {
			return v, errors.New("a place beyond the numbers of its block")
		}
		v = append(v, table[at])
	}
	return v, err
}
