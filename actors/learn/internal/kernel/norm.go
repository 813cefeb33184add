package kernel

// The passes of a normalisation over vectors of n floats, any number of them.

// Centre computes dst = x − mean and adds its square to squares.
func (isa ISA) Centre(dst, x, mean, squares []float32) {
	x, mean, squares = x[:len(dst)], mean[:len(dst)], squares[:len(dst)]
	for i, v := range x {
		c := v - mean[i]
		dst[i] = c
		squares[i] += float32(c * c)
	}
}

// Affine computes dst = x·scale + shift, and the larger of that and 0 if relu.
func (isa ISA) Affine(dst, x, scale, shift []float32, relu bool) {
	x, scale, shift = x[:len(dst)], scale[:len(dst)], shift[:len(dst)]
	if relu {
		for i, v := range x {
			dst[i] = max(float32(v*scale[i])+shift[i], 0)
		}
		return
	}
	for i, v := range x {
		dst[i] = float32(v*scale[i]) + shift[i]
	}
}

// AddDots adds g to sum and g·x to dot.
func (isa ISA) AddDots(sum, dot, g, x []float32) {
	sum, dot, x = sum[:len(g)], dot[:len(g)], x[:len(g)]
	for i, v := range g {
		sum[i] += v
		dot[i] += float32(v * x[i])
	}
}

// Combine computes dst = a·x + b·y + c.
func (isa ISA) Combine(dst, x, a, y, b, c []float32) {
	x, a, y, b, c = x[:len(dst)], a[:len(dst)], y[:len(dst)], b[:len(dst)], c[:len(dst)]
	for i, v := range x {
		dst[i] = float32(a[i]*v) + (float32(b[i]*y[i]) + c[i])
	}
}

// AddReLU computes dst = max(0, dst + x); a NaN stays.
func (isa ISA) AddReLU(dst, x []float32) {
	x = x[:len(dst)]
	for i, v := range dst {
		dst[i] = max(v+x[i], 0)
	}
}
