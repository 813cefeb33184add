package kernel

import "golang.org/x/sys/cpu"

func supported(c Class) bool {
	x := &cpu.X86
	switch c {
	case AVX2:
		return x.HasAVX2 && x.HasFMA
	case AVX512:
		return x.HasAVX2 && x.HasFMA && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
	}
	return false
}

// tile computes tiles of some rows by one panel of columns (gen/gemm.go).
type tile func(tiles, k, segments int, segment *int, a *float32, ars, acs int, b *float32, ldb int, c *float32, ldc int, aux *float32, alpha float32, op int, mask *int32, astep, bstep, cstep, auxstep int)

// Kernels by rows-1.
var (
	narrow512 = [...]tile{gemm512x1x1, gemm512x2x1, gemm512x3x1, gemm512x4x1, gemm512x5x1, gemm512x6x1, gemm512x7x1, gemm512x8x1, gemm512x9x1, gemm512x10x1, gemm512x11x1, gemm512x12x1, gemm512x13x1, gemm512x14x1}
	broad512  = [...]tile{gemm512x1x2, gemm512x2x2, gemm512x3x2, gemm512x4x2, gemm512x5x2, gemm512x6x2, gemm512x7x2, gemm512x8x2, gemm512x9x2, gemm512x10x2, gemm512x11x2, gemm512x12x2, gemm512x13x2, gemm512x14x2}
	narrow256 = [...]tile{gemm256x1x1, gemm256x2x1, gemm256x3x1, gemm256x4x1, gemm256x5x1, gemm256x6x1, gemm256x7x1, gemm256x8x1, gemm256x9x1, gemm256x10x1, gemm256x11x1, gemm256x12x1}
	broad256  = [...]tile{gemm256x1x2, gemm256x2x2, gemm256x3x2, gemm256x4x2, gemm256x5x2, gemm256x6x2}
)

// mask512[w] has w bits set; mask256[8-w:] starts with w lanes set.
var (
	mask512 = func() (m [17]int32) {
		for w := range m {
			m[w] = 1<<w - 1
		}
		return m
	}()
	mask256 = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}
)

// alongRows is from how many elements on C is walked along its rows: the processor
// then sees ahead what it will read and write, while B comes from the second-level
// cache again and again. A smaller C is walked down its columns.
var alongRows = 1 << 17

// gemmAsm walks over panels of two vectors of columns, the last one of one or two,
// and over tiles of rows: as few as there can be, of as equal heights as there can be.
func gemmAsm(c Class, m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	lanes, narrow, broad := 16, narrow512[:], broad512[:]
	if c == AVX2 {
		lanes, narrow, broad = 8, narrow256[:], broad256[:]
	}
	auxRow, auxCol := 0, 0
	switch op {
	case Bias, BiasReLU:
		auxRow = 1
	case ReLUGrad:
		auxRow, auxCol = dst.LD, 1
	}
	for j := 0; j < n; {
		left := n - j
		panels := 1
		kernels, mask := broad, &mask512[16]
		width := 2 * lanes
		switch {
		case left >= width:
			if m*n >= alongRows {
				panels = left / width
			}
		case c == AVX512 && left > lanes:
			width, mask = left, &mask512[left-lanes]
		case c == AVX512:
			width, kernels, mask = left, narrow, &mask512[left]
		default:
			width = min(left, lanes)
			kernels, mask = narrow, &mask256[lanes-width]
		}
		tiles := (m + len(kernels) - 1) / len(kernels)
		high := m % tiles // tiles of one row more
		for i := 0; i < m; {
			rows := m / tiles
			count := tiles - high
			if i < high*(rows+1) {
				rows, count = rows+1, high
			}
			step := rows
			if panels > 1 {
				count = 1
			}
			var x *float32
			if op >= Bias {
				x = &aux[i*auxRow+j*auxCol]
			}
			f := kernels[rows-1]
			if panels > 1 {
				f(panels, k, len(segments), &segments[0].A, &a.Data[i*a.Row], 4*a.Row, 4*a.Col,
					&b.Data[j], 4*b.LD, &dst.Data[i*dst.LD+j], 4*dst.LD, x, alpha, int(op), mask,
					0, 4*width, 4*width, 4*width*auxCol)
			} else {
				f(count, k, len(segments), &segments[0].A, &a.Data[i*a.Row], 4*a.Row, 4*a.Col,
					&b.Data[j], 4*b.LD, &dst.Data[i*dst.LD+j], 4*dst.LD, x, alpha, int(op), mask,
					4*step*a.Row, 0, 4*step*dst.LD, 4*step*auxRow)
			}
			i += count * rows
		}
		j += panels * width
	}
}

func transposeAsm(dst, src Matrix, rows, cols int) {
	transpose8(&dst.Data[0], 4*dst.LD, &src.Data[0], 4*src.LD, rows/8, cols/8)
}

// lookupAsm takes a multiple of 16 elements.
func lookupAsm(c Class, dst []float32, src []byte, table *[256]float32) {
	if c == AVX512 {
		lookup512(&dst[0], &src[0], &table[0], len(dst)/16)
		return
	}
	lookup256(&dst[0], &src[0], &table[0], len(dst)/16)
}

// prefetchAsm asks for the lines from src's start on. It may ask for a line behind
// src, or miss the last: the processor ignores what it cannot have.
func prefetchAsm(src []byte) { prefetch(&src[0], (len(src)+63)/64) }

func softmaxAsm(c Class, z []float32, rows, w int, scale float32, top, sum *[Lanes]float32) {
	if c == AVX512 {
		softmax512(&z[0], rows, w/16, scale, &top[0], &sum[0])
		return
	}
	softmax256(&z[0], rows, w/8, scale, &top[0], &sum[0])
}

func rowSumsAsm(_ Class, dst, x []float32, op Op, alpha float32) {
	rowSums(&dst[0], &x[0], len(dst), alpha, op == Add)
}

// addExactAsm takes a multiple of 8 elements. It is false where one is refused.
func addExactAsm(c Class, dst []int64, w float64, x, base []float32) bool {
	if c == AVX512 {
		return addExact512(&dst[0], &x[0], &base[0], len(dst)/8, w)
	}
	return addExact256(&dst[0], &x[0], &base[0], len(dst)/8, w)
}

func gruForwardAsm(c Class, n int, in, state, h, saved []float32) {
	if c == AVX512 {
		gruForward512(n, &in[0], &state[0], &h[0], &saved[0])
		return
	}
	gruForward256(n, &in[0], &state[0], &h[0], &saved[0])
}

func gruBackwardAsm(c Class, n int, dh, saved, h, da []float32) {
	if c == AVX512 {
		gruBackward512(n, &dh[0], &saved[0], &h[0], &da[0])
		return
	}
	gruBackward256(n, &dh[0], &saved[0], &h[0], &da[0])
}

func maxPoolAsm(c Class, rows int, x, dst []float32, ld int, code []int32) {
	if c == AVX512 {
		maxPool512(rows, &x[0], rows*Lanes*4, &dst[0], 4*ld, &code[0])
		return
	}
	maxPool256(rows, &x[0], rows*Lanes*4, &dst[0], 4*ld, &code[0])
}

func maxUnpoolAsm(c Class, rows int, g []float32, ld int, code []int32, dst []float32, right, down int) {
	if c == AVX512 {
		maxUnpool512(rows, &g[0], 4*ld, &code[0], &dst[0], 4*right, 4*down)
		return
	}
	maxUnpool256(rows, &g[0], 4*ld, &code[0], &dst[0], 4*right, 4*down)
}

// Peak runs a loop of nothing but fused multiply-adds on registers and returns
// how many operations (two a multiply-add) that were: the speed of light that
// benchmarks stand beside. It is 0 for a class without such a loop.
func (c Class) Peak(turns int) float64 {
	const sums = 4 * 12 // gen/peak.go
	switch c {
	case AVX512:
		peak512(turns)
		return float64(turns) * sums * 16 * 2
	case AVX2:
		peak256(turns)
		return float64(turns) * sums * 8 * 2
	}
	return 0
}
