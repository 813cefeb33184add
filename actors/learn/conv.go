package learn

import "fedpace/actors/learn/internal/kernel"

const taps = 3 // of a convolution, in each direction

// conv is a 3×3 convolution without padding, ReLU and 2×2 max pooling, on one
// block of samples. Its maps lie position by position: rows of columns of
// channels of lanes. So the channels of three neighbouring positions are one run
// of k, and a convolution is a product of three such runs; likewise its gradients
// (kernel.Segment). Only what the pooling reads is computed.
type conv struct {
	isa     kernel.ISA
	in, out int
	py, px  int // positions of the pooled output
	oy, ox  int // of the convolution: twice that
	iy, ix  int // of the input: two more
	offset  int // of the weight [out, in, 3, 3], its bias behind it

	weight []float32 // as [out, 3, 3, in], so that a run of k is one of the weight's too
	grad   []float32 // likewise
	order  []int32   // where each parameter of the weight is here
	bias   []float32
	dbias  []float32

	x    []float32 // input: iy × ix × in × lanes
	rows []float32 // the same as iy × samples × (ix × in)
	dx   []float32 // its gradient, where an earlier layer wants it
	y    []float32 // the four positions of one output: 4 × out × lanes
	code []int32   // which of the four each output is: py × px × out × lanes
	dy   []float32 // gradient of the convolution's output: oy × ox × out × lanes

	forwardRuns  []kernel.Segment
	weightRuns   []kernel.Segment   // the positions of two rows
	gradientRuns [][]kernel.Segment // for each position of the input, the outputs that read it
}

func newConv(isa kernel.ISA, in, out, py, px, offset int, gradient bool) *conv {
	const lanes = kernel.Lanes
	v := &conv{isa: isa, in: in, out: out, py: py, px: px, oy: 2 * py, ox: 2 * px, iy: 2*py + 2, ix: 2*px + 2, offset: offset}
	v.weight, v.grad = aligned(out*9*in), aligned(out*9*in)
	for i := range 9 * in * out {
		o, i, k := i/(9*in), i/9%in, i%9
		v.order = append(v.order, int32((o*9+k)*in+i))
	}
	v.bias, v.dbias = aligned(out), aligned(out)
	v.x, v.rows = aligned(v.iy*v.ix*in*lanes), aligned(v.iy*v.ix*in*lanes)
	v.y = aligned(4 * out * lanes)
	v.code = make([]int32, py*px*out*lanes)
	v.dy = aligned(v.oy * v.ox * out * lanes)
	for ky := range taps {
		v.forwardRuns = append(v.forwardRuns, kernel.Segment{A: ky * taps * in, B: ky * v.ix * in * lanes})
	}
	for y := range 2 {
		for x := range v.ox {
			v.weightRuns = append(v.weightRuns, kernel.Segment{A: (y*v.ox + x) * out * lanes, B: y*lanes*v.ix*in + x*in})
		}
	}
	if !gradient {
		return v
	}
	v.dx = aligned(v.iy * v.ix * in * lanes)
	for y := range v.iy {
		for x := range v.ix {
			var runs []kernel.Segment
			for ky := range taps {
				for kx := range taps {
					if y-ky >= 0 && y-ky < v.oy && x-kx >= 0 && x-kx < v.ox {
						runs = append(runs, kernel.Segment{A: (ky*taps + kx) * in, B: ((y-ky)*v.ox + x - kx) * out * lanes})
					}
				}
			}
			v.gradientRuns = append(v.gradientRuns, runs)
		}
	}
	return v
}

// begin takes the parameters of a step and forgets the gradients of the last.
func (v *conv) begin(params []float32) {
	for i, here := range v.order {
		v.weight[here] = params[v.offset+i]
	}
	copy(v.bias, params[v.offset+len(v.order):])
	clear(v.grad)
	clear(v.dbias)
}

// update adds alpha times the gradient to dst, or stores it.
func (v *conv) update(dst []float32, op kernel.Op, alpha float32) {
	dst = dst[v.offset:][:len(v.order)+v.out]
	if op == kernel.Store {
		clear(dst)
	}
	for i, here := range v.order {
		dst[i] += float32(alpha * v.grad[here])
	}
	for o, d := range v.dbias {
		dst[len(v.order)+o] += float32(alpha * d)
	}
}

// image reads n samples, each channels × height × width, as input.
func (v *conv) image(x []float32, n, height, width int) {
	ld := v.ix * v.in
	for y := range v.iy {
		rows := v.rows[y*kernel.Lanes*ld:][:kernel.Lanes*ld]
		for s := range n {
			row := rows[s*ld:][:ld]
			for c := range v.in {
				src := x[((s*v.in+c)*height+y)*width:][:v.ix]
				at := c
				for _, p := range src {
					row[at] = p
					at += v.in
				}
			}
		}
		v.isa.Transpose(kernel.Block(v.x[y*ld*kernel.Lanes:]), kernel.Matrix{Data: rows, LD: ld}, n, ld)
	}
}

// transpose derives rows from x.
func (v *conv) transpose(n int) {
	ld := v.ix * v.in
	for y := range v.iy {
		v.isa.Transpose(kernel.Matrix{Data: v.rows[y*kernel.Lanes*ld:], LD: ld}, kernel.Block(v.x[y*ld*kernel.Lanes:]), ld, n)
	}
}

// forward writes the pooled maps, `position` floats from one position to the next
// and `channel` from one channel to the next.
func (v *conv) forward(dst []float32, position, channel, n int) {
	const lanes = kernel.Lanes
	weight := kernel.Operand{Data: v.weight, Row: 9 * v.in, Col: 1}
	for p := range v.py * v.px {
		y, x := 2*(p/v.px), 2*(p%v.px)
		for j := range 4 {
			from := ((y+j/2)*v.ix + x + j%2) * v.in * lanes
			v.isa.GemmSum(v.out, kernel.Filled(n), 3*v.in, v.forwardRuns, weight,
				kernel.Block(v.x[from:]), kernel.Block(v.y[j*v.out*lanes:]), kernel.BiasReLU, v.bias, 0)
		}
		v.isa.MaxPool(v.out, v.y, dst[p*position:], channel, v.code[p*v.out*lanes:])
	}
}

// backward takes the gradient of the pooled maps, laid out as forward's dst and
// already through the ReLU, and adds those of the weight and the bias.
func (v *conv) backward(g []float32, position, channel, n int) {
	const lanes = kernel.Lanes
	ld := v.ix * v.in
	two := 2 * v.ox * v.out * lanes // rows of dy
	for py := range v.py {
		dy := v.dy[py*two:][:two]
		for px := range v.px {
			p := py*v.px + px
			v.isa.MaxUnpool(v.out, g[p*position:], channel, v.code[p*v.out*lanes:],
				dy[2*px*v.out*lanes:], v.out*lanes, v.ox*v.out*lanes)
			for o := range v.out {
				v.isa.AddRowSums(v.dbias[o:o+1], g[p*position+o*channel:], n, kernel.Add, 1)
			}
		}
		for ky := range taps {
			v.isa.GemmSum(v.out, 3*v.in, n, v.weightRuns, kernel.Operand{Data: dy, Row: lanes, Col: 1},
				kernel.Matrix{Data: v.rows[(2*py+ky)*lanes*ld:], LD: ld},
				kernel.Matrix{Data: v.grad[ky*3*v.in:], LD: 9 * v.in}, kernel.Add, nil, 1)
		}
	}
}

// inputGradient writes the gradient of the input, which is a ReLU's output.
func (v *conv) inputGradient(n int) {
	const lanes = kernel.Lanes
	weight := kernel.Operand{Data: v.weight, Row: 1, Col: 9 * v.in}
	for p, runs := range v.gradientRuns {
		at := p * v.in * lanes
		v.isa.GemmSum(v.in, kernel.Filled(n), v.out, runs, weight,
			kernel.Block(v.dy), kernel.Block(v.dx[at:]), kernel.ReLUGrad, v.x[at:], 0)
	}
}
