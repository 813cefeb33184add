package aggregate

import (
	"slices"
	"testing"

	"fedpace/algorithm/combine"
	"fedpace/learn"
)

// mixOf returns a mix of a float buffer, a count, a level and a mask, with these present values.
func mixOf(present ...float32) bufferMix {
	return bufferMix{
		tensors: []learn.Tensor{
			{Name: "mean", Shape: []int{1}, Offset: 5},
			{Name: "count", Shape: []int{1}, Offset: 6, Type: "int64", Rule: learn.Largest},
			{Name: "level", Shape: []int{1}, Offset: 7, Type: "int8", Rule: learn.Mean},
			{Name: "mask", Shape: []int{1}, Offset: 8, Type: "bool", Rule: learn.Majority},
		},
		offset:  5,
		present: present,
	}
}

// shareOf returns the share of a client that has changed all buffers.
func shareOf(weight float64, values ...float32) bufferShare {
	return bufferShare{sent: sentBuffers{values: values}, weight: weight}
}

// By hand, with the weights 1/2, 1/4 and 1/4.
func TestBufferMix_ByHand(t *testing.T) {
	clients := []bufferShare{shareOf(0.5, 8, 10, 1, 0), shareOf(0.25, 4, 30, 2, 1), shareOf(0.25, 0, 20, 4, 1)}
	byMedian := mixOf(0, 12, 0, 1)
	byMedian.rule = combine.Median{}
	mixed := mixOf(1, 40, 0, 1)
	mixed.presentShare = 0.5
	for name, x := range map[string]struct {
		mix  bufferMix
		want []float32
	}{
		"weights":         {mixOf(0, 12, 0, 1), []float32{5, 30, 2, 1}}, // the mask's halves are equal: as before
		"the count stays": {mixOf(0, 99, 0, 0), []float32{5, 99, 2, 0}},
		"median":          {byMedian, []float32{4, 20, 2, 1}},
		"mixed":           {mixed, []float32{3, 40, 1, 1}}, // half of what was before
	} {
		t.Run(name, func(t *testing.T) {
			if got := x.mix.next(clients); !slices.Equal(got, x.want) {
				t.Errorf("%v, want %v", got, x.want)
			}
		})
	}
}

// What a client has not sent is as in the model that it began with, which may be an old one.
func TestBufferMix_UnsentValuesKeepBase(t *testing.T) {
	base := []float32{6, 7, -3, 1}
	one := bufferShare{base: base, sent: sentBuffers{first: 1, values: []float32{9}}, weight: 1}
	if got := mixOf(0, 0, 0, 0).next([]bufferShare{one}); !slices.Equal(got, []float32{6, 9, -3, 1}) {
		t.Errorf("%v", got)
	}
}

// One value that is false by 38 orders of magnitude costs the others no digit.
func TestBufferMix_HugeValueCostsNoDigit(t *testing.T) {
	byRule := map[string]combine.ByValue{
		"median":       combine.Median{},
		"trimmed mean": combine.TrimmedMean{Byzantine: combine.Byzantine{Share: 0.2}},
	}
	for name, want := range map[string][]float32{
		"median":       {1.25, 20, 2, 0},
		"trimmed mean": {1.5, 21, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			mix := mixOf(0, 12, 0, 0)
			mix.rule = byRule[name]
			got := mix.next([]bufferShare{
				shareOf(0.2, 1, 10, 1, 0),
				shareOf(0.2, 3e38, 1<<24, 127, 1),
				shareOf(0.2, 1.25, 18, 2, 0),
				shareOf(0.2, 2.25, 25, 3, 0),
				shareOf(0.2, -2e38, 20, 2, 0),
			})
			if !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// Real devices that a rule combines value by value count as one client with their weight: one that lies does
// not move the mean.
func TestBufferMix_DevicesByMedian(t *testing.T) {
	devices := mixOf(0, 0, 0, 0)
	devices.rule = combine.Median{}
	combined := devices.combineShares([]bufferShare{
		shareOf(0.1, 2, 1, 0, 0), shareOf(0.1, 3e38, 1<<24, 127, 1), shareOf(0.1, 2, 1, 0, 0), shareOf(0.1, 2, 1, 0, 0), shareOf(0.1, 4, 2, 0, 0),
	})
	got := mixOf(0, 0, 0, 0).next([]bufferShare{shareOf(0.5, 4, 3, 0, 0), combined})
	if !slices.Equal(got, []float32{3, 3, 0, 0}) {
		t.Errorf("%v", got)
	}
}
