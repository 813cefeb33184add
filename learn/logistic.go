package learn

import (
	"fmt"

	"fedpace/internal/portable"
	"fedpace/learn/internal/kernel"
	"fedpace/learn/network"
)

func init() {
	Models.Register("logistic", "multinomial logistic regression", Logistic{})
}

// Logistic is multinomial logistic regression on dense rows. (μ/2)‖params‖² is added
// to every sample's cross-entropy, biases included, so that the objective is μ-strongly
// convex. Its losses are those of the sum.
type Logistic struct {
	Features int     `key:"features" range:"[1,1048576]" help:"values of a sample"`
	Classes  int     `key:"classes" range:"[2,1048576]" help:"classes"`
	Mu       float64 `key:"mu" range:"(0,1e6]" help:"weight of the parameters' squared norm"`
}

// Model makes the model. mu is rounded to float32, so that the name, which holds it, says what is
// computed.
func (a Logistic) Model(Samples) (Model, error) {
	mu := float32(a.Mu)
	// A number that is above 0 in float64 may be 0 in float32.
	if !(mu > 0 && mu <= 1e6) {
		return nil, fmt.Errorf("mu %g is not a number above 0 and up to 1e6", a.Mu)
	}
	// The sizes are fields of the model, so its samples follow from them.
	samples := Samples{Input: Dense, Features: a.Features, Classes: a.Classes}
	list := []network.Layer{network.DenseLayer{Width: a.Classes}}
	if _, err := network.Fit(list, samples); err != nil {
		return nil, err
	}
	m := newModel(fmt.Sprintf("logistic:%d,%d,%v", a.Features, a.Classes, mu), samples)
	m.convex = Logistic{a.Features, a.Classes, float64(mu)}
	m.addTensor(0, "weight", nil, a.Classes, a.Features)
	m.addTensor(1, "bias", nil, a.Classes)
	m.arithmetic = func(int, kernel.ISA) network.Arithmetic {
		return &logisticWork{
			flatGradient{kernel.Go, make([]float32, m.params)},
			a.Features,
			mu,
			make([]float32, a.Classes),
		}
	}
	return m, nil
}

// logisticWork computes a [Logistic] in plain Go whatever the kernel, because the models are small.
type logisticWork struct {
	flatGradient
	// features is the number of values of a sample.
	features int
	// mu is the factor μ of the squared norm.
	mu float32
	// z holds the logits of one sample, and then their gradient.
	z []float32
}

// forward writes the logits of sample i of the batch into w.z, and returns the sample's features, which
// share memory with the batch. params has a row of weights, one for each feature, for each class, and then the bias of
// each class.
func (w *logisticWork) forward(params []float32, b *Batch, i int) (row []float32) {
	f := w.features
	row = b.X[i*f:][:f]
	bias := params[f*len(w.z):]
	// Each class has a row of the weight and a bias, which follows the weight.
	for k := range w.z {
		weight := params[k*f:][:f]
		s := bias[k]
		for j, x := range row {
			s += float32(weight[j] * x)
		}
		w.z[k] = s
	}
	return row
}

// penalty is (μ/2)‖params‖², the term that is added to the mean cross-entropy.
func (w *logisticWork) penalty(params []float32) float64 {
	return float64(float64(w.mu) / 2 * portable.Square(params))
}

// Gradients implements [network.Arithmetic]: it returns the batch's mean loss, with the penalty, and stores
// its gradient in w.grad, which is laid out as the parameters: a row of features for each class, and then the biases.
func (w *logisticWork) Gradients(params []float32, batch *Batch) (loss float64) {
	clear(w.grad)
	f := w.features
	scale := 1 / float32(batch.N)
	for i := range batch.N {
		row := w.forward(params, batch, i)
		// Softmax replaces the logits by the gradient of the loss times scale.
		loss += network.Softmax(w.z, int(batch.Labels[i]), scale)
		// The gradient of a class's row is its logit's gradient times the features.
		for k, d := range w.z {
			sum := w.grad[k*f:][:f]
			for j, x := range row {
				sum[j] += float32(d * x)
			}
			w.grad[f*len(w.z)+k] += d
		}
	}
	// The gradient of (μ/2)‖x‖² is μ x, for each parameter.
	for j, x := range params {
		w.grad[j] += float32(w.mu * x)
	}
	return loss/float64(batch.N) + w.penalty(params)
}

// Evaluate implements [network.Arithmetic]: it returns the sum of the samples' losses, each with the
// penalty, and adds the number of correctly classified samples to the first score.
func (w *logisticWork) Evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	correct := 0
	// The loss of every sample has the penalty, which is the same for all and is added at the end.
	for i, y := range b.Labels {
		w.forward(params, b, i)
		// Metrics over all samples take the logits from the batch, before CrossEntropy overwrites them.
		b.KeepSample(w.z)
		s, right := network.CrossEntropy(w.z, int(y))
		loss += s
		correct += right
	}
	scores[0].Count(correct, b.N)
	return loss + float64(float64(b.N)*w.penalty(params))
}
