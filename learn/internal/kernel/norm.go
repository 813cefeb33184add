package kernel

import "math"

// Passes over vectors whose length is a multiple of 8, such as parts of blocks: those of a
// normalisation, and what a ReLU does to sums and to gradients.

// vectorGroups returns the number of groups of 8 floats in a slice, and the assembly routines, nil if the
// pass is computed in plain Go.
func (isa ISA) vectorGroups(x []float32) (v *routine, n int) {
	if len(x) == 0 || len(x)%8 != 0 {
		panic("kernel: a pass over a part of a vector")
	}
	return isa.vectors(), len(x) / 8
}

// Centre computes dst = x − mean element by element, and adds the squares of these differences to
// squares. All slices have the length of dst.
func (isa ISA) Centre(dst, x, mean, squares []float32) {
	// The slices are cut to one length, so that the compiler checks no bounds within the loop.
	x = x[:len(dst)]
	mean = mean[:len(dst)]
	squares = squares[:len(dst)]
	// The assembly works on groups of 8 values.
	if v, n := isa.vectorGroups(dst); v != nil {
		v.centre(&dst[0], &x[0], &mean[0], &squares[0], n)
		return
	}
	for i, v := range x {
		c := v - mean[i]
		dst[i] = c
		squares[i] += float32(c * c)
	}
}

// Affine computes dst = x·scale + shift element by element and, with relu, the larger of that and
// 0; a NaN stays. All slices have the length of dst.
func (isa ISA) Affine(dst, x, scale, shift []float32, relu bool) {
	// The slices are cut to one length, so that the compiler checks no bounds within the loop.
	x = x[:len(dst)]
	scale = scale[:len(dst)]
	shift = shift[:len(dst)]
	// Without a ReLU the bound is −∞, so that one kernel serves both.
	lowerBound := float32(math.Inf(-1))
	if relu {
		lowerBound = 0
	}
	if v, n := isa.vectorGroups(dst); v != nil {
		v.affine(&dst[0], &x[0], &scale[0], &shift[0], n, lowerBound)
		return
	}
	for i, v := range x {
		dst[i] = max(float32(v*scale[i])+shift[i], lowerBound)
	}
}

// AddDots adds g to sum and the products g·x to dot, element by element. All slices have the length
// of g.
func (isa ISA) AddDots(sum, dot, g, x []float32) {
	sum = sum[:len(g)]
	dot = dot[:len(g)]
	x = x[:len(g)]
	// The assembly works on groups of 8 values.
	if v, n := isa.vectorGroups(g); v != nil {
		v.addDots(&sum[0], &dot[0], &g[0], &x[0], n)
		return
	}
	for i, v := range g {
		sum[i] += v
		dot[i] += float32(v * x[i])
	}
}

// Combine computes dst = a·x + (b·y + c) element by element. Each product is rounded before it is
// added. All slices have the length of dst.
func (isa ISA) Combine(dst, x, a, y, b, c []float32) {
	// The slices are cut to one length, so that the compiler checks no bounds within the loop.
	x = x[:len(dst)]
	a = a[:len(dst)]
	y = y[:len(dst)]
	b = b[:len(dst)]
	c = c[:len(dst)]
	if v, n := isa.vectorGroups(dst); v != nil {
		v.combine(&dst[0], &x[0], &a[0], &y[0], &b[0], &c[0], n)
		return
	}
	for i, v := range x {
		dst[i] = float32(a[i]*v) + (float32(b[i]*y[i]) + c[i])
	}
}

// AddReLU computes dst = max(0, dst + x) element by element, the sum of a residual connection and
// its ReLU. A NaN stays a NaN.
func (isa ISA) AddReLU(dst, x []float32) {
	x = x[:len(dst)]
	if v, n := isa.vectorGroups(dst); v != nil {
		v.addReLU(&dst[0], &x[0], n)
		return
	}
	for i, v := range dst {
		dst[i] = max(v+x[i], 0)
	}
}

// Mask sets dst to zero where x is not above zero, as the gradient of a ReLU with the values x;
// where x is NaN dst may be anything.
func (isa ISA) Mask(dst, x []float32) {
	x = x[:len(dst)]
	if v, n := isa.vectorGroups(dst); v != nil {
		v.mask(&dst[0], &x[0], n)
		return
	}
	// The loop has no branch, because the processor could not predict which way it goes.
	for i, d := range dst {
		// The sign bit of ^b & −b is set exactly if b, the bits of x, is a positive integer, and so
		// if x is above 0.
		b := int32(math.Float32bits(x[i]))
		dst[i] = math.Float32frombits(math.Float32bits(d) & uint32((^b&-b)>>31))
	}
}
