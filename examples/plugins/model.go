package plugins

import (
	"fmt"
	"strconv"
	"strings"

	"fedpace/actors/learn"
)

func init() { learn.Models.Register("scaled", "dense layers that start smaller", Scaled{}) }

// Scaled is an MLP whose initial parameters are multiplied by a factor.
type Scaled struct {
	Layers []int   `key:"layers" range:"[1,1048576]" help:"widths from the input to the classes"`
	Factor float64 `key:"factor" default:"0.1" range:"[0,1]" help:"factor on the initial parameters"`
}

// Model makes the model. All of its sizes are options, so it ignores the data's.
func (s Scaled) Model(of learn.Samples) (learn.Model, error) {
	m, err := learn.MLP{Layers: s.Layers}.Model(of)
	return scaled{m, float32(s.Factor)}, err
}

// Parse reads the sizes behind the colon of String.
func (Scaled) Parse(sizes string) (learn.Architecture, error) {
	factor, widths, _ := strings.Cut(sizes, ",")
	inner, err := learn.MLP{}.Parse(widths)
	if err != nil {
		return nil, err
	}
	s := Scaled{Layers: inner.(learn.MLP).Layers}
	s.Factor, err = strconv.ParseFloat(factor, 32)
	return s, err
}

// scaled is an MLP but for its name and its start.
type scaled struct {
	learn.Model
	factor float32
}

func (s scaled) String() string {
	return fmt.Sprintf("scaled:%g,%s", s.factor, strings.TrimPrefix(s.Model.String(), "mlp:"))
}

// Init writes the initial parameters.
func (s scaled) Init(params []float32, seed uint64) {
	s.Model.Init(params, seed)
	for i := range params {
		params[i] *= s.factor
	}
}
