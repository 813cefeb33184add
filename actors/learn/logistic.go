package learn

import (
	"fmt"
	"strconv"
	"strings"
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

// Model implements [Architecture].
func (a Logistic) Model(Input, int, int) (Model, error) {
	if mu := float32(a.Mu); !(mu > 0 && mu <= 1e6) {
		return nil, fmt.Errorf("mu %g is not a number above 0 and up to 1e6", a.Mu)
	}
	if err := checkSizes(product(a.Features+1, a.Classes), a.Classes, a.Features, a.Classes); err != nil {
		return nil, err
	}
	return newLogistic(a.Features, a.Classes, float32(a.Mu)), nil
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

// logistic is multinomial logistic regression on dense rows with (μ/2)‖params‖²
// added to every sample's cross-entropy, biases included, so that the objective
// is μ-strongly convex. Its losses are those of the sum.
type logistic struct {
	layout
	features, classes int
	mu                float32
}

func newLogistic(features, classes int, mu float32) *logistic {
	m := &logistic{features: features, classes: classes, mu: mu}
	m.spec = fmt.Sprintf("logistic:%d,%d,%s", features, classes, strconv.FormatFloat(float64(mu), 'g', -1, 32))
	m.add("weight", 0, classes, features)
	m.add("bias", 0, classes)
	return m
}

func (m *logistic) Input() Input  { return Dense }
func (m *logistic) Features() int { return m.features }
func (m *logistic) Classes() int  { return m.classes }

// Init is the origin whatever the seed, as a quadratic's is.
func (m *logistic) Init(params []float32, _ uint64) {
	m.check(params)
	clear(params)
}

func (m *logistic) NewWorkspace(maxBatch int) Workspace {
	return &logisticWork{m: m, max: maxBatch, z: make([]float32, m.classes), sum: make([]float32, m.params)}
}

// logisticWork is plain Go in every class: the models are small.
type logisticWork struct {
	m   *logistic
	max int
	z   []float32 // a sample's logits, then their gradient
	sum []float32
}

func (w *logisticWork) check(params []float32, b *Batch) error {
	w.m.check(params)
	if err := checkBatch(b, w.max, w.m.classes); err != nil {
		return err
	}
	return checkDense(b, w.m.features)
}

// forward computes the logits of sample i.
func (w *logisticWork) forward(params []float32, b *Batch, i int) (row []float32) {
	f := w.m.features
	row = b.X[i*f:][:f]
	bias := params[f*w.m.classes:]
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
	return float64(w.m.mu) / 2 * sum
}

// gradients sums the gradient of the mean cross-entropy in w.sum and returns
// the mean loss, the penalty included.
func (w *logisticWork) gradients(params []float32, b *Batch) (loss float64) {
	clear(w.sum)
	f := w.m.features
	scale := 1 / float32(b.N)
	for i := range b.N {
		row := w.forward(params, b, i)
		loss += softmax(w.z, int(b.Labels[i]), scale)
		for k, d := range w.z {
			sum := w.sum[k*f:][:f]
			for j, x := range row {
				sum[j] += float32(d * x)
			}
			w.sum[f*w.m.classes+k] += d
		}
	}
	return loss/float64(b.N) + w.penalty(params)
}

func (w *logisticWork) Step(params []float32, b *Batch, rate float32) (float64, error) {
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	for j, g := range w.sum {
		params[j] -= float32(rate * (g + float32(w.m.mu*params[j])))
	}
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *logisticWork) Gradient(grad, params []float32, b *Batch) (float64, error) {
	w.m.check(grad)
	if err := w.check(params, b); err != nil {
		return 0, err
	}
	loss := w.gradients(params, b)
	for j, g := range w.sum {
		grad[j] = g + float32(w.m.mu*params[j])
	}
	if !finite(loss) {
		return loss, ErrNotFinite
	}
	return loss, nil
}

func (w *logisticWork) Evaluate(params []float32, b *Batch) (loss float64, correct int, err error) {
	if err := w.check(params, b); err != nil {
		return 0, 0, err
	}
	for i, y := range b.Labels {
		w.forward(params, b, i)
		if first(w.z) == int(y) {
			correct++
		}
		loss += softmax(w.z, int(y), 1)
	}
	loss += float64(b.N) * w.penalty(params)
	if !finite(loss) {
		return loss, 0, ErrNotFinite
	}
	return loss, correct, nil
}
