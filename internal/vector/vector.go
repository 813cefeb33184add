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
	b := bytesOf(v)
	if littleEndian {
		return b
	}
	return reverseNumbers(append([]byte(nil), b...), Size[T]())
}

// Append decodes b and appends its numbers to dst. The length of b must be a
// multiple of the size of T.
func Append[T Number](dst []T, b []byte) []T {
	n := len(dst)
	more := len(b) / Size[T]()
	// Memory that dst has already is not cleared first.
	dst = slices.Grow(dst, more)[:n+more]
	copy(bytesOf(dst[n:]), b)
	if !littleEndian {
		reverseNumbers(bytesOf(dst[n:]), Size[T]())
	}
	return dst
}

// View returns the numbers that b holds: its own memory where the machine is little-endian and b begins at
// a multiple of the size of T, else a copy. They must not be written to. The length of b must be a multiple
// of the size of T.
func View[T Number](b []byte) []T {
	start := unsafe.SliceData(b)
	isAligned := uintptr(unsafe.Pointer(start))%uintptr(Size[T]()) == 0
	if !littleEndian || !isAligned {
		return Append[T](nil, b)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(start)), len(b)/Size[T]())
}

// Read fills dst with numbers from r, little-endian bytes. It is an error if r has fewer.
func Read[T Number](r io.Reader, dst []T) error {
	if _, err := io.ReadFull(r, bytesOf(dst)); err != nil {
		return fmt.Errorf("a vector of %d numbers: %w", len(dst), err)
	}
	if !littleEndian {
		reverseNumbers(bytesOf(dst), Size[T]())
	}
	return nil
}

// bytesOf returns the memory of v as bytes.
func bytesOf[T Number](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), Size[T]()*len(v))
}

// reverseNumbers reverses the bytes of each number, of size bytes, in place, and returns b.
func reverseNumbers(b []byte, size int) []byte {
	for i := 0; i < len(b); i += size {
		for l, r := i, i+size-1; l < r; l, r = l+1, r-1 {
			b[l], b[r] = b[r], b[l]
		}
	}
	return b
}

// Packed numbers are in blocks. A block is a byte n, then the n different numbers of the block, the table, then for
// each number of the block a byte, its index in the table. If n is 0, the bytes of the block's numbers follow
// instead: the first byte of each number, then the second of each, the third and the fourth. All blocks together
// are compressed by DEFLATE (RFC 1951).
const (
	// packedBlock is the number of numbers in a block. The last one may have fewer.
	packedBlock = 1024
	// maxTable is the largest number of different numbers in a block with a table.
	maxTable = 255
)

// Pack writes numbers in few bytes if many of them are equal, as those of a compressed update are.
func Pack(v []float32) []byte {
	var packed bytes.Buffer
	// The level is valid, and a buffer takes everything, so no error is possible.
	w, _ := flate.NewWriter(&packed, flate.DefaultCompression)
	for block := range slices.Chunk(v, packedBlock) {
		_, _ = w.Write(packBlock(block))
	}
	_ = w.Close()
	return packed.Bytes()
}

// packBlock returns the bytes of a block with the numbers v. There are two kinds of blocks:
//   - One with a table begins with the number of different values in v, 1 to maxTable, in a byte. The values follow,
//     which are the table, and then a byte for each number of v, its index in the table.
//   - With more different values, the block begins with a 0. The first bytes of all numbers of v follow, then all
//     second ones, and so on, which compresses better than number by number.
func packBlock(v []float32) []byte {
	bits := make([]uint32, len(v))
	for i, x := range v {
		bits[i] = math.Float32bits(x)
	}
	table := slices.Compact(slices.Sorted(slices.Values(bits)))
	if len(table) > maxTable {
		return append([]byte{0}, transposeBytes(Bytes(v), len(v))...)
	}
	b := append([]byte{byte(len(table))}, Bytes(table)...)
	for _, x := range bits {
		place, _ := slices.BinarySearch(table, x)
		b = append(b, byte(place))
	}
	return b
}

// transposeBytes returns the bytes of b in another order: b is n groups of equal length, and the result has
// the first byte of each group, then the second of each, and so on.
func transposeBytes(b []byte, n int) []byte {
	out := make([]byte, 0, len(b))
	for i := range len(b) / n {
		for j := i; j < len(b); j += len(b) / n {
			out = append(out, b[j])
		}
	}
	return out
}

// MostPacked is the largest number of bytes that this number of packed numbers takes.
func MostPacked(numbers int) int { return 4*numbers + numbers/128 + 64 }

// Unpack returns the numbers that Pack has written. It is an error if b does not have exactly as many as
// the argument numbers says. It takes no more memory than they do, whatever b has.
func Unpack(b []byte, numbers int) ([]float32, error) {
	r := bufio.NewReader(flate.NewReader(bytes.NewReader(b)))
	v := make([]float32, 0, numbers)
	for len(v) < numbers {
		var err error
		v, err = unpackBlock(r, v, min(packedBlock, numbers-len(v)))
		if err != nil {
			return nil, fmt.Errorf("packed values: %d of %d: %w", len(v), numbers, err)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("packed values: more than %d", numbers)
	}
	return v, nil
}

// unpackBlock reads a block of n numbers, of either kind that [packBlock] writes, and appends them to v.
func unpackBlock(r *bufio.Reader, v []float32, n int) ([]float32, error) {
	size, err := r.ReadByte()
	if err != nil {
		return v, err
	}
	// The block has no table but the bytes of the numbers, all first bytes first: four groups, each with a byte of
	// each number.
	if size == 0 {
		const bytesOfNumber = 4
		b := make([]byte, bytesOfNumber*n)
		_, err = io.ReadFull(r, b)
		return Append(v, transposeBytes(b, bytesOfNumber)), err
	}
	// The block has a table of size values, and then the place in it of each number.
	table := make([]float32, size)
	places := make([]byte, n)
	err = Read(r, table)
	if err == nil {
		_, err = io.ReadFull(r, places)
	}
	for _, place := range places {
		if int(place) >= len(table) {
			return v, errors.New("a place beyond the numbers of its block")
		}
		v = append(v, table[place])
	}
	return v, err
}
