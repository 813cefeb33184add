package network

func init() {
	Layers.Register("flatten", "all values as one vector", FlattenLayer{})
}

// FlattenLayer makes a vector. It computes nothing: what comes before it writes the values
// where the vector wants them.
type FlattenLayer struct{}

// Shape returns a vector of all values.
func (FlattenLayer) Shape(in Shape) (Shape, error) {
	err := in.require("", Image, Sequence, Vector)
	return vector(in.Size()), err
}

// Parameters implements [Layer]: the layer has none.
func (FlattenLayer) Parameters(Shape) []Parameter { return nil }

// Stage is nil: the network gives the values' memory a second shape in its place.
func (FlattenLayer) Stage(*Place) Stage { return nil }
