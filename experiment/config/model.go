package config

import (
	"fmt"
	"strings"

	"fedpace/actors/learn"
	"fedpace/internal/registry"
)

// Model is the architecture to train: the task's own, or one for custom data.
type Model interface {
	architecture(c *Config, input learn.Input, features, classes int) string
}

// Models are the architectures that a configuration can name.
var Models = registry.New[Model]("model", "kind").Standard("mlp")

func init() {
	Models.Register("task", "the task's own", TaskModel{})
	Models.Register("linear", "softmax regression on custom data, whose sizes it takes", Linear{})
	Models.Register("mlp", "layers with ReLU between them, for custom data", MLP{})
}

// TaskModel is the task's own model.
type TaskModel struct{}

func (TaskModel) architecture(c *Config, _ learn.Input, features, classes int) string {
	switch c.Task {
	case TaskQuadratic:
		return fmt.Sprintf("quadratic:%d", c.Quadratic.Dimension)
	case TaskLogistic: // its sizes are those of data that is read
		if c.IsSynthetic() {
			features, classes = c.Logistic.Features, c.Logistic.Classes
		}
		return fmt.Sprintf("logistic:%d,%d,%v", features, classes, float32(c.Logistic.Mu))
	}
	p, _ := c.Task.Paper()
	return p.Architecture
}

// Linear is softmax regression.
type Linear struct{}

func (Linear) architecture(_ *Config, input learn.Input, features, classes int) string {
	if input == learn.Sparse {
		return fmt.Sprintf("linear:%d,%d", features, classes)
	}
	return fmt.Sprintf("mlp:%d,%d", features, classes)
}

// MLP is a network of dense layers.
type MLP struct {
	Widths []int `key:"mlp" range:"[1,268435456]" help:"widths from the inputs to the classes, e.g. [784, 200, 62]"`
}

func (m MLP) architecture(*Config, learn.Input, int, int) string {
	return "mlp:" + strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Widths), " ", ","), "[]")
}

// Limits of a model for custom data.
const (
	maxLayers     = 16
	MaxParameters = 1 << 28
)

// Validate bounds the model.
func (m MLP) Validate() error {
	if n := len(m.Widths); n < 2 || n > maxLayers {
		return registry.Errorf("mlp", "%d widths (from 2, inputs and classes, to %d)", n, maxLayers)
	}
	parameters := 0
	for i, w := range m.Widths {
		if i > 0 {
			parameters += (m.Widths[i-1] + 1) * w
		}
		if parameters > MaxParameters {
			return registry.Errorf("mlp", "more than %d parameters", MaxParameters)
		}
	}
	return nil
}

// Architecture is the model in the form that learn.Parse reads. The sizes of a
// model for custom data are those of that data; they are not used otherwise.
func (c Config) Architecture(input learn.Input, features, classes int) string {
	return c.Model.architecture(&c, input, features, classes)
}

// UsesTaskModel reports whether the model is the task's own.
func (c *Config) UsesTaskModel() bool { return c.Model == Model(TaskModel{}) }
