package network

import (
	"iter"
	"slices"
	"unsafe"

	"fedpace/actors/learn/internal/kernel"
)

// Features that are 0 in all samples of a block, such as the white around a picture, add nothing
// to a product, nor does the gradient of their weights: dense layers leave them out.
const (
	together = 4  // neighbours, which are left out together
	gap      = 12 // so many of them between others cost less than two products
)

// used are the features of a block that are not left out, as parts of a product; none: nearly all.
func used(list []kernel.Segment, x []float32, features, samples int) []kernel.Segment {
	list = list[:0]
	for at := 0; features%together == 0 && at < features; at += together {
		if anyNot0(x[at*Lanes:][:together*Lanes], samples) {
			list = append(list, kernel.Segment{A: at, B: at * Lanes})
		}
	}
	if len(list)*together > features*7/8 {
		return list[:0]
	}
	return list
}

// anyNot0 looks at so many samples of each row, two at once.
func anyNot0(x []float32, samples int) bool {
	for row := range slices.Chunk(unsafe.Slice((*uint64)(unsafe.Pointer(&x[0])), len(x)/2), Lanes/2) {
		bits := uint64(0)
		for _, two := range row[:(samples+1)/2] {
			bits |= two
		}
		if bits != 0 {
			return true
		}
	}
	return false
}

// spans are runs of features that are used, with the gaps in them; none stands for all.
func spans(used []kernel.Segment, features int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		from, to := 0, features
		for i, u := range used {
			if i == 0 || u.A-to >= gap {
				if i > 0 {
					yield(from, to)
				}
				from = u.A
			}
			to = u.A + together
		}
		yield(from, to)
	}
}
