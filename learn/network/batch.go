package network

import (
	"fmt"

	"fedpace/learn/metric"
)

// Input says which fields of a Batch a model reads.
type Input int

// The kinds of input.
const (
	// Dense samples are rows of numbers, in Batch.X.
	Dense Input = iota
	// Sparse samples are bags of words, in Batch.RowStart, Index and Value.
	Sparse
	// Tokens are sequences of bytes, in Batch.Tokens.
	Tokens
)

// String names the kind for messages.
func (i Input) String() string { return [...]string{"dense rows", "bags of words", "tokens"}[i] }

// Batch is a minibatch in the layout its model reads (see Input). The slices
// are reused from one batch to the next: Reset keeps their memory.
type Batch struct {
	// N is the number of samples.
	N int
	// Labels holds the class of each sample, if samples have a label.
	Labels []int32
	// Targets holds N rows of Samples.Targets values, if samples have targets.
	Targets []float32

	// X holds dense samples: N rows of Samples.Features values, one row after the other.
	X []float32

	// RowStart, Index and Value hold sparse samples as compressed rows. Row i holds the words
	// Index[RowStart[i]:RowStart[i+1]] with their values; the indices within a row are distinct and
	// ascending.
	RowStart []int32
	Index    []int32
	Value    []float32

	// Tokens holds sequences: N rows of Samples.Features tokens, one row after the other.
	Tokens []uint8

	// Units says for each target what 1 is worth in the unit of the user's data; nil: 1. Absolute errors
	// are measured in that unit.
	Units []float64
	// Outcomes takes the outputs of each sample of an evaluation; nil: they are not kept.
	Outcomes *metric.Outcomes

	// Seed is the seed of all random numbers that a model draws in a training step, as for dropout.
	Seed uint64

	// first is the index of the first sample in the minibatch of which this batch is a part, and total
	// is the number of samples of that minibatch. Both are 0 for a whole minibatch.
	first, total int
}

// whole returns the number of samples of the minibatch that b is, or of which b is a part.
func (b *Batch) whole() int { return max(b.total, b.N) }

// part returns n samples of the minibatch, from number first on, as a batch that shares memory with b. An
// evaluation of it adds to the outcomes of b. samples says what the model reads.
func (b *Batch) part(samples Samples, first, n int) Batch {
	batch := Batch{
		N:        n,
		Units:    b.Units,
		Outcomes: b.Outcomes,
		Seed:     b.Seed,
		first:    first,
		total:    b.N,
	}
	if samples.Targets > 0 {
		batch.Targets = b.Targets[first*samples.Targets:][:n*samples.Targets]
	} else {
		batch.Labels = b.Labels[first:][:n]
	}
	switch samples.Input {
	case Dense:
		batch.X = b.X[first*samples.Features:][:n*samples.Features]
	case Tokens:
		batch.Tokens = b.Tokens[first*samples.Features:][:n*samples.Features]
	// The rows of a bag of words say where they begin in the index of the whole minibatch.
	case Sparse:
		batch.RowStart = b.RowStart[first:][:n+1]
		batch.Index = b.Index
		batch.Value = b.Value
	}
	return batch
}

// Reset empties the batch and keeps the memory of its slices, so that the next minibatch allocates
// nothing.
func (b *Batch) Reset() {
	*b = Batch{
		Labels:   b.Labels[:0],
		Targets:  b.Targets[:0],
		X:        b.X[:0],
		RowStart: b.RowStart[:0],
		Index:    b.Index[:0],
		Value:    b.Value[:0],
		Tokens:   b.Tokens[:0],
	}
}

// row returns the words of sparse sample i, and how often each occurs.
func (b *Batch) row(i int) (index []int32, value []float32) {
	start := b.RowStart[i]
	end := b.RowStart[i+1]
	index = b.Index[start:end]
	return index, b.Value[start:end][:len(index)]
}

// Check returns an error if the batch does not hold samples of the given kind: if a length, a
// label, an index or a token is out of range. Layers use these numbers as addresses without another
// check.
func (b *Batch) Check(samples Samples) error {
	if err := b.checkAnswers(samples); err != nil {
		return err
	}
	if samples.Input == Sparse {
		return b.checkRows(samples.Features)
	}
	values := len(b.X)
	kind := "values"
	if samples.Input == Tokens {
		values = len(b.Tokens)
		kind = "tokens"
	}
	// Dense rows and sequences have the same number of values in every sample.
	if values != b.N*samples.Features {
		return fmt.Errorf("batch of %d samples with %d %s; the model reads %d a sample", b.N, values, kind,
			samples.Features)
	}
	// A token is the index of a row of the embedding.
	if samples.Input == Tokens {
		for i, x := range b.Tokens {
			if int(x) >= samples.Vocabulary {
				return fmt.Errorf(
					"sample %d of the batch: token %d is not one of the vocabulary's 0 to %d",
					i/samples.Features,
					x,
					samples.Vocabulary-1,
				)
			}
		}
	}
	return nil
}

// checkAnswers returns an error if the labels or targets of the batch are not those of N samples of
// the given kind.
func (b *Batch) checkAnswers(samples Samples) error {
	if samples.Targets > 0 {
		if len(b.Targets) != b.N*samples.Targets {
			return fmt.Errorf("batch of %d samples with %d targets; each has %d", b.N, len(b.Targets), samples.Targets)
		}
		return nil
	}
	if len(b.Labels) != b.N {
		return fmt.Errorf("batch of %d samples with %d labels", b.N, len(b.Labels))
	}
	// A negative label becomes a large unsigned number, so that one comparison checks both ends.
	for i, y := range b.Labels {
		if uint32(y) >= uint32(samples.Classes) {
			return fmt.Errorf("sample %d of the batch: label %d is not one of the classes 0 to %d", i, y,
				samples.Classes-1)
		}
	}
	return nil
}

// checkRows returns an error if the compressed rows of sparse samples are inconsistent, or if an
// index is not one of the features.
func (b *Batch) checkRows(features int) error {
	if len(b.RowStart) != b.N+1 ||
		b.RowStart[0] != 0 ||
		int(b.RowStart[b.N]) != len(b.Index) ||
		len(b.Value) != len(b.Index) {
		return fmt.Errorf("batch of %d samples: %d row starts, %d indices and %d values do not fit together",
			b.N, len(b.RowStart), len(b.Index), len(b.Value))
	}
	// Rows must not overlap or run backwards, because each is cut out of Index and Value.
	for i := range b.N {
		if b.RowStart[i] > b.RowStart[i+1] {
			return fmt.Errorf("sample %d of the batch ends before it starts", i)
		}
	}
	for _, x := range b.Index {
		if uint32(x) >= uint32(features) {
			return fmt.Errorf("index %d of the batch is not one of the features 0 to %d", x, features-1)
		}
	}
	return nil
}

// Samples says what the samples of a set are, or what a model reads.
type Samples struct {
	// Input says which fields of a batch hold the samples.
	Input Input
	// Features is the number of values of a dense sample, of words in the vocabulary of a bag, or
	// of tokens in a sequence.
	Features int
	// Classes is the number of classes; labels are 0 to Classes-1. It is 0 if samples have targets.
	Classes int
	// Targets is how many numbers are to be predicted for each sample. It is 0 if samples have a
	// label.
	Targets int
	// Vocabulary is the number of different tokens, which are 0 to Vocabulary-1. Only Tokens have
	// one.
	Vocabulary int
	// Image holds the channels, the height and the width of samples that are images. It is zero for
	// any other.
	Image [3]int
}

// Describe puts the samples in words for people: their kind, the number of features, and the number
// of classes or targets.
func (s Samples) Describe() string {
	text := fmt.Sprintf("%v of %d features", s.Input, s.Features)
	if s.Vocabulary != s.Classes && s.Input == Tokens {
		text += fmt.Sprintf(" from a vocabulary of %d", s.Vocabulary)
	}
	if s.Targets > 0 {
		return fmt.Sprintf("%s with %d targets", text, s.Targets)
	}
	return fmt.Sprintf("%s in %d classes", text, s.Classes)
}

// Fit reports whether a model that reads these samples can read those of a set. Model and set may both
// leave open whether samples are images.
func (s Samples) Fit(set Samples) bool {
	if set.Image == [3]int{} || s.Image == [3]int{} {
		s.Image = [3]int{}
		set.Image = [3]int{}
	}
	return s == set
}

// accuracy is the metrics of a classifier.
var accuracy = []metric.Metric{{Name: metric.Accuracy}}

// Score is what samples add to a metric, whose value is Sum/Weight.
type Score struct{ Sum, Weight float64 }

// Count adds n samples, of which right ones are classified correctly.
func (s *Score) Count(right, n int) {
	s.Sum += float64(right)
	s.Weight += float64(n)
}
