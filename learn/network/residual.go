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

func (l ResidualLayer) Shape(in Shape) (Shape, error) {
	out, err := shapes(l.Layers, in)
	if err != nil {
		return in, err
	}
	if _, ok := l.Layers[len(l.Layers)-1].(FlattenLayer); ok ||
		out.Form != in.Form && !in.Unknown ||
		in.Form == Text {
		return in, fmt.Errorf("its layers make %v of %v, which cannot be added", out, in)
	}
	_, err = l.shortcut(in, out)
	return out, err
}

// shortcut is the convolution of the input, nil where none is needed.
func (l ResidualLayer) shortcut(in, out Shape) (*ConvLayer, error) {
	if in == out {
		return nil, nil
	}
	if in.Size() == 0 || out.Size() == 0 {
		return nil, nil // not known yet
	}
	if in.Form != Image {
		return nil, fmt.Errorf(
			"its layers make %v of %v, which cannot be added (let the last one be as wide as the input)",
			out,
			in,
		)
	}
	stride := max((in.Height+out.Height-1)/out.Height, (in.Width+out.Width-1)/out.Width)
	if windows(in.Height, 1, 0, stride) != out.Height || windows(in.Width, 1, 0, stride) != out.Width {
		return nil, fmt.Errorf("its layers make %v of %v, and a convolution of 1×1 does not (give its convolutions a pad, and one stride)", out, in)
	}
	return &ConvLayer{Maps: out.Channels, Size: 1, Stride: stride}, nil
}

func (l ResidualLayer) Parameters(in Shape) (list []Parameter) {
	for _, p := range ParametersOf(l.Layers, in) {
		p.Name = "body." + p.Name
		list = append(list, p)
	}
	out, _ := shapes(l.Layers, in)
	conv, _ := l.shortcut(in, out) // shapes that fit
	if conv == nil {
		return list
	}
	for _, p := range conv.Parameters(in) {
		p.Name = "shortcut." + p.Name
		list = append(list, p)
	}
	return list
}

// Stage lets the last layer of the list write where the sum will be.
func (l ResidualLayer) Stage(at *Place) Stage {
	n := at.network
	s := &residualStage{Place: at}
	body := &Activation{Shape: at.Y.Shape, shadows: at.Y}
	n.activations = append(n.activations, body)
	s.body = n.chain(l.Layers, at.X, body, at.frozen, at.Gradient)
	conv, _ := l.shortcut(at.X.Shape, at.Y.Shape)
	if conv == nil {
		return s
	}
	s.other = &Activation{Shape: at.Y.Shape, gradientOf: at.Y}
	n.activations = append(n.activations, s.other)
	place := &Place{
		X:        at.X,
		Y:        s.other,
		Gradient: at.Gradient,
		network:  n,
		frozen:   at.frozen,
	}
	stage := conv.Stage(place).(*convStage)
	stage.add = true
	s.shortcut = n.link(stage, place, conv.Parameters(at.X.Shape))
	return s
}

type residualStage struct {
	*Place
	body     []*link
	shortcut *link       // nil: the input itself is added
	other    *Activation // what the shortcut makes
}

func (s *residualStage) lay() {
	s.network.lay(s.body)
	if s.shortcut != nil {
		s.network.lay([]*link{s.shortcut})
	}
}

func (s *residualStage) Forward(p *Pass) {
	s.network.forward(s.body, p)
	x := s.X
	if s.shortcut != nil {
		s.shortcut.forward(p)
		x = s.other
	}
	count, length := runs(x, s.Y)
	for i := range count {
		y := s.Y.run(p, i, count, length)
		if s.Y.relu {
			s.network.isa.AddReLU(y, x.run(p, i, count, length))
		} else {
			s.network.isa.AddScaled(y, 1, x.run(p, i, count, length))
		}
	}
}

func (s *residualStage) Backward(p *Pass) {
	s.network.backward(s.body, p)
	switch {
	case s.shortcut != nil:
		s.shortcut.backward(p)
	case s.Gradient:
		count, length := runs(s.X, s.Y)
		for i := range count {
			s.network.isa.AddScaled(s.X.gradientRun(p, i, count, length), 1, s.Y.gradientRun(p, i, count, length))
		}
	}
}
