package network

import (
	"iter"
	"unsafe"

	"fedpace/learn/internal/kernel"
)

// Features that are 0 in all samples of a block, such as the white around a picture, add nothing
// to a product, nor does the gradient of their weights: dense layers leave them out.
const (
	// featureGroup is the number of neighbouring features that are skipped as one.
	featureGroup = 4
	// window is the number of features in one product of gradients. Narrower and wider windows each
	// cost more.
	window = 16
)

// usedFeatures returns the features of a block that are not 0 in all samples, as segments of a product, in
// the memory of list. A segment is featureGroup neighbouring features, given by where it begins in a row of
// weights (A) and in x (B), which has a row of Lanes samples for each feature. An empty result stands for all
// features: if nearly all are used, leaving out the others saves nothing.
func usedFeatures(list []kernel.Segment, x []float32, features, samples int) []kernel.Segment {
	list = list[:0]
	// Features that cannot be divided into groups of equal size are all used.
	for feature := 0; features%featureGroup == 0 && feature < features; feature += featureGroup {
		if anyNonZero(x[feature*Lanes:][:featureGroup*Lanes], samples) {
			list = append(list, kernel.Segment{A: feature, B: feature * Lanes})
		}
	}
	// A product over segments costs more for each feature than one over all.
	if len(list)*featureGroup > features*7/8 {
		return list[:0]
	}
	return list
}

// anyNonZero reports whether any of featureGroup features is not 0 in the first samples samples of x. It
// reads two samples at once; a negative zero counts as not 0, which costs time but changes no result.
func anyNonZero(x []float32, samples int) bool {
	rows := (*[featureGroup][Lanes / 2]uint64)(unsafe.Pointer(&x[0]))
	bits := uint64(0)
	// Two float32 values are read as one word, which is 0 only if both are.
	for i := range uint(samples+1) / 2 {
		bits |= rows[0][i%(Lanes/2)] | rows[1][i%(Lanes/2)] | rows[2][i%(Lanes/2)] | rows[3][i%(Lanes/2)]
	}
	return bits != 0
}

// featureRanges yields ranges of features, from start to before end and each of at most window features, that cover
// the used ones. used are the segments of [usedFeatures], in ascending order: A is the number of a segment's first
// feature. An empty list stands for all features, which are one range.
func featureRanges(used []kernel.Segment, features int) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		if len(used) == 0 {
			yield(0, features)
			return
		}
		covered := 0
		for _, u := range used {
			// A feature that the range before already covers begins no range of its own.
			if u.A >= covered {
				covered = min(u.A+window, features)
				if !yield(u.A, covered) {
					return
				}
			}
		}
	}
}
