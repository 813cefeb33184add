package bus

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// littleEndian says whether memory holds numbers as the wire does.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// FloatBytes is the wire form of v: its own memory where the machine is
// little-endian, else a copy. It must not be written to.
func FloatBytes(v []float32) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
	}
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// AppendFloats appends the values in b to dst, whose length is a multiple of 4.
func AppendFloats(dst []float32, b []byte) []float32 {
	for ; len(b) >= 4; b = b[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return dst
}

// SumBytes is the wire form of partial sums, as FloatBytes.
func SumBytes(v []int64) []byte {
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 8*len(v))
	}
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	return b
}

// AppendSums is AppendFloats for partial sums.
func AppendSums(dst []int64, b []byte) []int64 {
	for ; len(b) >= 8; b = b[8:] {
		dst = append(dst, int64(binary.LittleEndian.Uint64(b)))
	}
	return dst
}
