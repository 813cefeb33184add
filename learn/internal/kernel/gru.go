package kernel

// The gates of a GRU in PyTorch's form, on vectors of n = hidden·Lanes floats:
//
//	r = σ(a_r), z = σ(a_z), m = tanh(i_n + r∘g_n), h' = (1-z)∘m + z∘h
//
// with i the input's and g the state's share of each gate, a = i + g.

// Arguments of σ beyond ±gateLimit and of tanh beyond ±gateLimit/2 are cut: there
// both are saturated to less than a float32 can show beside 1.
const gateLimit = 30

// GRUForward computes a step of gated recurrent units. in and state hold the input's and the
// state's shares of the gates r, z and n, n values each, and h the state before the step, n values.
// It writes r, z, m, g_n and the new state h' to saved, n values each. n must be a multiple of
// Vector.
func (isa ISA) GRUForward(n int, in, state, h, saved []float32) {
	in = in[:3*n]
	state = state[:3*n]
	h = h[:n]
	saved = saved[:5*n]
	if n == 0 || n%Vector != 0 {
		panic("kernel: GRU gates of a part of a vector")
	}
	if v := isa.vectors(); v != nil {
		v.gruForward(n, &in[0], &state[0], &h[0], &saved[0])
		return
	}
	for i := range n {
		// Both gates are sigmoids, 1/(1 + exp(−x)).
		resetDivisor := 1 + Exp(-min(max(in[i]+state[i], -gateLimit), gateLimit))
		updateDivisor := 1 + Exp(-min(max(in[n+i]+state[n+i], -gateLimit), gateLimit))
		// One division serves two gates, because divisions are slow.
		inverse := 1 / float32(resetDivisor*updateDivisor)
		r := float32(updateDivisor * inverse)
		z := float32(resetDivisor * inverse)
		g := state[2*n+i]
		x := in[2*n+i] + float32(r*g)
		// The tangent of x is (1 − e)/(1 + e) with e = exp(−2x).
		e := Exp(-2 * min(max(x, -gateLimit/2), gateLimit/2))
		m := (1 - e) / (1 + e)
		saved[i] = r
		saved[n+i] = z
		saved[2*n+i] = m
		saved[3*n+i] = g
		saved[4*n+i] = float32(z*(h[i]-m)) + m
	}
}

// GRUBackward computes the gradients of a step of gated recurrent units. dh is the gradient of the
// new state h', n values. saved is what GRUForward saved, of which the first 4n values are read,
// and h is the state before the step. It writes the gradients of a_r, a_z, g_n and i_n to da, n
// values each, and turns dh into the part that reaches h directly, dh∘z.
func (isa ISA) GRUBackward(n int, dh, saved, h, da []float32) {
	dh = dh[:n]
	saved = saved[:4*n]
	h = h[:n]
	da = da[:4*n]
	if n == 0 || n%Vector != 0 {
		panic("kernel: GRU gates of a part of a vector")
	}
	if v := isa.vectors(); v != nil {
		v.gruBackward(n, &dh[0], &saved[0], &h[0], &da[0])
		return
	}
	for i := range n {
		// saved holds the gates r and z, the candidate m and g, each as n values.
		r := saved[i]
		z := saved[n+i]
		m := saved[2*n+i]
		g := saved[3*n+i]
		d := dh[i]
		// From h' = (1−z)∘m + z∘h follow the gradients of z and, through the tangent, of the
		// argument of m.
		dz := float32(d * (h[i] - m))
		dm := float32(float32(d*(1-z)) * (1 - float32(m*m)))
		// The derivative of a sigmoid s is s(1−s).
		da[i] = float32(float32(dm*g) * float32(r*(1-r)))
		da[n+i] = float32(dz * float32(z*(1-z)))
		da[2*n+i] = float32(dm * r)
		da[3*n+i] = dm
		dh[i] = float32(d * z)
	}
}

// AddScaled computes dst += alpha·x element by element. x must be at least as long as dst.
func (isa ISA) AddScaled(dst []float32, alpha float32, x []float32) {
	x = x[:len(dst)]
	done := 0
	// The assembly takes groups of 8, and plain Go the rest.
	if v := isa.vectors(); v != nil && len(dst) >= 8 {
		v.addScaled(&dst[0], &x[0], len(dst)/8, alpha)
		done = len(dst) &^ 7
	}
	for i := done; i < len(dst); i++ {
		dst[i] += float32(alpha * x[i])
	}
}
