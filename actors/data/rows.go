package data

import (
	"fedpace/actors/learn"
)

// byteRows holds samples of width bytes each, decoded to float32 by a table:
// FEMNIST's 639k images take 500 MB so and 2 GB as float32.
type byteRows struct {
	width int
	bytes []byte
	value *[256]float32
}

func (r *byteRows) append(dst *learn.Batch, i int) {
	appendTable(dst, r.bytes[i*r.width:(i+1)*r.width], r.value)
}

func (r *byteRows) prefetch(i int) { learn.Prefetch(r.bytes[i*r.width : (i+1)*r.width]) }

// imageRows is byteRows where the images of each user are a piece of memory of
// their own, so that reading many files needs no second copy of all.
type imageRows struct {
	image [][]byte
	value *[256]float32
}

func (r *imageRows) append(dst *learn.Batch, i int) { appendTable(dst, r.image[i], r.value) }

func (r *imageRows) prefetch(i int) { learn.Prefetch(r.image[i]) }

// stringRows is imageRows of windows of tokens.
type stringRows imageRows

func (r *stringRows) append(dst *learn.Batch, i int) { dst.Tokens = append(dst.Tokens, r.image[i]...) }

func appendTable(dst *learn.Batch, bytes []byte, value *[256]float32) {
	at := len(dst.X)
	dst.X = grow(dst.X, len(bytes))
	learn.Lookup(dst.X[at:], bytes, value)
}

// The value of a byte: FEMNIST's white paper is 255 and its ink is 1
// (paper/NOTES, "Data": pixel 1 - x); own data's bytes are fractions of 255.
var (
	inkOf      = lookup(func(b int) float32 { return float32(255-b) / 255 })
	fractionOf = lookup(func(b int) float32 { return float32(b) / 255 })
)

func lookup(f func(b int) float32) *[256]float32 {
	var t [256]float32
	for b := range t {
		t[b] = f(b)
	}
	return &t
}

// tokenRows holds samples of width tokens each.
type tokenRows struct {
	width  int
	tokens []uint8
}

func (r *tokenRows) append(dst *learn.Batch, i int) {
	dst.Tokens = append(dst.Tokens, r.tokens[i*r.width:(i+1)*r.width]...)
}

// floatRows holds samples of width numbers each.
type floatRows struct {
	width  int
	values []float32
}

func (r *floatRows) append(dst *learn.Batch, i int) {
	dst.X = append(dst.X, r.values[i*r.width:(i+1)*r.width]...)
}

// bagRows holds bags of words: token ids, ascending within a row, with counts.
type bagRows struct {
	start []uint32
	token []uint16
	count []uint16
	total []uint16 // tokens of a row, known ones only
}

func (r *bagRows) append(dst *learn.Batch, i int) {
	if len(dst.RowStart) == 0 {
		dst.RowStart = append(dst.RowStart, 0)
	}
	total := float32(r.total[i])
	token, count := r.token[r.start[i]:r.start[i+1]], r.count[r.start[i]:r.start[i+1]]
	at := len(dst.Index)
	dst.Index, dst.Value = grow(dst.Index, len(token)), grow(dst.Value, len(token))
	index, value := dst.Index[at:][:len(token)], dst.Value[at:][:len(token)]
	for j, t := range token {
		index[j] = int32(t)
		value[j] = float32(count[j]) / total
	}
	dst.RowStart = append(dst.RowStart, int32(len(dst.Index)))
}
