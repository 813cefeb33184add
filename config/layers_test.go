package config

import (
	"reflect"
	"strings"
	"testing"

	"fedpace/learn"
	"fedpace/learn/network"
)

// A list of layers is read in every form that YAML has for it, and written in one that
// reads back.
func TestLayers_List(t *testing.T) {
	want := learn.Sequential{Layers: []network.Layer{
		network.ConvLayer{Maps: 8, Size: 3, Pad: 1, Stride: 1},
		network.NormLayer{Groups: 4},
		network.ReLULayer{},
		network.PoolLayer{Size: 2},
		network.ResidualLayer{Layers: []network.Layer{network.ConvLayer{Maps: 8, Size: 3, Pad: 1, Stride: 1}, network.ReLULayer{}}},
		network.DropoutLayer{Rate: 0.2},
		network.AverageLayer{},
		network.FlattenLayer{},
		network.DenseLayer{},
	}}
	const flow = "[conv: {maps: 8, size: 3, pad: 1}, norm: {groups: 4}, relu, pool, residual: [conv: {maps: 8, pad: 1}, relu], dropout: 0.2, average, flatten, dense]"
	for name, file := range map[string]string{
		"flow":    "model: " + flow,
		"short":   "model: [conv: {maps: 8, pad: 1}, norm: 4, relu, pool: 2, residual: [conv: {maps: 8, pad: 1}, relu], dropout: 0.2, average, flatten, dense: open]",
		"lines":   "model:\n- conv:\n    maps: 8\n    pad: 1\n- norm: 4\n- relu\n- pool:\n- residual:\n  - conv: {maps: 8, pad: 1}\n  - relu\n- dropout: {rate: 0.2}\n- average\n- flatten\n- dense\n",
		"by name": "model: {model: layers, layers: " + flow + "}",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := fromText(t, file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(c.Model, learn.Architecture(want)) {
				t.Errorf("the model is %+v, want %+v", c.Model, want)
			}
			if c.Network.ModelMegabits != 0 {
				t.Errorf("a model of one's own is counted as %v megabits", c.Network.ModelMegabits)
			}
			again, err := fromText(t, string(c.YAML()))
			if err != nil || !reflect.DeepEqual(c, again) {
				t.Errorf("%v: it is written as\n%s", err, c.YAML())
			}
		})
	}
	c, err := fromText(t, "", "model="+flow)
	if err != nil || !reflect.DeepEqual(c.Model, learn.Architecture(want)) {
		t.Errorf("--set gives %+v, %v", c.Model, err)
	}
}

// What is wrong with a layer is said when the file is read, with the layer's name and
// place.
func TestLayers_DoNotFit(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"model: [conv: {maps: 8}, rellu, dense]", `config.yaml:1: model[1]: "rellu" is not a layer`},
		{"model:\n- flatten\n- lstm: 8\n", `config.yaml:3: model[1]: "lstm" is not a layer`},
		{"model:\n- conv: {size: 3}\n- dense\n", `config.yaml:2: model[0].conv.maps: is not set: conv needs it (channels of the output)`},
		{"model:\n- conv\n- dense\n", `config.yaml:2: model[0].conv.maps: is not set`},
		{"model:\n- conv: {maps: 8}\n  size: 3\n", `config.yaml:2: model[0]: a map of 2 keys stands where a layer is wanted`},
		{"model:\n- flatten\n- relu: 3\n", `config.yaml:3: model[1].relu: 3 stands where nothing, or a map of options is wanted`},
		{"model:\n- conv: {maps: 8, padding: 1}\n", `config.yaml:2: model[0].conv.padding: unknown key (maps, size, pad, stride or frozen)`},
		{"model:\n- conv: {maps: 8, pad: x}\n", `config.yaml:2: model[0].conv.pad: "x" is not a whole number from 0 to 63`},
		{"model:\n- residual:\n  - pool: 1\n", `config.yaml:3: model[0].residual[0].pool: 1 is out of range`},
		{"model: [flatten, dense: 9, conv: 8, flatten, dense]", `config.yaml:1: model: layer 3 (conv: 8 maps of 3×3): it reads an image, and is given a vector of 9 values`},
		{"model: [flatten, dense, relu]", `config.yaml:1: model: layer 2 (dense): only the model's last layer may leave its width open (write dense: 100)`},
		{"model: [pool: 7, conv: {maps: 8, pad: 1}, norm: 4, pool: 5, flatten, dense]", `config.yaml:1: model: layer 4 (pool: 5): 4×4 cannot be pooled by 5`},
		{"data: x.csv\nmodel: [conv: {maps: 6}, norm: 4, flatten, dense]", `config.yaml:2: model: layer 2 (norm: 4 groups): 6 channels are not 4 equal groups`},
		{"data: x.csv\nmodel: [conv: {maps: 6}, dense]", `config.yaml:2: model: layer 2 (dense): it reads a vector or a bag of words, and is given an image of ?×? with 6 channels; put flatten before it`},
		{"model: [flatten, dense: 9]", `config.yaml:1: model: the last layer makes a vector of 9 values; the samples have 62 classes (end with dense)`},
		{"task: shakespeare\nmodel: [embedding: 8, gru: {width: 9, output: first}, dense]", `config.yaml:2: model[1].gru.output: "first" is not an output (last or all)`},
		{"model: []", `config.yaml:1: model: a list without layers`},
		{"task: logistic\nmodel: [dense]", `config.yaml:2: model: task logistic has a model of its own (set model: task)`},
	} {
		if _, err := fromText(t, test.file); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q: %v, want %s", test.file, err, test.want)
		}
	}
}

// Help knows the layers and their options.
func TestLayers_Explained(t *testing.T) {
	text, ok := Explain("model.layers")
	for _, want := range []string{"conv: a convolution", "stride: step between positions", "output: the last step's state"} {
		if !ok || !strings.Contains(text, want) {
			t.Errorf("help does not say %q:\n%s", want, text)
		}
	}
}
