package kernel

import "math"

const (
	// exactUnit is the unit of exact sums: an addend of 1 counts this much.
	exactUnit = 1 << 44
	// limit is the smallest difference that an exact sum refuses.
	limit = 1 << 17
)

// AddExact adds roundToEven(2^44·w·(x[i]-base[i])) to each dst[i], and returns the
// first i whose difference is not below 2^17 in magnitude, or -1.
func (isa ISA) AddExact(dst []int64, w float64, x, base []float32) int {
	const reset = false
	return isa.addExact(dst, w, x, base, reset)
}

// AddExactAndReset adds as AddExact does, and copies base to x up to the first
// refused element: x and base are read from memory once for both.
func (isa ISA) AddExactAndReset(dst []int64, w float64, x, base []float32) int {
	const reset = true
	return isa.addExact(dst, w, x, base, reset)
}

// addExact adds w times the differences x − base to the fixed-point sums dst, up to the first difference
// that is too large or not a number. It returns the index of that element, or -1 if all were added. With
// reset, base is copied to x as far as elements were added. Assembly handles groups of 16 elements, and
// stops before a group with a difference that may be too large for its rounding; plain Go then handles that
// group, or refuses an element of it.
func (isa ISA) addExact(dst []int64, w float64, x, base []float32, reset bool) int {
	if len(x) != len(dst) || len(base) != len(dst) || !(w >= -1 && w <= 1) {
		panic("kernel: AddExact of slices of different lengths, or with a weight outside -1 to 1")
	}
	// The sums count units of 1/exactUnit.
	w *= exactUnit
	v := isa.vectors()
	// Everything before i was added.
	for i := 0; i < len(dst); {
		end := len(dst)
		if groups := (end - i) / 16; v != nil && groups > 0 {
			add := v.addExact
			if reset {
				add = v.addExactAndReset
			}
			// The assembly returns the number of groups that it left.
			i += 16 * (groups - add(&dst[i], &x[i], &base[i], groups, w))
			end = min(i+16, end)
		}
		// Plain Go adds the group that the assembly refused, or the last elements, which are no
		// full group.
		added := addExactGo(dst[i:end], w, x[i:end], base[i:end])
		if reset {
			copy(x[i:i+added], base[i:])
		}
		i += added
		// Plain Go has stopped at an element that is refused.
		if i < end {
			return i
		}
	}
	return -1
}

// addExactGo adds w times the differences x − base, rounded to integers, to dst. It stops before
// the first difference that is too large or not a number, and returns the number of elements that
// it added.
func addExactGo(dst []int64, w float64, x, base []float32) int {
	for i := range dst {
		d := float64(x[i]) - float64(base[i])
		// The comparison is negated so that it also refuses a NaN.
		if !(d < limit && d > -limit) {
			return i
		}
		dst[i] += int64(math.RoundToEven(float64(w * d)))
	}
	return len(dst)
}

// Sums are the values of an exact sum in rows, LD values apart.
type Sums struct {
	Data []int64
	LD   int
}

// AddTransposed adds the transpose of the rows×cols sums src to dst, which must not overlap with src, and clears
// them in src.
func (isa ISA) AddTransposed(dst, src Sums, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	// Assembly checks no bounds, so the last element of both is checked here.
	_ = src.Data[(rows-1)*src.LD+cols-1]
	_ = dst.Data[(cols-1)*dst.LD+rows-1]
	// Assembly takes the first wholeRows of the first wholeCols, and plain Go all others.
	wholeRows := 0
	wholeCols := 0
	if v := isa.vectors(); v != nil && rows >= 4 {
		wholeRows = rows &^ 3
		wholeCols = cols &^ 7
		for c := 0; c < wholeCols; c += 8 {
			v.addTransposed(&dst.Data[c*dst.LD], 8*dst.LD, &src.Data[c], 8*src.LD, wholeRows/4)
		}
	}
	addTransposedGo(dst, src, span{wholeRows, rows}, span{0, cols})
	addTransposedGo(dst, src, span{0, wholeRows}, span{wholeCols, cols})
}

// span is a range of places: start is in it, end is not.
type span struct{ start, end int }

// addTransposedGo is AddTransposed for some rows and columns of src, in plain Go. It goes down strips of columns
// that are a cache line wide, so that lines are read and written whole.
func addTransposedGo(dst, src Sums, rows, cols span) {
	const strip = 64 / 8
	for first := cols.start; first < cols.end; first += strip {
		end := min(first+strip, cols.end)
		for r := rows.start; r < rows.end; r++ {
			row := src.Data[r*src.LD:]
			for c := first; c < end; c++ {
				dst.Data[c*dst.LD+r] += row[c]
				row[c] = 0
			}
		}
	}
}
