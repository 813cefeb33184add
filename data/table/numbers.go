package table

import (
	"slices"

	"fedpace/data/federated"
)

// numbers are the values of features or targets, row by row. They are held as float32, as models
// take them, or as float64 where they are to be scaled first: times since 1970 differ in places that
// float32 does not have.
type numbers struct {
	// precise says that values are kept in double precision; otherwise they are in single
	// precision.
	precise bool
	single  []float32
	double  []float64
}

// len is how many values there are.
func (n *numbers) len() int { return len(n.single) + len(n.double) }

// reserve makes room for count values more, which append fills.
func (n *numbers) reserve(count int) {
	if n.precise {
		n.double = slices.Grow(n.double, count)
	} else {
		n.single = slices.Grow(n.single, count)
	}
}

// extend adds count values, which set fills.
func (n *numbers) extend(count int) {
	if n.precise {
		n.double = federated.Grow(n.double, count)
	} else {
		n.single = federated.Grow(n.single, count)
	}
}

// append adds a value.
func (n *numbers) append(x float64) {
	if n.precise {
		n.double = append(n.double, x)
	} else {
		n.single = append(n.single, float32(x))
	}
}

// set changes value i, which is there already. Different values may be set at the same time.
func (n *numbers) set(i int, x float64) {
	if n.precise {
		n.double[i] = x
	} else {
		n.single[i] = float32(x)
	}
}

// cut drops the values from the count-th on, which belong to rows that were only announced.
func (n *numbers) cut(count int) {
	if n.precise {
		n.double = n.double[:count]
	} else {
		n.single = n.single[:count]
	}
}

// spread gives each row, of which places says where among the values its own begin, width values in
// the order of the rows. A row at place -1 has the placeholder.
func (n *numbers) spread(width int, places []int32, placeholder float64) {
	if n.precise {
		n.double = spread(n.double, width, places, placeholder)
	} else {
		n.single = spread(n.single, width, places, float32(placeholder))
	}
}

// permute puts the width values of each row into another order.
func (n *numbers) permute(width int, order []int) {
	for row := range slices.Chunk(n.single, width) {
		copy(row, permuted(row, order))
	}
	for row := range slices.Chunk(n.double, width) {
		copy(row, permuted(row, order))
	}
}

// rounded are the values, which were kept in double precision, as models take them.
func (n *numbers) rounded() []float32 {
	values := make([]float32, len(n.double))
	for i, x := range n.double {
		values[i] = float32(x)
	}
	return values
}

// standardised are the values with the mean of their feature taken off, divided by its deviation.
func (n *numbers) standardised(mean, deviation []float64) []float32 {
	scaled := make([]float32, len(n.double))
	for i, x := range n.double {
		j := i % len(mean)
		scaled[i] = float32((x - mean[j]) / deviation[j])
	}
	return scaled
}
