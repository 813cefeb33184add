package network

import "fmt"

func init() {
	Layers.Register("residual", "layers whose output is added to their input", ResidualLayer{})
}

// ResidualLayer is y = F(x) + x (He et al. 2016, Eq. 1). Where the list changes the shape
// of an image, x goes through a convolution of 1×1 (Eq. 2) with the least stride that makes
// the same height and width, which in a ResNet is the list's. Parameters are named as in a
// module with a Sequential "body" and a Conv2d "shortcut".
type ResidualLayer struct {
	Layers []Layer `key:"layers" is:"short" help:"what is added to the input"`
	Freezing
}

// Shape returns the shape of the list's outputs. It is an error if the input, or what a convolution
// of 1×1 makes of it, cannot be added to them.
func (l ResidualLayer) Shape(in Shape) (Shape, error) {
	output, err := outputShape(l.Layers, in)
	if err != nil {
		return in, err
	}
	if _, ok := l.Layers[len(l.Layers)-1].(FlattenLayer); ok ||
		output.Form != in.Form && !in.Unknown ||
		in.Form == Text {
		return in, fmt.Errorf("its layers make %v of %v, which cannot be added", output, in)
	}
	_, err = l.shortcut(in, output)
	return output, err
}

// shortcut returns the convolution of 1×1 that gives an input of shape in the shape of the output.
// It is nil where the shapes are equal, or not known yet. It is an error if no such convolution makes the
// one shape of the other.
func (l ResidualLayer) shortcut(in, output Shape) (*ConvLayer, error) {
	if in == output {
		return nil, nil
	}
	if in.Size() == 0 || output.Size() == 0 {
		// Shapes that are not known yet are checked when they are.
		return nil, nil
	}
	if in.Form != Image {
		return nil, fmt.Errorf(
			"its layers make %v of %v, which cannot be added (let the last one be as wide as the input)",
			output,
			in,
		)
	}
	// The stride follows from the sizes, and then must give exactly the output's.
	stride := max((in.Height+output.Height-1)/output.Height, (in.Width+output.Width-1)/output.Width)
	if windows(in.Height, 1, 0, stride) != output.Height || windows(in.Width, 1, 0, stride) != output.Width {
		return nil, fmt.Errorf("its layers make %v of %v, and a convolution of 1×1 does not (give its "+
			"convolutions a pad, and one stride)", output, in)
	}
	return &ConvLayer{Maps: output.Channels, Size: 1, Stride: stride}, nil
}

// Parameters returns the parameters of the list, and then those of the shortcut, with the prefixes
// body and shortcut before their names.
func (l ResidualLayer) Parameters(in Shape) (list []Parameter) {
	for _, p := range ParametersOf(l.Layers, in) {
		p.Name = "body." + p.Name
		list = append(list, p)
	}
	output, _ := outputShape(l.Layers, in)
	conv, _ := l.shortcut(in, output) // shapes that fit
	if conv == nil {
		return list
	}
	for _, p := range conv.Parameters(in) {
		p.Name = "shortcut." + p.Name
		list = append(list, p)
	}
	return list
}

// Stage makes the stages of the list and of the shortcut. The list's last layer writes where the
// sum will be, so that the input is added to it in place.
func (l ResidualLayer) Stage(place *Place) Stage {
	network := place.network
	s := &residualStage{Place: place}
	body := &Activation{Shape: place.Y.Shape, shadows: place.Y}
	network.activations = append(network.activations, body)
	s.body = network.makeStages(l.Layers, place.X, body, place.frozen, place.Gradient)
	conv, _ := l.shortcut(place.X.Shape, place.Y.Shape)
	if conv == nil {
		return s
	}
	// The gradient of the sum is also that of the shortcut's outputs.
	s.shortcutY = &Activation{Shape: place.Y.Shape, gradientOf: place.Y}
	network.activations = append(network.activations, s.shortcutY)
	shortcutPlace := &Place{
		X:        place.X,
		Y:        s.shortcutY,
		Gradient: place.Gradient,
		network:  network,
		frozen:   place.frozen,
	}
	stage := conv.Stage(shortcutPlace).(*convStage)
	// The list has written the gradient of the input first, so that of the shortcut is added.
	stage.addsGradient = true
	s.shortcut = network.addLink(stage, shortcutPlace, conv.Parameters(place.X.Shape))
	return s
}

// residualStage computes F(x) + x.
type residualStage struct {
	*Place
	// body holds the stages of the list, F.
	body []*link
	// shortcut is the convolution that brings the input to the shape of the output. If it is nil,
	// the input itself is added.
	shortcut *link
	// shortcutY holds the outputs of the shortcut. It is nil without one.
	shortcutY *Activation
}

// layOut prepares the stages within this one.
func (s *residualStage) layOut() {
	s.network.layOut(s.body)
	if s.shortcut != nil {
		s.network.layOut([]*link{s.shortcut})
	}
}

// Forward runs the list, and adds the input or what the shortcut makes of it, with a ReLU if one
// follows. It adds in runs: pieces that are contiguous memory in both activations, whose layouts may differ.
func (s *residualStage) Forward(pass *Pass) {
	s.network.forward(s.body, pass)
	activation := s.X
	if s.shortcut != nil {
		s.shortcut.forward(pass)
		activation = s.shortcutY
	}
	count, length := commonRuns(activation, s.Y)
	for i := range count {
		y := s.Y.run(pass, i, count, length)
		if s.Y.relu {
			s.network.isa.AddReLU(y, activation.run(pass, i, count, length))
		} else {
			s.network.isa.AddScaled(y, 1, activation.run(pass, i, count, length))
		}
	}
}

// Backward takes the gradient through the list, which writes the gradient of the input x, and then adds the part
// that comes by the shortcut.
func (s *residualStage) Backward(p *Pass) {
	s.network.backward(s.body, p)
	switch {
	case s.shortcut != nil:
		s.shortcut.backward(p)
	// Without a shortcut x itself was added, so it gets the gradient of the sum. Where no stage before needs a
	// gradient (Gradient is false), there is none.
	case s.Gradient:
		count, length := commonRuns(s.X, s.Y)
		for i := range count {
			s.network.isa.AddScaled(s.X.gradientRun(p, i, count, length), 1, s.Y.gradientRun(p, i, count, length))
		}
	}
}
