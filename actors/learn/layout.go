package learn

import (
	"fmt"
	"math"

	"fedpace/actors/learn/internal/kernel"
	"fedpace/internal/keyed"
)

// layout is what every model shares: its name, its sizes, the parts of its
// parameters, and how its workspaces calculate.
type layout struct {
	spec              string
	input             Input
	features, classes int
	tensors           []Tensor
	bounds            []float64 // of each tensor's uniform initial values
	params            int
	arithmetic        func(maxBatch int, c kernel.Class) arithmetic
}

// add appends a tensor that starts uniform on ±bound.
func (l *layout) add(name string, bound float64, shape ...int) {
	t := Tensor{Name: name, Shape: shape, Offset: l.params}
	l.tensors = append(l.tensors, t)
	l.bounds = append(l.bounds, bound)
	l.params += t.Len()
}

// fanIn is the bound of PyTorch's default for linear and convolution layers.
func fanIn(n int) float64 { return 1 / math.Sqrt(float64(n)) }

func (l *layout) String() string    { return l.spec }
func (l *layout) Params() int       { return l.params }
func (l *layout) Tensors() []Tensor { return l.tensors }
func (l *layout) Input() Input      { return l.input }
func (l *layout) Features() int     { return l.features }
func (l *layout) Classes() int      { return l.classes }

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

func (l *layout) NewWorkspace(maxBatch int) Workspace { return l.workspace(maxBatch, class()) }

func (l *layout) workspace(maxBatch int, c kernel.Class) Workspace {
	return &workspace{layout: l, max: maxBatch, arithmetic: l.arithmetic(maxBatch, c)}
}

// check panics on parameters of another model, a programmer's error.
func (l *layout) check(params []float32) {
	if len(params) != l.params {
		panic(fmt.Sprintf("learn: %d parameters given to %s, which has %d", len(params), l.spec, l.params))
	}
}
