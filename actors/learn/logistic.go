package learn

import (
	"fmt"
	"strconv"
	"strings"

	"fedpace/actors/learn/internal/kernel"
)

func init() {
	Models.Register("logistic", "multinomial logistic regression with a squared norm added", Logistic{})
}

// Logistic is multinomial logistic regression with mu/2 times the squared norm
// added.
type Logistic struct {
	Features int     `key:"features" range:"[1,1048576]" help:"values of a sample"`
	Classes  int     `key:"classes" range:"[2,1048576]" help:"labels"`
	Mu       float64 `key:"mu" range:"(0,1e6]" help:"strength of the squared norm"`
}

// logistic is the model of a [Logistic] on dense rows. (μ/2)‖params‖² is added to
// every sample's cross-entropy, biases included, so that the objective is μ-strongly
// convex. Its losses are those of the sum.
type logistic struct {
	atOrigin
	of Logistic
}

// Model implements [Architecture].
func (a Logistic) Model(Input, int, int) (Model, error) {
	mu := float32(a.Mu)
	if !(mu > 0 && mu <= 1e6) {
		return nil, fmt.Errorf("mu %g is not a number above 0 and up to 1e6", a.Mu)
	}
	if err := checkSizes(product(a.Features+1, a.Classes), a.Classes, a.Features, a.Classes); err != nil {
		return nil, err
	}
	spec := fmt.Sprintf("logistic:%d,%d,%s", a.Features, a.Classes, strconv.FormatFloat(float64(mu), 'g', -1, 32))
	m := &logistic{atOrigin{layout{spec: spec, input: Dense, features: a.Features, classes: a.Classes}}, Logistic{a.Features, a.Classes, float64(mu)}}
	m.add("weight", 0, a.Classes, a.Features)
	m.add("bias", 0, a.Classes)
	m.arithmetic = func(int, kernel.Class) arithmetic {
		return &logisticWork{flat{kernel.Go, make([]float32, m.params)}, a.Features, mu, make([]float32, a.Classes)}
	}
	return m, nil
}

// Parse implements [Architecture]. mu stands in its shortest form, as String
// writes it.
func (Logistic) Parse(sizes string) (Architecture, error) {
	const form = "FEATURES,CLASSES,MU"
	if strings.Count(sizes, ",") != 2 {
		return nil, fmt.Errorf("%d numbers, want %s", strings.Count(sizes, ",")+1, form)
	}
	last := strings.LastIndexByte(sizes, ',')
	n, err := widths(sizes[:last], form, 2)
	if err != nil {
		return nil, err
	}
	mu, err := strconv.ParseFloat(sizes[last+1:], 32)
	if err != nil || sizes[last+1:] != strconv.FormatFloat(mu, 'g', -1, 32) {
		return nil, fmt.Errorf("mu %q is not a number above 0 and up to 1e6 in its shortest form", sizes[last+1:])
	}
	return Logistic{n[0], n[1], mu}, nil
}

// logisticWork is plain Go in every class: the models are small.
type logisticWork struct {
	flat
	features int
	mu       float32
	z        []float32 // a sample's logits, then their gradient
}

// forward computes the logits of sample i.
func (w *logisticWork) forward(params []float32, b *Batch, i int) (row []float32) {
	f := w.features
	row = b.X[i*f:][:f]
	bias := params[f*len(w.z):]
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

// penalty is (μ/2)‖params‖².
func (w *logisticWork) penalty(params []float32) float64 {
	sum := 0.0
	for _, x := range params {
		sum += float64(float64(x) * float64(x))
	}
	return float64(w.mu) / 2 * sum
}

func (w *logisticWork) gradients(params []float32, b *Batch) (loss float64) {
	clear(w.grad)
	f := w.features
	scale := 1 / float32(b.N)
	for i := range b.N {
		row := w.forward(params, b, i)
		loss += softmax(w.z, int(b.Labels[i]), scale)
		for k, d := range w.z {
			sum := w.grad[k*f:][:f]
			for j, x := range row {
				sum[j] += float32(d * x)
			}
			w.grad[f*len(w.z)+k] += d
		}
	}
	for j, x := range params {
		w.grad[j] += float32(w.mu * x)
	}
	return loss/float64(b.N) + w.penalty(params)
}

func (w *logisticWork) evaluate(params []float32, b *Batch) (loss float64, correct int) {
	for i, y := range b.Labels {
		w.forward(params, b, i)
		s, right := score(w.z, int(y))
		loss += s
		correct += right
	}
	return loss + float64(b.N)*w.penalty(params), correct
}
