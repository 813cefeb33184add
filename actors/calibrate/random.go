package calibrate

import (
	"fmt"
	"math/rand/v2"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// sparseWords is how many words a bag of words has.
const sparseWords = 12

// randomSet is a set of one client with random samples, made once: a step copies them as
// it would copy those of a data set.
type randomSet struct {
	info    federated.Info
	samples []learn.Batch // of one sample each
}

// newRandomSet makes so many samples.
func newRandomSet(of learn.Samples, n int) *randomSet {
	s := &randomSet{info: federated.Info{Name: "random samples", Synthetic: true, Digest: "random", Samples: of}, samples: make([]learn.Batch, n)}
	r := keyed.New(1, keyed.Weights)
	for i := range s.samples {
		fill(&s.samples[i], of, r)
	}
	return s
}

// fill makes a random sample.
func fill(b *learn.Batch, of learn.Samples, r *rand.Rand) {
	b.N = 1
	switch of.Input {
	case learn.Sparse:
		n := min(sparseWords, of.Features)
		index, value := federated.AppendBag(b, n)
		for i := range n {
			index[i], value[i] = int32(i*of.Features/n), 1/float32(n)
		}
	case learn.Tokens:
		for range of.Features {
			b.Tokens = append(b.Tokens, byte(r.IntN(of.Vocabulary)))
		}
	default:
		for range of.Features {
			b.X = append(b.X, r.Float32())
		}
	}
	for range of.Targets {
		b.Targets = append(b.Targets, r.Float32())
	}
	if of.Classes > 0 {
		b.Labels = append(b.Labels, int32(r.IntN(of.Classes)))
	}
}

func (s *randomSet) Info() federated.Info { return s.info }
func (s *randomSet) Clients() int         { return 1 }
func (s *randomSet) Client(int) string    { return "0" }
func (s *randomSet) Samples(int) int      { return len(s.samples) }
func (s *randomSet) HeldOut() int         { return 0 }
func (s *randomSet) Close() error         { return nil }

func (s *randomSet) Batch(dst *learn.Batch, client int, samples []int32) error {
	if err := federated.CheckSamples(s, client, samples); err != nil {
		return err
	}
	for _, i := range samples {
		x := &s.samples[i]
		dst.N++
		if len(x.RowStart) > 0 {
			index, value := federated.AppendBag(dst, len(x.Index))
			copy(index, x.Index)
			copy(value, x.Value)
		}
		dst.X = append(dst.X, x.X...)
		dst.Tokens = append(dst.Tokens, x.Tokens...)
		dst.Targets = append(dst.Targets, x.Targets...)
		dst.Labels = append(dst.Labels, x.Labels...)
	}
	return nil
}

func (s *randomSet) HeldOutBatch(*learn.Batch, int, int) error {
	return fmt.Errorf("data: %s: nothing is held out", s.info.Name)
}
