package network

import (
	"math"
	"slices"

	"fedpace/learn/internal/kernel"
	"fedpace/learn/metric"
)

// head is the end of a network: its loss and what it is measured by.
type head interface {
	// gradient replaces a block's outputs by the gradient of the samples' losses times
	// scale, zero in the lanes beside the samples, and returns the sum of the losses.
	gradient(z []float32, p *Pass, scale float32) (loss float64)
	// evaluate returns the sum of the losses and adds to the scores. It overwrites the
	// outputs.
	evaluate(z []float32, p *Pass, scores []Score) (loss float64)
}

// newHead returns the loss of such samples: softmax cross-entropy for labels, the mean squared error
// for targets.
func newHead(samples Samples, isa kernel.ISA) head {
	if samples.Targets > 0 {
		return squaredErrors(samples.Targets)
	}
	return &crossEntropies{isa: isa}
}

// MetricsOf returns the metrics by which a network for such samples is measured.
func MetricsOf(samples Samples) []metric.Metric {
	if samples.Targets > 0 {
		return absoluteError
	}
	return accuracy
}

// crossEntropies is softmax cross-entropy on a block of logits. top and sum hold, for each sample, the
// largest logit and the sum of exp(logit − top).
type crossEntropies struct {
	isa      kernel.ISA
	top, sum [Lanes]float32
}

// softmax replaces the logits by their softmax times scale, and returns the sum of the samples' losses,
// log(sum) − (z_label − top). z has a row of Lanes samples for each class, and labels has a label for each sample.
func (h *crossEntropies) softmax(z []float32, labels []int32, scale float32) (loss float64) {
	var right [Lanes]float32
	// The logits of the labels are read first, because Softmax overwrites them.
	for s, y := range labels {
		right[s] = z[int(y)*Lanes+s]
	}
	h.isa.Softmax(z, len(z)/Lanes, len(labels), scale, &h.top, &h.sum)
	for s := range labels {
		loss += kernel.Log(float64(h.sum[s])) - (float64(right[s]) - float64(h.top[s]))
	}
	return loss
}

// gradient writes scale · (softmax − one-hot label), the gradient of the cross-entropy, in the
// place of the logits z, and returns the sum of the samples' losses. z has a row of Lanes samples for each class.
func (h *crossEntropies) gradient(z []float32, p *Pass, scale float32) (loss float64) {
	labels := p.batch.Labels[p.first:][:p.Samples]
	loss = h.softmax(z, labels, scale)
	// The gradient of the cross-entropy is the softmax, less one at the label.
	for s, y := range labels {
		z[int(y)*Lanes+s] -= scale
	}
	clearUnusedLanes(z, p.Samples)
	return loss
}

// clearUnusedLanes clears the lanes behind the n samples that vector instructions compute together with
// them, so that they add nothing to a gradient.
func clearUnusedLanes(z []float32, n int) {
	// A full vector has no lanes behind the samples.
	if n%kernel.Vector != 0 {
		for row := range slices.Chunk(z, Lanes) {
			clear(row[n:kernel.Filled(n)])
		}
	}
}

// evaluate counts the samples whose label is the class of the largest logit, the first one of equal
// ones, into scores[0]. It returns the sum of the samples' losses. z has the logits of a pass, a row of
// Lanes for each class, and softmax overwrites them.
func (h *crossEntropies) evaluate(z []float32, p *Pass, scores []Score) (loss float64) {
	labels := p.batch.Labels[p.first:][:p.Samples]
	// The batch gets the logits if its caller has asked for them.
	p.batch.keepLogits(z, p.Samples)
	var best [Lanes]int32
	n := len(labels)
	largest := h.top[:n]
	copy(largest, z)
	// Only a larger logit replaces the best, so the first of equal ones wins.
	for k := 1; k < len(z)/Lanes; k++ {
		row := z[k*Lanes:][:n]
		for s, v := range row {
			if v > largest[s] {
				largest[s] = v
				best[s] = int32(k)
			}
		}
	}
	correct := 0
	for s, y := range labels {
		if best[s] == y {
			correct++
		}
	}
	scores[0].Count(correct, n)
	// Only the losses are wanted, which do not depend on the scale of the softmax.
	const scale = 1
	return h.softmax(z, labels, scale)
}

// absoluteError is the metrics of a network with targets.
var absoluteError = []metric.Metric{{Name: "mean_absolute_error", Lower: true}}

// squaredErrors is the mean squared error of that number of outputs: a sample's loss is the mean of (z − y)²
// over them.
type squaredErrors int

// gradient writes scale · 2 (z − y)/n, the gradient of the mean squared error of n outputs, in the
// place of the outputs z, which have a row of Lanes samples for each output. It returns the sum of the samples' losses.
func (n squaredErrors) gradient(z []float32, p *Pass, scale float32) (loss float64) {
	for t := range int(n) {
		row := z[t*Lanes:][:p.Samples]
		for s, v := range row {
			// The targets of a sample follow each other, while its outputs are a block apart.
			d := v - p.batch.Targets[(p.first+s)*int(n)+t]
			loss += float64(float64(d) * float64(d))
			row[s] = float32(2 * scale / float32(n) * d)
		}
	}
	clearUnusedLanes(z, p.Samples)
	return loss / float64(n)
}

// evaluate adds the samples' mean absolute errors, in the units of the user's data, to the score, and
// returns the sum of the losses, which are in the model's units. z has a row of Lanes samples for each of the n
// targets, and the batch the targets of each sample side by side.
func (n squaredErrors) evaluate(z []float32, pass *Pass, scores []Score) (loss float64) {
	absolute := 0.0
	pass.batch.keepOutputs(z, pass.Samples)
	for t := range int(n) {
		unit := 1.0
		if pass.batch.Units != nil {
			unit = pass.batch.Units[t]
		}
		for s, v := range z[t*Lanes:][:pass.Samples] {
			d := float64(v) - float64(pass.batch.Targets[(pass.first+s)*int(n)+t])
			loss += float64(d * d)
			absolute += float64(math.Abs(d) * unit)
		}
	}
	scores[0].Sum += absolute / float64(n)
	scores[0].Weight += float64(pass.Samples)
	return loss / float64(n)
}
