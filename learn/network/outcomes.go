package network

import "fedpace/learn/metric"

// keepOutputs adds the outputs z of the n samples of a block to the outcomes of the batch, if the batch collects
// outcomes (Outcomes is not nil). Output k of sample s is z[k*Lanes+s]; the outcomes have it sample by sample.
func (b *Batch) keepOutputs(z []float32, n int) {
	o := b.Outcomes
	if o == nil {
		return
	}
	o.Width = len(z) / Lanes
	for s := range n {
		for k := range o.Width {
			o.Outputs = append(o.Outputs, z[k*Lanes+s])
		}
	}
}

// keepLogits is keepOutputs for outputs that are logits. Of more than [metric.MaxScored] classes it keeps only
// the number of the predicted one, that of the first largest logit. The logit of class k of sample s is
// z[k*Lanes+s].
func (b *Batch) keepLogits(z []float32, n int) {
	width := len(z) / Lanes
	if width <= metric.MaxScored {
		b.keepOutputs(z, n)
		return
	}
	outcomes := b.Outcomes
	if outcomes == nil {
		return
	}
	outcomes.Width = 1
	for s := range n {
		best := 0
		for k := range width {
			if z[k*Lanes+s] > z[best*Lanes+s] {
				best = k
			}
		}
		outcomes.Outputs = append(outcomes.Outputs, float32(best))
	}
}

// KeepSample adds the logits z of one sample to the outcomes of the batch, if the batch collects outcomes.
// Of more than [metric.MaxScored] classes it keeps only the number of the predicted class.
func (b *Batch) KeepSample(z []float32) {
	o := b.Outcomes
	switch {
	case o == nil:
	case len(z) <= metric.MaxScored:
		o.Width = len(z)
		o.Outputs = append(o.Outputs, z...)
	default:
		o.Width = 1
		o.Outputs = append(o.Outputs, float32(firstLargest(z)))
	}
}
