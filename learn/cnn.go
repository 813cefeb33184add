package learn

import (
	"fmt"

	"fedpace/learn/network"
)

func init() {
	Models.Register("cnn", "two convolutions with pooling, two dense layers", CNN{})
}

// CNN is two 3×3 convolutions, each with ReLU and 2×2 max pooling, a dense layer
// and the classes (CIFAR-100's is 3x32x32,32,64,512,100).
type CNN struct {
	Image   []int `key:"image" range:"[1,1048576]" help:"channels, height and width of a sample"`
	Maps    []int `key:"maps" range:"[1,1048576]" help:"channels of the two convolutions"`
	Hidden  int   `key:"hidden" range:"[1,1048576]" help:"width of the dense layer"`
	Classes int   `key:"classes" range:"[2,1048576]" help:"classes"`
}

// Model makes the model with the sizes that its options give: two convolutions of 3×3, each with a
// ReLU and a pooling, and two dense layers. The samples that it is given are not looked at.
func (a CNN) Model(Samples) (Model, error) {
	if len(a.Image) != 3 || len(a.Maps) != 2 {
		return nil, fmt.Errorf(
			"an image of %d sizes and %d convolutions, want 3 (channels, height, width) and 2",
			len(a.Image),
			len(a.Maps),
		)
	}
	image := [3]int(a.Image)
	samples := Samples{
		Input:    Dense,
		Features: int(network.Product(a.Image...)),
		Classes:  a.Classes,
		Image:    image,
	}
	return sequential(NameOf(a), samples, []network.Layer{
		network.ConvLayer{Maps: a.Maps[0], Size: 3, Stride: 1},
		network.ReLULayer{},
		network.PoolLayer{Size: 2},
		network.ConvLayer{Maps: a.Maps[1], Size: 3, Stride: 1},
		network.ReLULayer{},
		network.PoolLayer{Size: 2},
		network.FlattenLayer{},
		network.DenseLayer{Width: a.Hidden},
		network.ReLULayer{},
		network.DenseLayer{Width: a.Classes},
	})
}
