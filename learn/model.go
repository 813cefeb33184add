package learn

import (
	"fmt"

	"fedpace/internal/keyed"
	"fedpace/learn/internal/kernel"
	"fedpace/learn/metric"
	"fedpace/learn/network"
	"fedpace/registry"
)

// Tensor names one part of a model's flat parameters, in PyTorch's layout
// (a linear layer's weight is [out, in]).
type Tensor struct {
	// Name is the tensor's name in PyTorch's state_dict, such as 0.weight.
	Name string
	// Shape holds the tensor's sizes, the outermost dimension first.
	Shape []int
	// Offset is the index of the tensor's first element in the flat parameters.
	Offset int
	// Type is the type of the tensor's elements in a model's file, such as int64. Empty means float32,
	// which a flat model holds as it is.
	Type string
	// Rule says how the integers or booleans of several clients become those of the next model. It is
	// empty for float32, which is trained or averaged, and a [BufferRule] for every other type.
	Rule BufferRule
	// Aliases are further names of the tensor, such as that of an output layer that shares the weight of
	// an embedding. A model's file holds the tensor by each of its names, as PyTorch's state_dict does.
	Aliases []string
}

// Len returns the number of the tensor's values in the flat parameters.
func (t Tensor) Len() int { return int(network.Product(t.Shape...)) * t.words() }

// ModelInfo is what is known of a model wherever it is trained. It is immutable and shared
// by all workers.
type ModelInfo interface {
	// String is the model in one line, for example "mlp:784,200,200,62": equal models
	// have equal lines.
	String() string
	// Params is the number of parameters, all float32.
	Params() int
	// Trainable is how many of the parameters, from the first on, are trained. Those
	// behind them, such as a batch norm's running means, follow from the samples.
	Trainable() int
	// Tensors lists the parts of the flat parameters in order, without gaps.
	Tensors() []Tensor
	// Samples says what the model reads.
	Samples() Samples
	// Metrics are the quantities besides the loss by which the model is measured.
	Metrics() []Metric
}

// TensorAt returns the name of the tensor that holds a parameter, given the parameter's index. For an index
// behind the last parameter it returns "beyond the model".
func TensorAt(m ModelInfo, index int) string {
	for _, tensor := range m.Tensors() {
		if index < tensor.Offset+tensor.Len() {
			return tensor.Name
		}
	}
	return "beyond the model"
}

// Communicated returns the number of parameters, from the first on, that a task transfers. Those behind them
// are frozen: they never change, so both ends know them.
func Communicated(m ModelInfo) int {
	if f, ok := m.(interface{ Frozen() int }); ok {
		return m.Params() - f.Frozen()
	}
	return m.Params()
}

// LeastBatch returns the smallest number of samples on which a step of a model can be taken, which is more
// than 1 with a batch norm. It is 1 for a model of a trainer in another process, which checks that itself.
func LeastBatch(m ModelInfo) int {
	if l, ok := Stepped(m).(interface{ LeastBatch() int }); ok {
		return l.LeastBatch()
	}
	return 1
}

// Model is a model of this program. [Parse] reads its String back.
type Model interface {
	ModelInfo
	// Init writes the initial parameters for a seed: PyTorch's layer defaults
	// (paper/NOTES, "Model sizes"), from a keyed stream per tensor.
	Init(params []float32, seed uint64)
	// NewWorkspace allocates the scratch memory of one worker for batches of
	// up to maxBatch samples, in the arithmetic of a kernel.
	NewWorkspace(maxBatch int, k Kernel) Workspace
}

// Architecture is a kind of model with its sizes, which are its fields. What it does not
// leave open is in the model's name, see [NameOf].
type Architecture interface {
	// Model makes the model. The samples give the sizes that the architecture
	// leaves open.
	Model(samples Samples) (Model, error)
}

// Models are the architectures that a configuration and messages can name.
var Models = registry.New[Architecture]("model", "model").Standard("mlp")

// Limits of an architecture: what a mistyped number may at most ask for.
const (
	// maxWidth bounds the outputs of a layer.
	maxWidth = network.MaxWidth
	// MaxParams bounds the parameters of a model.
	MaxParams = network.MaxParams
)

// model is a model of this package: its name and sizes, the tensors of its parameters, and how its
// workspaces compute. initials and streams have an entry for each tensor.
type model struct {
	// name is the model in one line, as String returns it.
	name string
	// convex holds the options of a convex task's model, see [Convex]. It is nil for any other
	// model.
	convex Architecture
	// samples says what the model reads.
	samples Samples
	// metrics are the quantities besides the loss by which the model is measured.
	metrics []Metric
	// tensors are the parts of the flat parameters, in order and without gaps.
	tensors []Tensor
	// initials draws the initial values of each tensor. A nil entry leaves the tensor zero.
	initials []network.Init
	// streams holds, for each tensor, the number of the stream of random numbers from which it is
	// drawn.
	streams []int
	// params is the number of parameters, frozen ones included.
	params int
	// buffers is the number of parameters that follow from the samples of steps. They stand behind those
	// that train. frozen is the number of frozen parameters, which are the last ones.
	buffers, frozen int
	// leastBatch is the smallest number of samples on which the model trains, if it is above 1.
	leastBatch int
	// arithmetic makes the computation of one worker, for batches of at most maxBatch samples.
	arithmetic func(maxBatch int, isa kernel.ISA) network.Arithmetic
	// arranged makes the computation on arranged parameters. It returns nil where there is none, and is
	// nil itself for a model without layers.
	arranged func(maxBatch int, isa kernel.ISA) *network.Arranged
}

// addTensor appends a tensor to the model. i is its number in the order of the layers, by which its stream
// of random numbers is chosen: freezing a layer moves its tensors, and must not change their initial
// values. initial draws these values; nil leaves the tensor zero.
func (m *model) addTensor(i int, name string, initial network.Init, shape ...int) {
	t := Tensor{Name: name, Shape: shape, Offset: m.params}
	m.tensors = append(m.tensors, t)
	m.initials = append(m.initials, initial)
	m.streams = append(m.streams, i)
	m.params += t.Len()
}

// newModel makes a model without tensors that reads such samples.
func newModel(name string, samples Samples) *model {
	return &model{name: name, samples: samples, metrics: network.MetricsOf(samples)}
}

func (m *model) String() string { return m.name }
func (m *model) Params() int    { return m.params }
func (m *model) Trainable() int { return m.params - m.buffers - m.frozen }

// Frozen returns the number of parameters that never change; [Communicated] finds it by this method.
func (m *model) Frozen() int       { return m.frozen }
func (m *model) Tensors() []Tensor { return m.tensors }
func (m *model) Samples() Samples  { return m.samples }
func (m *model) Metrics() []Metric { return m.metrics }

// LeastBatch returns the smallest number of samples on which the model trains.
func (m *model) LeastBatch() int { return max(1, m.leastBatch) }

// Init draws every tensor's initial values from the tensor's own stream. A tensor without
// [network.Init] is zero.
func (m *model) Init(params []float32, seed uint64) {
	m.check(params)
	clear(params)
	for i, t := range m.tensors {
		// Each tensor has a stream of its own, so that its values do not depend on the other
		// tensors.
		if draw := m.initials[i]; draw != nil {
			draw(params[t.Offset:][:t.Len()], keyed.New(seed, keyed.Weights, uint64(m.streams[i])))
		}
	}
}

// NewWorkspace allocates the scratch memory of one worker.
func (m *model) NewWorkspace(maxBatch int, k Kernel) Workspace {
	return &workspace{model: m, max: maxBatch, Arithmetic: m.arithmetic(maxBatch, k.isa)}
}

// check panics on parameters of another length, which is a programmer's error.
func (m *model) check(params []float32) {
	if len(params) != m.params {
		panic(fmt.Sprintf("learn: %d parameters given to %s, which has %d", len(params), m.name, m.params))
	}
}

// What a model reads and is measured by lies beneath all models, with the networks.
type (
	// Samples says what the samples of a set are, or what a model reads.
	Samples = network.Samples
	// Input says which fields of a Batch a model reads.
	Input = network.Input
	// Batch is a minibatch in the layout its model reads.
	Batch = network.Batch
	// Metric names a quantity besides the loss by which a model is measured.
	Metric = metric.Metric
	// Score is what samples add to a metric, whose value is Sum/Weight.
	Score = network.Score
)

// The kinds of input.
const (
	Dense  = network.Dense
	Sparse = network.Sparse
	Tokens = network.Tokens
)
