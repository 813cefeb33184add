package network

import (
	"fmt"

	"fedpace/learn/internal/kernel"
)

func init() {
	Layers.Register("gru", "gated recurrent units (PyTorch's GRU)", GRULayer{})
}

// GRULayer is one or more layers of gated recurrent units in PyTorch's form (two bias
// vectors, gates in the order r, z, n), each on the states of the one before.
type GRULayer struct {
	Width  int    `key:"width" is:"short" range:"[1,1048576]" help:"width of a layer's state"`
	Layers int    `key:"layers" default:"1" range:"[1,64]" help:"layers, each on the states before"`
	Output string `key:"output" default:"last" words:"last,all" help:"the last step's state, or all as a sequence"`
	Freezing
}

// String describes the layer in messages, behind its name.
func (l GRULayer) String() string { return fmt.Sprintf(": %d", l.Width) }

// Shape returns the last step's state as a vector or, if Output is all, the states of all steps as a
// sequence.
func (l GRULayer) Shape(in Shape) (Shape, error) {
	if err := in.require("; put embedding before it", Sequence); err != nil {
		return in, err
	}
	if l.Output == "all" {
		return Shape{
			Form:     Sequence,
			Height:   in.Height,
			Width:    1,
			Channels: l.Width,
		}, nil
	}
	return vector(l.Width), nil
}

// Parameters are PyTorch's four tensors for each of the stacked layers: the weights of the input
// and of the state, and a bias of each. All are drawn within ±1/sqrt(Width).
func (l GRULayer) Parameters(in Shape) (list []Parameter) {
	// All parameters of a GRU are drawn within the same bound, as in PyTorch.
	bound := fanIn(l.Width)
	for k := range l.Layers {
		width := in.Channels
		// Only the first layer reads the input; each other layer reads the states of the layer
		// below.
		if k > 0 {
			width = l.Width
		}
		for _, p := range []Parameter{
			{Name: "weight_ih", Shape: []int{3 * l.Width, width}, Init: bound},
			{Name: "weight_hh", Shape: []int{3 * l.Width, l.Width}, Init: bound},
			{Name: "bias_ih", Shape: []int{3 * l.Width}, Init: bound},
			{Name: "bias_hh", Shape: []int{3 * l.Width}, Init: bound},
		} {
			p.Name = fmt.Sprintf("%s_l%d", p.Name, k)
			list = append(list, p)
		}
	}
	return list
}

// groupSteps is the number of time steps that share one product of gradients with inputs. It saves as
// many passes over the weights' gradient.
const groupSteps = 4

// Stage allocates the arithmetic of the layer for one worker. The parameters of the stacked layers follow
// each other.
func (l GRULayer) Stage(place *Place) Stage {
	place.X.needRows = true
	stateSize := l.Width * Lanes
	length := place.X.Height
	stage := &gruStage{
		Place:    place,
		GRULayer: l,
		isa:      place.network.isa,
		length:   length,
		zero:     alignedFloats(stateSize),
		// Both have the sums of the three gates.
		inputShares: alignedFloats(3 * stateSize),
		stateShares: alignedFloats(3 * stateSize),
	}
	// The parameters of a layer follow each other in PyTorch's order: two weights, then two biases.
	offset := 0
	for k := range l.Layers {
		layer := gruLayer{
			inputs: place.X.Channels,
			saved:  alignedFloats(length * 5 * stateSize),
			rows:   alignedFloats((length + 1) * stateSize),
			da:     alignedFloats(groupSteps * 4 * stateSize),
			dh:     alignedFloats(stateSize),
		}
		// Layers above the first read the states of the layer below.
		if k > 0 {
			layer.inputs = l.Width
		}
		layer.wih = offset
		layer.whh = layer.wih + 3*l.Width*layer.inputs
		layer.bih = layer.whh + 3*l.Width*l.Width
		layer.bhh = layer.bih + 3*l.Width
		offset = layer.bhh + 3*l.Width
		stage.layers = append(stage.layers, layer)
	}
	return stage
}

// gruStage takes one block of samples at a time through all time steps and stacked layers.
type gruStage struct {
	*Place
	GRULayer
	isa kernel.ISA
	// length is the number of time steps.
	length int
	// layers are the stacked layers, the lowest first.
	layers []gruLayer
	// zero is the state before the first step.
	zero []float32
	// inputShares holds what the input adds to the sums of the gates, and stateShares what the state before the step
	// adds: each 3 × Width × Lanes values, for r, z and the candidate.
	inputShares, stateShares []float32
	// groups are the segments of the time steps that share one product.
	groups [groupSteps]kernel.Segment
	// shares are the segments of the product by which the gradient of a layer's input follows from those of the
	// three gates: A in the weight of the input, B in da.
	shares [3]kernel.Segment
}

// gruLayer is one of the stacked layers.
type gruLayer struct {
	// inputs is the number of values that the layer reads in one step, beside its own state.
	inputs int
	// wih, whh, bih and bhh are the offsets of the weights and biases of the input and of the
	// state.
	wih, whh, bih, bhh int
	// saved holds, for every time step, r, z, m, g and the new state (kernel.GRUForward).
	saved []float32
	// rows holds the states, one sample after the other. The state before step t is at t.
	rows []float32
	// da holds the gradients of groupSteps time steps, as kernel.GRUBackward takes them.
	da []float32
	// dh is the gradient of the state at the step under way.
	dh []float32
}

// output returns the state of the layer with this index after a time step, the last of the five vectors
// that saved has for each step. For step -1, before the first step, the state is zero.
func (s *gruStage) output(index, step int) []float32 {
	stateSize := s.Width * Lanes
	if step < 0 {
		return s.zero
	}
	return s.layers[index].saved[(5*step+4)*stateSize:][:stateSize]
}

// Forward computes step by step, and within a step layer by layer: the input's and the state's shares
// of the gates (one product each), and the gates and the new state from them. A state is Width × Lanes values, and
// layer.saved has five vectors of that size for each step, of which the last is the new state.
func (s *gruStage) Forward(pass *Pass) {
	isa := s.isa
	params := pass.Parameters
	samples := pass.Samples
	stateSize := s.Width * Lanes
	inputChannels := s.X.Channels
	inputs := s.X.values(pass)
	output := s.Y.values(pass)
	for step := range s.length {
		input := inputs[step*inputChannels*Lanes:][:inputChannels*Lanes]
		for index := range s.layers {
			layer := &s.layers[index]
			// The layer's own state after the step before is its second input.
			before := s.output(index, step-1)
			isa.Gemm(
				3*s.Width,
				isa.Columns(samples),
				layer.inputs,
				kernel.Operand{Data: params[layer.wih:], Row: layer.inputs, Col: 1},
				kernel.Block(input),
				kernel.Block(s.inputShares),
				kernel.Bias,
				params[layer.bih:],
				0,
			)
			isa.Gemm(
				3*s.Width,
				isa.Columns(samples),
				s.Width,
				kernel.Operand{Data: params[layer.whh:], Row: s.Width, Col: 1},
				kernel.Block(before),
				kernel.Block(s.stateShares),
				kernel.Bias,
				params[layer.bhh:],
				0,
			)
			isa.GRUForward(
				stateSize,
				s.inputShares,
				s.stateShares,
				before,
				layer.saved[5*step*stateSize:][:5*stateSize],
			)
			input = s.output(index, step)
			// Only the way back reads the states sample by sample.
			if pass.Training {
				isa.Transpose(
					kernel.Matrix{Data: layer.rows[(step+1)*stateSize:], LD: s.Width},
					kernel.Block(input),
					s.Width,
					samples,
				)
			}
		}
		if s.Y.Form == Sequence {
			copy(output[step*stateSize:], input)
		}
	}
	// The output is the top layer's state after the last step.
	if s.Y.Form == Vector {
		copy(output, s.output(len(s.layers)-1, s.length-1))
	}
}

// Backward goes through the steps from the last to the first (backpropagation through time). The
// gradients of the gates of groupSteps steps are collected before they are multiplied into that of the
// weights. A part is Width × Lanes values. For each step, da has four parts: the gradients of the sums in the gates r
// and z, of the state's share of the candidate, and of the input's share of it. The state's shares are thereby parts 0
// to 2, and the input's parts 0, 1 and 3.
func (s *gruStage) Backward(pass *Pass) {
	isa := s.isa
	s.X.transpose(pass, isa)
	stateSize := s.Width * Lanes
	top := len(s.layers) - 1
	// No gradient reaches the last step from a later one.
	for index := range s.layers {
		clear(s.layers[index].dh)
	}
	dy := s.Y.gradient(pass)
	if s.Y.Form == Vector {
		copy(s.layers[top].dh, dy)
	}

	for step := s.length - 1; step >= 0; step-- {
		// If the states of all steps are outputs, each step has a gradient of its own to add.
		if s.Y.Form == Sequence {
			isa.AddScaled(s.layers[top].dh, 1, dy[step*stateSize:][:stateSize])
		}
		for index := top; index >= 0; index-- {
			s.stepBackward(pass, index, step)
		}
		// Steps go backwards, so the first of groupSteps neighbouring steps completes their group.
		if step%groupSteps == 0 {
			s.addWeightGradient(pass, step, min(groupSteps, s.length-step))
		}
	}
}

// stepBackward goes back through one time step of the layer with this index. layer.dh has the gradient of the state
// after the step, which becomes that of the state before it. The gradients of the gates are left in layer.da, in the
// place of the step within its group, and added to those of the biases. The gradient of the layer's input is added to
// that of the state of the layer below, or stored for the stage before.
func (s *gruStage) stepBackward(pass *Pass, index, step int) {
	isa := s.isa
	columns := isa.Columns(pass.Samples)
	stateSize := s.Width * Lanes
	layer := &s.layers[index]
	// da has four parts of a state's size: the gradients of r, z, and the state's and the input's share of the
	// candidate.
	da := layer.da[step%groupSteps*4*stateSize:][:4*stateSize]
	isa.GRUBackward(
		stateSize,
		layer.dh,
		layer.saved[5*step*stateSize:][:4*stateSize],
		s.output(index, step-1),
		da,
	)
	// The state before the first step is constant, so its gradient is of no use.
	if step > 0 {
		stateWeight := kernel.Operand{Data: pass.Parameters[layer.whh:], Row: 1, Col: s.Width}
		isa.Gemm(s.Width, columns, 3*s.Width, stateWeight, kernel.Block(da), kernel.Block(layer.dh), kernel.Add, nil, 1)
	}
	// The gradients of the input's shares are parts 0, 1 and 3 of da. Each is multiplied with the rows of its
	// gate in the weight of the input.
	shares := s.shares[:]
	shares[1] = kernel.Segment{A: s.Width * layer.inputs, B: stateSize}
	shares[2] = kernel.Segment{A: 2 * s.Width * layer.inputs, B: 3 * stateSize}
	inputWeight := kernel.Operand{Data: pass.Parameters[layer.wih:], Row: 1, Col: layer.inputs}
	switch {
	case index > 0:
		below := kernel.Block(s.layers[index-1].dh)
		isa.GemmSum(layer.inputs, columns, s.Width, shares, inputWeight, kernel.Block(da), below, kernel.Add, nil, 1)
	case s.Gradient:
		dx := kernel.Block(s.X.gradient(pass)[step*layer.inputs*Lanes:])
		isa.GemmSum(layer.inputs, columns, s.Width, shares, inputWeight, kernel.Block(da), dx, kernel.Store, nil, 0)
	}
	gradient := pass.Gradient
	isa.AddRowSums(gradient[layer.bih:][:2*s.Width], da, pass.Samples, kernel.Add, 1)
	isa.AddRowSums(gradient[layer.bih+2*s.Width:][:s.Width], da[3*stateSize:], pass.Samples, kernel.Add, 1)
	isa.AddRowSums(gradient[layer.bhh:][:3*s.Width], da, pass.Samples, kernel.Add, 1)
}

// addWeightGradient adds to the weights' gradient the products of the gates' gradients with the inputs and
// states that the gates have read, for this number of time steps from firstStep on. Inputs and states are read sample
// by sample: a row for each sample of a step, Lanes rows for a step. da holds the gates' gradients of a group of
// neighbouring time steps, from firstStep on: for each step the parts of r, of z, and of the state's and the input's
// share of the candidate (see [gruStage.Backward]).
func (s *gruStage) addWeightGradient(pass *Pass, firstStep, steps int) {
	isa := s.isa
	gradient := pass.Gradient
	samples := pass.Samples
	stateSize := s.Width * Lanes
	inputChannels := s.X.Channels
	for index := range s.layers {
		layer := &s.layers[index]
		input := s.X.rows[firstStep*Lanes*inputChannels:]
		width := Lanes * inputChannels
		// The input of an upper layer is the state of the layer below after the same step.
		if index > 0 {
			input = s.layers[index-1].rows[(firstStep+1)*stateSize:]
			width = stateSize
		}
		// A group's products are a sum over its steps, one segment for each: A is where a step's gradients
		// begin in da, and B where its inputs do.
		groups := s.groups[:steps]
		for i := range groups {
			groups[i] = kernel.Segment{A: i * 4 * stateSize, B: i * width}
		}
		inputs := kernel.Matrix{Data: input, LD: layer.inputs}
		// The input's shares are parts 0, 1 and 3 of da, so they take two products: that of parts 0 and 1 for the first
		// rows of the weight, and that of part 3 for the last ones.
		for _, part := range [2]struct{ row, gradient, rows int }{
			{0, 0, 2 * s.Width},
			{2 * s.Width, 3 * stateSize, s.Width},
		} {
			isa.GemmSum(
				part.rows,
				layer.inputs,
				samples,
				groups,
				kernel.Operand{Data: layer.da[part.gradient:], Row: Lanes, Col: 1},
				inputs,
				kernel.Matrix{Data: gradient[layer.wih+part.row*layer.inputs:], LD: layer.inputs},
				kernel.Add,
				nil,
				1,
			)
		}
		// The state before the first step is zero: its product adds nothing.
		for i := range groups {
			groups[i].B = i * stateSize
		}
		rows := layer.rows[firstStep*stateSize:]
		if firstStep == 0 {
			groups = groups[1:]
		}
		if len(groups) > 0 {
			isa.GemmSum(3*s.Width, s.Width, samples, groups, kernel.Operand{Data: layer.da, Row: Lanes, Col: 1},
				kernel.Matrix{
					Data: rows,
					LD:   s.Width,
				}, kernel.Matrix{Data: gradient[layer.whh:], LD: s.Width}, kernel.Add, nil, 1)
		}
	}
}
