package kernel

// StepSamples returns the most samples of a DenseStep. With more, their sums do not fit the vector
// registers.
func (isa ISA) StepSamples() int { return len(routines[isa].denseSteps) }

// DenseStep updates a dense layer's weight w, outputs×in, in a step of few samples, and computes the
// gradient of its inputs in the same pass over w: it adds alpha times dy·xᵀ to w, and writes Wᵀ·dy,
// with the weight before the update, to dx; with mask that gradient is zero where x is not above 0. dy has
// [Lanes] values for each output, one for each sample; x and dx have a row of length in for each sample.
//
// Every element is the same sum in the same order as that of Gemm. It handles only the first columns of w
// and returns their number, 0 if products are faster; the caller computes the others.
func (isa ISA) DenseStep(outputs, in, samples int, w, dy, x, dx []float32, alpha float32, mask bool) (columns int) {
	// The kernels of up to maxOneRow samples take one row of w at a time, with AVX-512 two vectors of it at
	// once. Those of more samples take two rows at once, of which outputs must therefore be a multiple.
	const maxOneRow = 12
	width := routines[isa].lanes
	switch {
	case samples > isa.StepSamples() || samples > maxOneRow && outputs%2 > 0:
		return 0
	case samples <= maxOneRow && isa == AVX512:
		width *= 2
	}
	// A strip is as many columns of w as a kernel takes together.
	strips := in / width
	if strips == 0 {
		return 0
	}
	// Assembly checks no bounds, so the last element of each operand is checked here.
	_ = w[outputs*in-1]
	_ = dy[(outputs-1)*Lanes+samples-1]
	_ = x[samples*in-1]
	_ = dx[samples*in-1]
	// strip is scratch space for the inputs of all samples in one strip.
	var strip [Lanes * Lanes]float32
	routines[isa].denseSteps[samples-1](
		strips,
		outputs,
		&w[0],
		4*in,
		&dy[0],
		&x[0],
		4*in,
		&dx[0],
		4*in,
		alpha,
		mask,
		&strip[0],
	)
	return strips * width
}
