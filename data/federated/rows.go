package federated

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"sync"

	"fedpace/learn"
)

// Rows is the store of a set's samples, numbered from 0.
type Rows interface {
	// Append appends sample i without its label.
	Append(dst *learn.Batch, i int)
	// Memory is the size of the samples in bytes.
	Memory() int
}

// ByteRows holds samples of Width bytes each: FEMNIST's 639k images take 500 MB
// so and 2 GB as float32.
type ByteRows struct {
	// Width is the number of bytes of a sample.
	Width int
	// Bytes are the samples, one after another.
	Bytes []byte
	// Coding says what the bytes mean.
	Coding *Coding

	// File is the file that Bytes are a part of; nil where they are in no file.
	File *os.File
	// Offset is where Bytes begin in File.
	Offset int64
}

// Append decodes sample i to the end of dst.
func (r *ByteRows) Append(dst *learn.Batch, i int) {
	r.Coding.Append(dst, r.sampleBytes(i)[r.Coding.Skip:])
}

// sampleBytes is sample i as it is stored, Width bytes.
func (r *ByteRows) sampleBytes(i int) []byte { return r.Bytes[i*r.Width : (i+1)*r.Width] }

// Memory returns the size of all samples in bytes.
func (r *ByteRows) Memory() int { return len(r.Bytes) }

// Coding says what the bytes of a sample mean.
type Coding struct {
	// Name is the name of the coding in prepared files.
	Name string
	// Skip is the number of bytes before those of the sample, such as the labels of CIFAR-100.
	Skip int
	// Planes gives, for each equal part of a sample, the value of each byte. Without planes the
	// bytes are tokens.
	Planes []*[256]float32
}

// The codings of bytes (paper/NOTES, "Data"). FEMNIST's white paper is 255 and
// its ink is 1; custom data's bytes are fractions of 255; a colour of CIFAR-100
// is (x/255 - mean)/std.
var (
	Ink      = &Coding{Name: "ink", Planes: planes(func(b float32) float32 { return (255 - b) / 255 })}
	Fraction = &Coding{Name: "fraction", Planes: planes(func(b float32) float32 { return b / 255 })}
	Tokens   = &Coding{Name: "tokens"}
	Colours  = &Coding{
		Name:   "cifar",
		Skip:   2,
		Planes: planes(normal(.4914, .2023), normal(.4822, .1994), normal(.4465, .2010)),
	}
)

// Codings lists the codings.
var Codings = []*Coding{Ink, Fraction, Tokens, Colours}

// planes returns for each plane (colour channel) of a sample the table of the number that each byte stands
// for. numbers has a function for each plane, which computes that number.
func planes(numbers ...func(b float32) float32) (tables []*[256]float32) {
	for _, number := range numbers {
		table := new([256]float32)
		for b := range table {
			table[b] = number(float32(b))
		}
		tables = append(tables, table)
	}
	return tables
}

// normal standardises a byte as a fraction of 255: (b/255 − mean) / std.
func normal(mean, std float64) func(b float32) float32 {
	return func(b float32) float32 { return float32((float64(b)/255 - mean) / std) }
}

// Append appends a sample to the batch dst, as tokens or as one number for each byte. sample has
// the bytes of its values alone, without those that come before them in the store.
func (c *Coding) Append(dst *learn.Batch, sample []byte) {
	if c.Planes == nil {
		dst.Tokens = append(dst.Tokens, sample...)
		return
	}
	start := len(dst.X)
	dst.X = Grow(dst.X, len(sample))
	x := dst.X[start:]
	// The planes, one for each colour, follow one another, and each has a table of the number for each byte.
	planeLength := len(sample) / len(c.Planes)
	for k, table := range c.Planes {
		first := k * planeLength
		end := first + planeLength
		learn.Lookup(x[first:end], sample[first:end], table)
	}
}

// FloatRows holds samples of Width numbers each.
type FloatRows struct {
	// Width is the number of values of a sample.
	Width int
	// Values has the values of all samples, one sample after the other. They may lie in a mapped file,
	// and must not be written to.
	Values []float32
}

// Append copies the Width values of sample i to the end of dst.
func (r *FloatRows) Append(dst *learn.Batch, i int) {
	dst.X = append(dst.X, r.Values[i*r.Width:(i+1)*r.Width]...)
}

// Memory returns the size of all samples in bytes.
func (r *FloatRows) Memory() int { return 4 * len(r.Values) }

// TextRows holds samples that are windows of a text, which overlap.
type TextRows struct {
	// Window is the number of tokens of a sample.
	Window int
	// Text has the tokens of all texts, one byte for each.
	Text []byte
	// Starts is the place in the text at which each sample begins.
	Starts []int32
}

// Append copies the window of sample i to the end of dst. Windows may overlap in the text.
func (r *TextRows) Append(dst *learn.Batch, i int) {
	dst.Tokens = append(dst.Tokens, r.Text[r.Starts[i]:][:r.Window]...)
}

// Memory returns the size of the text and of the windows' places in bytes.
func (r *TextRows) Memory() int { return len(r.Text) + 4*len(r.Starts) }

// AddText appends a text, a byte for each token, to a set of TextRows, and returns the numbers of its samples: the
// windows that a token follows, in their order. That token is the label of the window.
func (s *Grouped) AddText(text []byte) (samples []int32, err error) {
	r := s.Rows.(*TextRows)
	// The text begins at textStart in r.Text, and its first window is sample first.
	textStart := len(r.Text)
	first := len(s.Labels)
	r.Text = append(r.Text, text...)
	windows := max(0, len(text)-r.Window)
	if windows > MaxSamples-first {
		return nil, fmt.Errorf("more than %d windows of text", MaxSamples)
	}
	samples = make([]int32, windows)
	r.Starts = Grow(r.Starts, windows)
	s.Labels = Grow(s.Labels, windows)
	for i := range samples {
		samples[i] = int32(first + i)
		r.Starts[first+i] = int32(textStart + i)
		s.Labels[first+i] = int32(text[r.Window+i])
	}
	return samples, nil
}

// BagRows holds bags of words. A token is the number of a word in the vocabulary.
type BagRows struct {
	// Starts has one entry more than rows: row i has the entries Starts[i] to Starts[i+1]-1 of Tokens and Counts.
	Starts []uint32
	// Tokens has the different tokens of each row, ascending within the row.
	Tokens []uint16
	// Counts has how often each of them occurs in its row.
	Counts []uint16
	// Totals is the number of tokens of each row, the sum of its counts. Words outside the vocabulary do not count.
	Totals []uint16
}

// Append adds sample i as a bag of words: each word with its share of all words of the sample.
func (r *BagRows) Append(dst *learn.Batch, i int) {
	start := r.Starts[i]
	end := r.Starts[i+1]
	total := float32(r.Totals[i])
	tokens := r.Tokens[start:end]
	counts := r.Counts[start:end]
	index, value := AppendBag(dst, len(tokens))
	for j, token := range tokens {
		index[j] = int32(token)
		value[j] = float32(counts[j]) / total
	}
}

// Add appends a sample with these tokens, at most 65,535, in any order, which it sorts. Equal tokens
// become one with a count. A sample without tokens is an empty bag.
func (r *BagRows) Add(tokens []uint16) {
	slices.Sort(tokens)
	for i, token := range tokens {
		if i == 0 || token != tokens[i-1] {
			r.Tokens = append(r.Tokens, token)
			r.Counts = append(r.Counts, 0)
		}
		r.Counts[len(r.Counts)-1]++
	}
	r.Totals = append(r.Totals, uint16(len(tokens)))
	r.Starts = append(r.Starts, uint32(len(r.Tokens)))
}

// renumbered returns the bags with other numbers for their tokens: token i becomes newNumber[i]. A token
// whose new number is -1 is left out of its bag. A bag that loses all its tokens stays, empty.
func (r *BagRows) renumbered(newNumber []int) *BagRows {
	result := &BagRows{Starts: []uint32{0}}
	for i := range r.Totals {
		var tokens []uint16
		for j := r.Starts[i]; j < r.Starts[i+1]; j++ {
			if token := newNumber[r.Tokens[j]]; token >= 0 {
				tokens = append(tokens, slices.Repeat([]uint16{uint16(token)}, int(r.Counts[j]))...)
			}
		}
		result.Add(tokens)
	}
	return result
}

// Memory returns the size of all samples in bytes.
func (r *BagRows) Memory() int {
	return 4*len(r.Starts) + 2*(len(r.Tokens)+len(r.Counts)+len(r.Totals))
}

// AppendBag appends a sparse row of n entries to the batch dst, and returns the memory of their indices and
// values, which the caller fills.
func AppendBag(dst *learn.Batch, n int) (index []int32, value []float32) {
	if len(dst.RowStart) == 0 {
		dst.RowStart = append(dst.RowStart, 0)
	}
	start := len(dst.Index)
	dst.Index = Grow(dst.Index, n)
	dst.Value = Grow(dst.Value, n)
	dst.RowStart = append(dst.RowStart, int32(start+n))
	return dst.Index[start:][:n], dst.Value[start:][:n]
}

// Grow extends a slice by n elements whose values do not matter.
func Grow[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }

// InkRows holds FEMNIST's images by their ink: which pixels are not white, and these. That
// is a quarter of their bytes, and fewer to look up.
type InkRows struct {
	// starts is where each image begins: at byte starts[i] % inkBlock of block starts[i] / inkBlock.
	starts []int
	// mu guards blocks and starts while images are stored.
	mu sync.Mutex
	// blocks hold the packed images, at most inkBlock bytes each.
	blocks [][]byte
}

const (
	// inkBlock is the capacity of a block of images in bytes.
	inkBlock = 1 << 20
	// inkMask is the size of the mask of an image in bytes. The mask has a bit for each pixel.
	inkMask = (FEMNISTPixels + 63) / 64 * 8
	// white is the byte of a white pixel, which the coding Ink turns to 0.
	white = 255
)

// NewInkRows returns a store of n images, each of which must be Put.
func NewInkRows(n int) *InkRows { return &InkRows{starts: make([]int, n)} }

// Put stores image i, of one byte for each pixel, without its white pixels: a mask with a bit for
// each pixel, and the values of the others. It may be called by several goroutines at once.
func (r *InkRows) Put(i int, image []byte) {
	var memory [inkMask + FEMNISTPixels]byte
	packed := memory[:inkMask]
	for pixel := 0; pixel < len(image); pixel += 8 {
		// Most groups of eight pixels are all white.
		if binary.LittleEndian.Uint64(image[pixel:]) == math.MaxUint64 {
			continue
		}
		for p, v := range image[pixel : pixel+8] {
			if v != white {
				packed[pixel/8] |= 1 << p
				packed = append(packed, v)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A block has a fixed capacity, so that it is never copied as it grows.
	last := len(r.blocks) - 1
	if last < 0 || len(r.blocks[last])+len(packed) > inkBlock {
		last++
		r.blocks = append(r.blocks, make([]byte, 0, inkBlock))
	}
	r.starts[i] = last*inkBlock + len(r.blocks[last])
	r.blocks[last] = append(r.blocks[last], packed...)
}

// image returns the memory from the beginning of packed image i to the end of its block.
func (r *InkRows) image(i int) []byte { return r.blocks[r.starts[i]/inkBlock][r.starts[i]%inkBlock:] }

// sampleBytes returns the beginning of sample i as it is stored, for prefetching: its mask and up to 96 values,
// which are all of most images.
func (r *InkRows) sampleBytes(i int) []byte {
	b := r.image(i)
	return b[:min(len(b), inkMask+96)]
}

// unpack writes to dst those pixels of a packed image that are not white, and leaves the others as they
// are. packed is a mask with a bit for each pixel, set where it is not white, and behind it the bytes of
// these pixels. value has the number to write for each byte.
func unpack[T byte | float32](dst []T, packed []byte, value *[256]T) {
	ink := packed[inkMask:]
	for maskByte := 0; maskByte < inkMask; maskByte += 8 {
		mask := binary.LittleEndian.Uint64(packed[maskByte:])
		for mask != 0 {
			pixel := 8*maskByte + bits.TrailingZeros64(mask)
			dst[pixel] = value[ink[0]]
			ink = ink[1:]
			// This clears the lowest bit that is set.
			mask &= mask - 1
		}
	}
}

// Append unpacks image i to the end of dst. Pixels without ink are 0.
func (r *InkRows) Append(dst *learn.Batch, i int) {
	// All pixels have the one plane of the coding, which gives the value of each byte.
	plane := Ink.Planes[0]
	start := len(dst.X)
	dst.X = Grow(dst.X, FEMNISTPixels)
	clear(dst.X[start:])
	unpack(dst.X[start:], r.image(i), plane)
}

// Memory returns the size of all images in bytes, with that of the list where each begins.
func (r *InkRows) Memory() int {
	size := 8 * len(r.starts)
	for _, block := range r.blocks {
		size += len(block)
	}
	return size
}

// Unpacked returns the same images with all of their pixels, one byte for each.
func (r *InkRows) Unpacked() *ByteRows {
	all := &ByteRows{Width: FEMNISTPixels, Bytes: bytes.Repeat([]byte{white}, len(r.starts)*FEMNISTPixels), Coding: Ink}
	// Each byte stands for itself.
	var identity [256]byte
	for b := range identity {
		identity[b] = byte(b)
	}
	for i := range r.starts {
		unpack(all.sampleBytes(i), r.image(i), &identity)
	}
	return all
}
