package table

import (
	"slices"

	"fedpace/data/federated"
)

// numberRun are numbers of a column that a file hands out at once. All are finite as float32, and none is
// missing. They are valid only during the call.
type numberRun struct {
	// row is the table's row of the first number.
	row int
	// values are the numbers.
	values []float64
	// inOneRow says that all numbers belong to that row: they are its list, or continue it. Otherwise each
	// number has a row of its own.
	inOneRow bool
	// isInteger says that the column's type is one of integers.
	isInteger bool
	// isSingle says that the column's type is float32, so that rounding to it loses nothing.
	isSingle bool
}

// numbers are the values of features or targets, row by row. They are held as float32, as models
// take them, or as float64 where they are to be scaled first: times since 1970 differ in places that
// float32 does not have.
type numbers struct {
	// precise says that values are kept in double precision; otherwise they are in single
	// precision.
	precise bool
	// single holds the values in single precision; nil if precise is set.
	single []float32
	// double holds the values in double precision; nil unless precise is set.
	double []float64
}

// len returns the number of values. Only one of the two slices is in use.
func (n *numbers) len() int { return len(n.single) + len(n.double) }

// reserve makes room for count further values without adding them. Afterwards append adds that many
// without an allocation.
func (n *numbers) reserve(count int) {
	if n.precise {
		n.double = slices.Grow(n.double, count)
	} else {
		n.single = slices.Grow(n.single, count)
	}
}

// extend adds count values, which set fills later in any order. Until then their values do not
// matter.
func (n *numbers) extend(count int) {
	if n.precise {
		n.double = federated.Grow(n.double, count)
	} else {
		n.single = federated.Grow(n.single, count)
	}
}

// append adds the value x at the end. It is rounded to float32 unless the values are kept in double
// precision.
func (n *numbers) append(x float64) {
	if n.precise {
		n.double = append(n.double, x)
	} else {
		n.single = append(n.single, float32(x))
	}
}

// appendRun adds the numbers of a run at the end, rounded like those of append.
func (n *numbers) appendRun(run *numberRun) {
	if n.precise {
		n.double = append(n.double, run.values...)
		return
	}
	n.single = slices.Grow(n.single, len(run.values))
	for _, x := range run.values {
		n.single = append(n.single, float32(x))
	}
}

// setColumn changes the numbers at first, first+step, first+2*step and so on, which must exist, to values.
func (n *numbers) setColumn(first, step int, values []float64) {
	i := first
	if n.precise {
		for _, x := range values {
			n.double[i] = x
			i += step
		}
		return
	}
	for _, x := range values {
		n.single[i] = float32(x)
		i += step
	}
}

// set changes value i, which must exist. Different values may be set by different goroutines at the
// same time.
func (n *numbers) set(i int, x float64) {
	if n.precise {
		n.double[i] = x
	} else {
		n.single[i] = float32(x)
	}
}

// cut keeps the first count values and drops the rest, for which a file announced rows that it does
// not have.
func (n *numbers) cut(count int) {
	if n.precise {
		n.double = n.double[:count]
	} else {
		n.single = n.single[:count]
	}
}

// spread moves the values to the rows that they belong to, width values for each row. vectorOf has
// for each row the number of its vector of values, or -1 for a row without one, which is filled with
// hole.
func (n *numbers) spread(width int, vectorOf []int32, hole float64) {
	if n.precise {
		n.double = spread(n.double, width, vectorOf, hole)
	} else {
		n.single = spread(n.single, width, vectorOf, float32(hole))
	}
}

// permute reorders the width values of each row: position i receives the value that was at position
// order[i].
func (n *numbers) permute(width int, order []int) {
	for row := range slices.Chunk(n.single, width) {
		copy(row, permuted(row, order))
	}
	for row := range slices.Chunk(n.double, width) {
		copy(row, permuted(row, order))
	}
}

// rounded returns the values as float32, as models take them. The values must have been kept in
// double precision.
func (n *numbers) rounded() []float32 {
	values := make([]float32, len(n.double))
	for i, x := range n.double {
		values[i] = float32(x)
	}
	return values
}

// standardised returns (x - mean) / deviation for each value x, with the mean and the deviation of
// its feature. The values must have been kept in double precision; mean and deviation have one
// number for each feature.
func (n *numbers) standardised(mean, deviation []float64) []float32 {
	scaled := make([]float32, len(n.double))
	for i, x := range n.double {
		j := i % len(mean)
		scaled[i] = float32((x - mean[j]) / deviation[j])
	}
	return scaled
}
