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

// planes tabulates, for each plane of a sample, what each of the 256 byte values stands for.
func planes(values ...func(b float32) float32) (tables []*[256]float32) {
	for _, value := range values {
		t := new([256]float32)
		for b := range t {
			t[b] = value(float32(b))
		}
		tables = append(tables, t)
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
	// Each colour has a plane of its own, and a table of the number for each byte.
	n := len(sample) / len(c.Planes)
	dst.X = Grow(dst.X, len(sample))
	for k, value := range c.Planes {
		learn.Lookup(dst.X[start+k*n:start+(k+1)*n], sample[k*n:(k+1)*n], value)
	}
}

// FloatRows holds samples of Width numbers each.
type FloatRows struct {
	// Width is the number of values of a sample.
	Width int
	// Values has the values of all samples, one sample after the other.
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

// AddText appends a text to a set of TextRows. Each window of it is a sample, whose label
// is the token behind it.
func (s *Grouped) AddText(text []byte) (samples []int32, err error) {
	r := s.Rows.(*TextRows)
	start := len(r.Text)
	r.Text = append(r.Text, text...)
	n := max(0, len(text)-r.Window)
	first := len(s.Labels)
	if n > MaxSamples-first {
		return nil, fmt.Errorf("more than %d windows of text", MaxSamples)
	}
	samples, r.Starts, s.Labels = make([]int32, n), Grow(r.Starts, n), Grow(s.Labels, n)
	for i := range samples {
		samples[i] = int32(first + i)
		r.Starts[first+i] = int32(start + i)
		s.Labels[first+i] = int32(text[r.Window+i])
	}
	return samples, nil
}

// BagRows holds bags of words: token ids, ascending within a row, with counts.
type BagRows struct {
	// Starts has the place at which each row begins in Word and Count, and the end of the last one.
	Starts []uint32
	// Word has the ids of the tokens, ascending within a row.
	Word []uint16
	// Count has how often each of them occurs in its row.
	Count []uint16
	// Total is the number of tokens of each row; unknown tokens do not count.
	Total []uint16
}

// Append adds sample i as a bag of words: each word with its share of all words of the sample.
func (r *BagRows) Append(dst *learn.Batch, i int) {
	start := r.Starts[i]
	end := r.Starts[i+1]
	total := float32(r.Total[i])
	token := r.Word[start:end]
	count := r.Count[start:end]
	index, value := AppendBag(dst, len(token))
	for j, t := range token {
		index[j] = int32(t)
		value[j] = float32(count[j]) / total
	}
}

// Add appends a sample with these tokens, at least one and at most 65,535, in any order, which it
// sorts. Equal tokens become one with a count.
func (r *BagRows) Add(tokens []uint16) {
	slices.Sort(tokens)
	for i, token := range tokens {
		if i == 0 || token != tokens[i-1] {
			r.Word = append(r.Word, token)
			r.Count = append(r.Count, 0)
		}
		r.Count[len(r.Count)-1]++
	}
	r.Total = append(r.Total, uint16(len(tokens)))
	r.Starts = append(r.Starts, uint32(len(r.Word)))
}

// numbered returns the bags with other numbers of their tokens: number[i] is that of token i, -1
// where the token is unknown and does not count. A bag that loses all its tokens stays, empty.
func (r *BagRows) numbered(number []int) *BagRows {
	other := &BagRows{Starts: []uint32{0}}
	for i := range r.Total {
		var tokens []uint16
		for j := r.Starts[i]; j < r.Starts[i+1]; j++ {
			if n := number[r.Word[j]]; n >= 0 {
				tokens = append(tokens, slices.Repeat([]uint16{uint16(n)}, int(r.Count[j]))...)
			}
		}
		other.Add(tokens)
	}
	return other
}

// Memory returns the size of all samples in bytes.
func (r *BagRows) Memory() int {
	return 4*len(r.Starts) + 2*(len(r.Word)+len(r.Count)+len(r.Total))
}

// AppendBag appends a sparse row of n places to the batch dst and returns its indices and values,
// which the caller fills.
func AppendBag(dst *learn.Batch, n int) (index []int32, value []float32) {
	if len(dst.RowStart) == 0 {
		dst.RowStart = append(dst.RowStart, 0)
	}
	start := len(dst.Index)
	dst.Index, dst.Value = Grow(dst.Index, n), Grow(dst.Value, n)
	dst.RowStart = append(dst.RowStart, int32(start+n))
	return dst.Index[start:][:n], dst.Value[start:][:n]
}

// Grow extends a slice by n elements whose values do not matter.
func Grow[T any](s []T, n int) []T { return slices.Grow(s, n)[:len(s)+n] }

// InkRows holds FEMNIST's images by their ink: which pixels are not white, and these. That
// is a quarter of their bytes, and fewer to look up.
type InkRows struct {
	// starts is where each image begins, in blocks that lie one behind the other.
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
	var packed [inkMask + FEMNISTPixels]byte
	b := packed[:inkMask]
	for pixel := 0; pixel < len(image); pixel += 8 {
		// Most groups of eight pixels are all white.
		if binary.LittleEndian.Uint64(image[pixel:]) == math.MaxUint64 {
			continue
		}
		for p, v := range image[pixel : pixel+8] {
			if v != white {
				packed[pixel/8] |= 1 << p
				b = append(b, v)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// A block has a fixed capacity, so that it is never copied as it grows.
	last := len(r.blocks) - 1
	if last < 0 || len(r.blocks[last])+len(b) > inkBlock {
		last = last + 1
		r.blocks = append(r.blocks, make([]byte, 0, inkBlock))
	}
	r.starts[i] = last*inkBlock + len(r.blocks[last])
	r.blocks[last] = append(r.blocks[last], b...)
}

// image returns the memory from the beginning of packed image i to the end of its block.
func (r *InkRows) image(i int) []byte { return r.blocks[r.starts[i]/inkBlock][r.starts[i]%inkBlock:] }

// sampleBytes returns the beginning of sample i as it is stored, for prefetching: its mask and up to 96 values,
// which are all of most images.
func (r *InkRows) sampleBytes(i int) []byte {
	b := r.image(i)
	return b[:min(len(b), inkMask+96)]
}

// unpack sets those pixels in dst that are not white, of the packed image b: a mask with a bit for
// each pixel, and their values behind it. value has the number to set for each byte.
func unpack[T byte | float32](dst []T, b []byte, value *[256]T) {
	ink := b[inkMask:]
	for pixel := 0; pixel < inkMask; pixel += 8 {
		// The lowest bit that is set is the next pixel with a value.
		for set := binary.LittleEndian.Uint64(b[pixel:]); set != 0; set &= set - 1 {
			dst[8*pixel+bits.TrailingZeros64(set)] = value[ink[0]]
			ink = ink[1:]
		}
	}
}

// Append unpacks image i to the end of dst. Pixels without ink are 0.
func (r *InkRows) Append(dst *learn.Batch, i int) {
	start := len(dst.X)
	dst.X = Grow(dst.X, FEMNISTPixels)
	clear(dst.X[start:])
	unpack(dst.X[start:], r.image(i), Ink.Planes[0])
}

// Memory returns the size of all images in bytes, with the places where they begin.
func (r *InkRows) Memory() int {
	n := 8 * len(r.starts)
	for _, b := range r.blocks {
		n += len(b)
	}
	return n
}

// Unpacked returns the same images with all of their pixels, one byte for each.
func (r *InkRows) Unpacked() *ByteRows {
	all := &ByteRows{Width: FEMNISTPixels, Bytes: bytes.Repeat([]byte{white}, len(r.starts)*FEMNISTPixels), Coding: Ink}
	// Each byte stands for itself.
	var same [256]byte
	for v := range same {
		same[v] = byte(v)
	}
	for i := range r.starts {
		unpack(all.sampleBytes(i), r.image(i), &same)
	}
	return all
}
