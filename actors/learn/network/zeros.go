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
	window   = 16 // whose gradients cost the least each, with fewer or more in vain
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

// spans cover the features that are used, so many at a time that no kernel is wider; none stands
// for all.
func spans(used []kernel.Segment, features int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if len(used) == 0 {
			yield(0, features)
		}
		to := 0
		for _, u := range used {
			if u.A >= to {
				to = min(u.A+window, features)
				yield(u.A, to)
			}
		}
	}
}
