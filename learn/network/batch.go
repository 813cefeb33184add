package network

import (
	"fmt"

	"fedpace/learn/metric"
)

// Input says which fields of a Batch a model reads.
type Input int

// The kinds of input.
const (
	Dense  Input = iota // Batch.X
	Sparse              // Batch.RowStart, Index, Value
	Tokens              // Batch.Tokens
)

// String names the kind for messages.
func (i Input) String() string { return [...]string{"dense rows", "bags of words", "tokens"}[i] }

// Batch is a minibatch in the layout its model reads (see Input). The slices
// are reused from one batch to the next: Reset keeps their memory.
type Batch struct {
	N       int       // samples
	Labels  []int32   // N, where samples have a label
	Targets []float32 // N rows of Samples.Targets values, where they have targets

	X []float32 // Dense: N rows of Features values, row-major

	// Sparse: compressed rows. Row i holds Index[RowStart[i]:RowStart[i+1]]
	// with its Values; indices within a row are distinct and ascending.
	RowStart []int32
	Index    []int32
	Value    []float32

	Tokens []uint8 // Tokens: N rows of Features tokens

	Seed uint64 // of what a model draws in a training step (dropout)
}

// Reset empties the batch and keeps its memory.
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

// Check refuses a batch that does not hold such samples: wrong lengths, labels or tokens. Layers read
// memory by these numbers without checking them again.
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
	if values != b.N*samples.Features {
		return fmt.Errorf("batch of %d samples with %d %s; the model reads %d a sample", b.N, values, kind,
			samples.Features)
	}
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

// checkAnswers refuses labels or targets that are not those of such samples.
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
	for i, y := range b.Labels {
		if uint32(y) >= uint32(samples.Classes) {
			return fmt.Errorf("sample %d of the batch: label %d is not one of the classes 0 to %d", i, y,
				samples.Classes-1)
		}
	}
	return nil
}

// checkRows refuses sparse samples whose index does not fit, or names a feature that there is not.
func (b *Batch) checkRows(features int) error {
	if len(b.RowStart) != b.N+1 ||
		b.RowStart[0] != 0 ||
		int(b.RowStart[b.N]) != len(b.Index) ||
		len(b.Value) != len(b.Index) {
		return fmt.Errorf("batch of %d samples: %d row starts, %d indices and %d values do not fit together",
			b.N, len(b.RowStart), len(b.Index), len(b.Value))
	}
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
	Input      Input
	Features   int    // values, vocabulary of a bag of words, tokens of a sequence
	Classes    int    // labels are 0..Classes-1; 0: samples have targets
	Targets    int    // numbers of a sample's target; 0: it has a label
	Vocabulary int    // Tokens: tokens are 0..Vocabulary-1
	Image      [3]int // channels, height, width of a sample that is an image; zeros of any other
}

// Describe puts the samples in words.
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

// Fit reports whether a model that reads these samples can read those of a set. A
// set may leave open whether its samples are images.
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
