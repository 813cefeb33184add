package learn

import (
	"fmt"
	"math"

	"fedpace/internal/keyed"
)

// layout is what every model shares: its name and the parts of its parameters.
type layout struct {
	spec    string
	tensors []Tensor
	bounds  []float64 // of each tensor's uniform initial values
	params  int
}

// add appends a tensor that starts uniform on ±bound.
func (l *layout) add(name string, bound float64, shape ...int) {
	t := Tensor{Name: name, Shape: shape, Offset: l.params}
	l.tensors = append(l.tensors, t)
	l.bounds = append(l.bounds, bound)
	l.params += t.Len()
}

func (l *layout) String() string    { return l.spec }
func (l *layout) Params() int       { return l.params }
func (l *layout) Tensors() []Tensor { return l.tensors }

// Init draws every tensor from its own stream.
func (l *layout) Init(params []float32, seed uint64) {
	l.check(params)
	for i, t := range l.tensors {
		r := keyed.New(seed, keyed.Weights, uint64(i))
		part := params[t.Offset : t.Offset+t.Len()]
		for j := range part {
			part[j] = float32((2*r.Float64() - 1) * l.bounds[i])
		}
	}
}

// check panics on parameters of another model, a programmer's error.
func (l *layout) check(params []float32) {
	if len(params) != l.params {
		panic(fmt.Sprintf("learn: %d parameters given to %s, which has %d", len(params), l.spec, l.params))
	}
}

// fanIn is the bound of PyTorch's default for linear and convolution layers.
func fanIn(n int) float64 { return 1 / math.Sqrt(float64(n)) }
