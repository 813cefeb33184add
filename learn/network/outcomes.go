package network

import "fedpace/learn/metric"

// keep adds the logits or outputs z of n samples of a block to the outcomes of the batch, if it has
// some. z has Lanes values for each of the network's outputs. classes says that outputs are logits.
func (b *Batch) keep(z []float32, n int, classes bool) {
	o := b.Outcomes
	if o == nil {
		return
	}
	width := len(z) / Lanes
	if !classes || width <= metric.MaxScored {
		o.Width = width
		for s := range n {
			for k := range width {
				o.Outputs = append(o.Outputs, z[k*Lanes+s])
			}
		}
		return
	}
	// Of many classes only the one that is found is kept.
	o.Width = 1
	for s := range n {
		best := 0
		for k := range width {
			if z[k*Lanes+s] > z[best*Lanes+s] {
				best = k
			}
		}
		o.Outputs = append(o.Outputs, float32(best))
	}
}

// KeepSample adds the logits of one sample to the outcomes of the batch, if it has some.
func (b *Batch) KeepSample(z []float32) {
	o := b.Outcomes
	switch {
	case o == nil:
	case len(z) <= metric.MaxScored:
		o.Width = len(z)
		o.Outputs = append(o.Outputs, z...)
	default:
		o.Width = 1
		o.Outputs = append(o.Outputs, float32(first(z)))
	}
}
