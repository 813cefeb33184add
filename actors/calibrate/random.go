package calibrate

import (
	"math/rand/v2"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// sparseWords is how many words a bag of words has.
const sparseWords = 12

// newRandomSet makes a set of one client with so many random samples: a step copies them
// as it would copy those of a data set.
func newRandomSet(of learn.Samples, n int) *federated.Grouped {
	r := keyed.New(1, keyed.Weights)
	s := &federated.Grouped{
		About: federated.Info{Name: "random samples", Synthetic: true, Digest: "random", Samples: of},
		Names: []string{"0"}, Starts: []int{0, n}, Rows: randomRows(of, n, r),
	}
	for i := range n {
		s.Train = append(s.Train, int32(i))
		for range of.Targets {
			s.Targets = append(s.Targets, r.Float32())
		}
		if of.Targets == 0 {
			s.Labels = append(s.Labels, int32(r.IntN(of.Classes)))
		}
	}
	return s
}

func randomRows(of learn.Samples, n int, r *rand.Rand) federated.Rows {
	switch of.Input {
	case learn.Sparse:
		features := min(of.Features, 1<<16) // the first ones
		words := min(sparseWords, features)
		rows := &federated.BagRows{Starts: []uint32{0}}
		for range n {
			for i := range words {
				rows.Word, rows.Count = append(rows.Word, uint16(i*features/words)), append(rows.Count, 1)
			}
			rows.Total, rows.Starts = append(rows.Total, uint16(words)), append(rows.Starts, uint32(len(rows.Word)))
		}
		return rows
	case learn.Tokens:
		rows := &federated.ByteRows{Width: of.Features, Bytes: make([]byte, n*of.Features), Coding: federated.Tokens}
		for i := range rows.Bytes {
			rows.Bytes[i] = byte(r.IntN(of.Vocabulary))
		}
		return rows
	}
	rows := &federated.FloatRows{Width: of.Features, Values: make([]float32, n*of.Features)}
	for i := range rows.Values {
		rows.Values[i] = r.Float32()
	}
	return rows
}
