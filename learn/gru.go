package learn

import "fedpace/learn/network"

func init() {
	Models.Register("gru", "gated recurrent units that predict the next character", GRU{})
}

// GRU predicts the character after a sequence (Shakespeare's is 80,79,8,128,2): an
// embedding, stacked GRU layers in PyTorch's form (two bias vectors, gates in the
// order r, z, n) and a linear layer on the last step's state.
type GRU struct {
	Length     int `key:"length" range:"[1,1048576]" help:"characters of a sample"`
	Vocabulary int `key:"vocabulary" range:"[2,256]" help:"characters, the classes"`
	Embedding  int `key:"embedding" range:"[1,1048576]" help:"width of a character's embedding"`
	State      int `key:"state" range:"[1,1048576]" help:"width of a layer's state"`
	Layers     int `key:"layers" range:"[1,64]" help:"layers"`
}

// Model returns the model. The fields of a give all of its sizes, so the samples are not used. Its
// parameters have the names of a PyTorch module with an embedding, a gru and a linear layer.
func (a GRU) Model(Samples) (Model, error) {
	samples := Samples{
		Input:      Tokens,
		Features:   a.Length,
		Classes:    a.Vocabulary,
		Vocabulary: a.Vocabulary,
	}
	return sequential(NameOf(a), samples, []network.Layer{
		network.EmbeddingLayer{Width: a.Embedding}, network.GRULayer{Width: a.State, Layers: a.Layers,
			Output: "last"}, network.DenseLayer{Width: a.Vocabulary},
	}, "embedding.", "gru.", "linear.")
}
