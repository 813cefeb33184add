package network

import "fmt"

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
		s.Image, set.Image = [3]int{}, [3]int{}
	}
	return s == set
}

// Metric names a quantity besides the loss by which a model is measured.
type Metric struct {
	Name  string
	Lower bool // smaller is better
}

// Accuracy is the share of samples whose label is the first largest logit.
const Accuracy = "accuracy"

// accuracy is the metrics of a classifier.
var accuracy = []Metric{{Name: Accuracy}}

// Score is what samples add to a metric, whose value is Sum/Weight.
type Score struct{ Sum, Weight float64 }

// Count adds n samples, of which so many are right.
func (s *Score) Count(right, n int) {
	s.Sum += float64(right)
	s.Weight += float64(n)
}
