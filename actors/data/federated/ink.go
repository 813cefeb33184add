package federated

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"fedpace/actors/learn"
)

// InkRows holds FEMNIST's images by their ink: which pixels are not white, and these. That
// is a quarter of their bytes, and fewer to look up.
type InkRows struct {
	starts []int // of each image, in blocks that lie one behind the other
	mu     sync.Mutex
	blocks [][]byte
}

const (
	inkBlock = 1 << 20
	inkMask  = (FEMNISTPixels + 63) / 64 * 8 // bytes, a bit for each pixel
	white    = 255                           // Ink's 0
)

// NewInkRows is room for n images.
func NewInkRows(n int) *InkRows { return &InkRows{starts: make([]int, n)} }

// Put stores image i. It may be called concurrently.
func (r *InkRows) Put(i int, image []byte) {
	var packed [inkMask + FEMNISTPixels]byte
	b := packed[:inkMask]
	for at := 0; at < len(image); at += 8 {
		if binary.LittleEndian.Uint64(image[at:]) == math.MaxUint64 { // all white, as nearly all are
			continue
		}
		for p, v := range image[at : at+8] {
			if v != white {
				packed[at/8] |= 1 << p
				b = append(b, v)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.blocks) - 1
	if last < 0 || len(r.blocks[last])+len(b) > inkBlock {
		last, r.blocks = last+1, append(r.blocks, make([]byte, 0, inkBlock))
	}
	r.starts[i] = last*inkBlock + len(r.blocks[last])
	r.blocks[last] = append(r.blocks[last], b...)
}

// at is where image i begins.
func (r *InkRows) at(i int) []byte { return r.blocks[r.starts[i]/inkBlock][r.starts[i]%inkBlock:] }

func (r *InkRows) soon(i int) []byte {
	b := r.at(i)
	return b[:min(len(b), inkMask+96)] // of most images all
}

// unpack gives the pixels that are not white their values.
func unpack[T byte | float32](dst []T, b []byte, value *[256]T) {
	ink := b[inkMask:]
	for at := 0; at < inkMask; at += 8 {
		for set := binary.LittleEndian.Uint64(b[at:]); set != 0; set &= set - 1 {
			dst[8*at+bits.TrailingZeros64(set)], ink = value[ink[0]], ink[1:]
		}
	}
}

func (r *InkRows) Append(dst *learn.Batch, i int) {
	at := len(dst.X)
	dst.X = Grow(dst.X, FEMNISTPixels)
	clear(dst.X[at:])
	unpack(dst.X[at:], r.at(i), Ink.planes[0])
}

func (r *InkRows) Memory() int {
	n := 8 * len(r.starts)
	for _, b := range r.blocks {
		n += len(b)
	}
	return n
}

// Whole are the same images with all their pixels.
func (r *InkRows) Whole() *ByteRows {
	all := &ByteRows{Width: FEMNISTPixels, Bytes: make([]byte, len(r.starts)*FEMNISTPixels), Coding: Ink}
	var same [256]byte
	for v := range same {
		same[v] = byte(v)
	}
	for i := range all.Bytes {
		all.Bytes[i] = white
	}
	for i := range r.starts {
		unpack(all.soon(i), r.at(i), &same)
	}
	return all
}
