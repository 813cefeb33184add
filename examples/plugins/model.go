package plugins

import "fedpace/learn"

func init() { learn.Models.Register("scaled", "dense layers that start smaller", Scaled{}) }

// Scaled is an MLP whose initial parameters are multiplied by a factor.
type Scaled struct {
	Factor float64 `key:"factor" default:"0.1" range:"[0,1]" help:"factor on the initial parameters"`
	Layers []int   `key:"layers" range:"[1,1048576]" help:"widths from the input to the classes"`
}

// Model makes the model. All of its sizes are options, so it ignores the data's.
func (s Scaled) Model(of learn.Samples) (learn.Model, error) {
	m, err := learn.MLP{Layers: s.Layers}.Model(of)
	return scaled{m, s}, err
}

// scaled is an MLP but for its name and its start.
type scaled struct {
	learn.Model
	options Scaled
}

func (s scaled) String() string { return learn.NameOf(s.options) }

// Init writes the initial parameters: those of the MLP, times the factor.
func (s scaled) Init(params []float32, seed uint64) {
	s.Model.Init(params, seed)
	for i := range params {
		params[i] *= float32(s.options.Factor)
	}
}
