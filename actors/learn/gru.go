package learn

import (
	"fmt"

	"fedpace/actors/learn/network"
)

func init() {
	Models.Register("gru", "stacked gated recurrent units that predict the next character", GRU{})
}

// GRU predicts the character after a sequence (Shakespeare's is 80,79,8,128,2): an
// embedding, stacked GRU layers in PyTorch's form (two bias vectors, gates in the
// order r, z, n) and a linear layer on the last step's state.
type GRU struct {
	Length     int `key:"length" range:"[1,1048576]" help:"characters of a sample"`
	Vocabulary int `key:"vocabulary" range:"[2,256]" help:"characters, which are the classes, too"`
	Embedding  int `key:"embedding" range:"[1,1048576]" help:"width of a character's embedding"`
	State      int `key:"state" range:"[1,1048576]" help:"width of a layer's state"`
	Layers     int `key:"layers" range:"[1,64]" help:"layers"`
}

func (a GRU) Model(Samples) (Model, error) {
	switch {
	case a.Vocabulary > 256:
		return nil, fmt.Errorf("a vocabulary of %d; a token is a byte, at most 256", a.Vocabulary)
	case a.Layers > maxLayers:
		return nil, fmt.Errorf("%d layers are more than %d", a.Layers, maxLayers)
	case network.Product(a.Length, a.State, a.Layers) > MaxParams: // kept for the way back
		return nil, fmt.Errorf("more than %d states of a sample", MaxParams)
	}
	params := network.Product(a.Vocabulary, a.Embedding+a.State) + network.Product(3*a.State, a.Embedding+a.State) + network.Product(6*(a.Layers-1), a.State, a.State)
	if err := checkSizes(params, a.Vocabulary, a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("gru:%d,%d,%d,%d,%d", a.Length, a.Vocabulary, a.Embedding, a.State, a.Layers)
	samples := Samples{Input: Tokens, Features: a.Length, Classes: a.Vocabulary, Vocabulary: a.Vocabulary}
	return sequential(a, spec, samples, []network.Layer{
		network.EmbeddingLayer{Width: a.Embedding}, network.GRULayer{Width: a.State, Layers: a.Layers, Output: "last"}, network.DenseLayer{Width: a.Vocabulary},
	}, "embedding.", "gru.", "linear."), nil
}

func (GRU) Parse(sizes string) (Architecture, error) {
	var n [5]int
	err := scan(sizes, "LENGTH,VOCABULARY,EMBEDDING,STATE,LAYERS", &n)
	return GRU{n[0], n[1], n[2], n[3], n[4]}, err
}
