package kernel

import "math"

const (
	one   = 1 << 44 // the unit of exact sums: an addend of 1
	limit = 1 << 17 // the first difference that an exact sum refuses
)

// AddExact adds roundToEven(2^44·w·(x[i]-base[i])) to each dst[i], and returns the
// first i whose difference is not below 2^17 in magnitude, or -1.
func (isa ISA) AddExact(dst []int64, w float64, x, base []float32) int {
	if len(x) != len(dst) || len(base) != len(dst) || !(w >= -1 && w <= 1) {
		panic("kernel: AddExact of slices of different lengths, or with a weight outside -1 to 1")
	}
	from := 0
	// Where some difference is refused, the loop below finds it.
	if v := isa.vectors(); v != nil && len(dst) >= 8 && v.addExact(&dst[0], &x[0], &base[0], len(dst)/8, w*one) {
		from = len(dst) &^ 7
	}
	w *= one
	for i := from; i < len(dst); i++ {
		d := float64(x[i]) - float64(base[i])
		if !(d < limit && d > -limit) {
			return i
		}
		dst[i] += int64(math.RoundToEven(float64(w * d)))
	}
	return -1
}

// AddExactAndReset adds as AddExact does, and copies base to x up to the first
// refused element. x and base are read from memory once for both: the pieces stay
// in the first-level cache, and are too short for a copy by string instructions.
func (isa ISA) AddExactAndReset(dst []int64, w float64, x, base []float32) int {
	if len(x) != len(dst) || len(base) != len(dst) {
		panic("kernel: AddExactAndReset of slices of different lengths")
	}
	const piece = 256
	for from := 0; from < len(dst); from += piece {
		to := min(from+piece, len(dst))
		if bad := isa.AddExact(dst[from:to], w, x[from:to], base[from:to]); bad >= 0 {
			copy(x[from:from+bad], base[from:])
			return from + bad
		}
		copy(x[from:to], base[from:to])
	}
	return -1
}
