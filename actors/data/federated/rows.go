package federated

import (
	"fedpace/actors/learn"
)

// byteRows holds samples of width bytes each, decoded to float32 by a table:
// FEMNIST's 639k images take 500 MB so and 2 GB as float32.
type ByteRows struct {
	Width int
	Bytes []byte
	Value *[256]float32
}

func (r *ByteRows) Append(dst *learn.Batch, i int) {
	AppendLookup(dst, r.Bytes[i*r.Width:(i+1)*r.Width], r.Value)
}

func (r *ByteRows) Prefetch(i int) { learn.Prefetch(r.Bytes[i*r.Width : (i+1)*r.Width]) }

// imageRows is byteRows where the images of each user are a piece of memory of
// their own, so that reading many files needs no second copy of all.
type ImageRows struct {
	Images [][]byte
	Value  *[256]float32
}

func (r *ImageRows) Append(dst *learn.Batch, i int) { AppendLookup(dst, r.Images[i], r.Value) }

func (r *ImageRows) Prefetch(i int) { learn.Prefetch(r.Images[i]) }

// stringRows is imageRows of windows of tokens.
type WindowRows ImageRows

func (r *WindowRows) Append(dst *learn.Batch, i int) { dst.Tokens = append(dst.Tokens, r.Images[i]...) }

func AppendLookup(dst *learn.Batch, bytes []byte, value *[256]float32) {
	at := len(dst.X)
	dst.X = Grow(dst.X, len(bytes))
	learn.Lookup(dst.X[at:], bytes, value)
}

// The value of a byte: FEMNIST's white paper is 255 and its ink is 1
// (paper/NOTES, "Data": pixel 1 - x); own data's bytes are fractions of 255.
var (
	Inverted = lookup(func(b int) float32 { return float32(255-b) / 255 })
	Fraction = lookup(func(b int) float32 { return float32(b) / 255 })
)

func lookup(f func(b int) float32) *[256]float32 {
	var t [256]float32
	for b := range t {
		t[b] = f(b)
	}
	return &t
}

// tokenRows holds samples of width tokens each.
type TokenRows struct {
	Width  int
	Tokens []uint8
}

func (r *TokenRows) Append(dst *learn.Batch, i int) {
	dst.Tokens = append(dst.Tokens, r.Tokens[i*r.Width:(i+1)*r.Width]...)
}

// floatRows holds samples of width numbers each.
type FloatRows struct {
	Width  int
	Values []float32
}

func (r *FloatRows) Append(dst *learn.Batch, i int) {
	dst.X = append(dst.X, r.Values[i*r.Width:(i+1)*r.Width]...)
}

// bagRows holds bags of words: token ids, ascending within a row, with counts.
type BagRows struct {
	Starts []uint32
	Word   []uint16
	Count  []uint16
	Total  []uint16 // tokens of a row, known ones only
}

func (r *BagRows) Append(dst *learn.Batch, i int) {
	if len(dst.RowStart) == 0 {
		dst.RowStart = append(dst.RowStart, 0)
	}
	total := float32(r.Total[i])
	token, count := r.Word[r.Starts[i]:r.Starts[i+1]], r.Count[r.Starts[i]:r.Starts[i+1]]
	at := len(dst.Index)
	dst.Index, dst.Value = Grow(dst.Index, len(token)), Grow(dst.Value, len(token))
	index, value := dst.Index[at:][:len(token)], dst.Value[at:][:len(token)]
	for j, t := range token {
		index[j] = int32(t)
		value[j] = float32(count[j]) / total
	}
	dst.RowStart = append(dst.RowStart, int32(len(dst.Index)))
}

// grow extends a slice by n elements whose values do not matter.
func Grow[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s[:len(s)+n]
	}
	return append(s, make([]T, n)...)
}

// appendWindow appends a window of Shakespeare and the character after it.
func AppendWindow(dst *learn.Batch, text []uint8) {
	dst.Tokens = append(dst.Tokens, text[:ShakespeareWindow]...)
	dst.Labels = append(dst.Labels, int32(text[ShakespeareWindow]))
	dst.N++
}

// Memory is the size of the samples in bytes.
func (r *ByteRows) Memory() int { return len(r.Bytes) }

// Memory is the size of the samples in bytes.
func (r *ImageRows) Memory() int {
	if len(r.Images) == 0 {
		return 0
	}
	return len(r.Images) * (24 + len(r.Images[0]))
}

// Memory is the size of the samples in bytes.
func (r *WindowRows) Memory() int { return (*ImageRows)(r).Memory() }

// Memory is the size of the samples in bytes.
func (r *TokenRows) Memory() int { return len(r.Tokens) }

// Memory is the size of the samples in bytes.
func (r *FloatRows) Memory() int { return 4 * len(r.Values) }

// Memory is the size of the samples in bytes.
func (r *BagRows) Memory() int {
	return 4*len(r.Starts) + 2*(len(r.Word)+len(r.Count)+len(r.Total))
}

// CIFARValue is the value of a byte of each colour: (x/255 - mean)/std (paper/NOTES, "Data").
var CIFARValue = [3]*[256]float32{
	normalised(.4914, .2023), normalised(.4822, .1994), normalised(.4465, .2010),
}

func normalised(mean, std float64) *[256]float32 {
	return lookup(func(b int) float32 { return float32((float64(b)/255 - mean) / std) })
}
