package learn

import (
	"fmt"

	"fedpace/actors/learn/network"
)

func init() {
	Models.Register("cnn", "two convolutions with pooling and two dense layers, on images", CNN{})
}

// CNN is two 3×3 convolutions, each with ReLU and 2×2 max pooling, a dense layer
// and the classes (CIFAR-100's is 3x32x32,32,64,512,100).
type CNN struct {
	Image   []int `key:"image" range:"[1,1048576]" help:"channels, height and width of a sample"`
	Maps    []int `key:"maps" range:"[1,1048576]" help:"channels of the two convolutions"`
	Hidden  int   `key:"hidden" range:"[1,1048576]" help:"width of the dense layer"`
	Classes int   `key:"classes" range:"[2,1048576]" help:"labels"`
}

// pooled is what a convolution and a pooling leave of n.
func pooled(n int) int { return (n - 2) / 2 }

func (a CNN) Model(Samples) (Model, error) {
	if len(a.Image) != 3 || len(a.Maps) != 2 {
		return nil, fmt.Errorf("an image of %d sizes and %d convolutions, want 3 (channels, height, width) and 2", len(a.Image), len(a.Maps))
	}
	c, h, w := a.Image[0], a.Image[1], a.Image[2]
	y, x := pooled(pooled(h)), pooled(pooled(w))
	switch {
	case y < 1 || x < 1:
		return nil, fmt.Errorf("an image of %d×%d leaves nothing after two convolutions and poolings; at least 10×10", h, w)
	case network.Product(c, h, w) > maxWidth:
		return nil, fmt.Errorf("an image of more than %d values", maxWidth)
	}
	params := network.Product(9, c+a.Maps[1], a.Maps[0]) + network.Product(a.Maps[1], y*x, a.Hidden) + network.Product(a.Hidden, a.Classes)
	if err := checkSizes(params, a.Classes, c, h, w, a.Maps[0], a.Maps[1], a.Hidden, a.Classes); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("cnn:%dx%dx%d,%d,%d,%d,%d", c, h, w, a.Maps[0], a.Maps[1], a.Hidden, a.Classes)
	samples := Samples{Input: Dense, Features: c * h * w, Classes: a.Classes, Image: [3]int{c, h, w}}
	return sequential(a, spec, samples, []network.Layer{
		network.ConvLayer{Maps: a.Maps[0], Size: 3, Stride: 1}, network.ReLULayer{}, network.PoolLayer{Size: 2},
		network.ConvLayer{Maps: a.Maps[1], Size: 3, Stride: 1}, network.ReLULayer{}, network.PoolLayer{Size: 2},
		network.FlattenLayer{}, network.DenseLayer{Width: a.Hidden}, network.ReLULayer{}, network.DenseLayer{Width: a.Classes},
	}), nil
}

func (CNN) Parse(sizes string) (Architecture, error) {
	var n [7]int
	err := scan(sizes, "an image's CHANNELSxHEIGHTxWIDTH,CHANNELS,CHANNELS,HIDDEN,CLASSES", &n)
	return CNN{n[:3], n[3:5], n[5], n[6]}, err
}
