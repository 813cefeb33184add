package convex

import (
	"errors"
	"fmt"
	"math"

	"fedpace/data/federated"
	"fedpace/internal/portable"
	"fedpace/learn"
)

// logistic is the mean cross-entropy of softmax(W x + b) with (μ/2)‖(W, b)‖².
// Parameters are in the model's order: W row by row, then b.
type logistic struct {
	// features and classes are the sizes of W, which has a row for each class.
	features, classes int
	// mu is the factor μ of the regularisation.
	mu float64
	// rows and labels hold the samples of each client: rows the features of one sample behind those of the other,
	// so that feature j of sample i of client c is rows[c][i*features+j].
	rows   [][]float64
	labels [][]int32
	// smoothness is L, a bound of the curvature of every client's objective.
	smoothness float64
}

// readLogistic reads all samples of a set as the objectives of a regularised logistic
// regression, one for each client, and bounds their smoothness.
func readLogistic(set federated.Set, kind learn.Logistic) (*logistic, error) {
	l := &logistic{features: kind.Features, classes: kind.Classes, mu: kind.Mu}
	for c := range set.Clients() {
		b, err := clientSamples(set, c, l.features)
		if err != nil {
			return nil, err
		}
		l.rows = append(l.rows, Widen(b.X))
		l.labels = append(l.labels, b.Labels)
		l.smoothness = max(l.smoothness, l.mu+float64(l.largestEigenvalue(c)/2))
	}
	return l, nil
}

// exactWidth is up to how many features the largest eigenvalue is calculated;
// beyond, the trace bounds it.
const exactWidth = 256

// largestEigenvalue returns the largest eigenvalue of the mean of x̃x̃ᵀ over the samples of client c, where
// x̃ is (x, 1). Half of it bounds the curvature of the cross-entropy, because diag(p) − ppᵀ has no
// eigenvalue above ½ (Böhning 1992). It returns the trace, which is an upper bound, if there are
// more than exactWidth features.
func (l *logistic) largestEigenvalue(c int) float64 {
	f := l.features
	n := len(l.labels[c])
	// The constant 1 in x̃ adds 1 to the trace.
	trace := 1.0
	for _, x := range l.rows[c] {
		trace += float64(x * x / float64(n))
	}
	// The eigenvalues of a wide matrix would take too long.
	if f > exactWidth {
		return trace
	}
	meanProduct := newSymmetric(f + 1)
	// extended returns element j of x̃ of sample i: its feature j, and the constant 1 for j = f.
	extended := func(i, j int) float64 {
		if j == f {
			return 1
		}
		return l.rows[c][i*f+j]
	}
	// The mean of x̃x̃ᵀ is symmetric, so only its lower triangle is computed.
	for j := range f + 1 {
		for k := range j + 1 {
			sum := 0.0
			for i := range n {
				sum += float64(extended(i, j) * extended(i, k))
			}
			meanProduct.add(j, k, sum/float64(n))
		}
	}
	return meanProduct.largestEigenvalue()
}

// sampleLoss returns the cross-entropy of sample i of client c at the parameters x, and writes its derivative by
// the logits to d, which has one element for each class: softmax(W·features + b), less 1 at the sample's label.
//
// x holds the weights W class by class and then the biases b: the weight of feature j for class y is
// x[y*features+j], and the bias of class y is x[features*classes+y].
func (l *logistic) sampleLoss(d []float64, c, i int, x []float64) float64 {
	f := l.features
	k := l.classes
	features := l.rows[c][i*f:][:f]
	// The logits are computed first. The largest is subtracted from all of them, so that no
	// exponential overflows.
	maxLogit := math.Inf(-1)
	for y := range k {
		logit := x[f*k+y]
		for j, v := range features {
			logit += float64(x[y*f+j] * v)
		}
		d[y] = logit
		maxLogit = max(maxLogit, logit)
	}
	label := l.labels[c][i]
	// The logit of the label is kept before the exponentials overwrite it.
	labelLogit := d[label] - maxLogit
	sum := 0.0
	for y := range d {
		d[y] = portable.Exp(d[y] - maxLogit)
		sum += d[y]
	}
	for y := range d {
		d[y] /= sum
	}
	// The derivative is the softmax, less one at the label.
	d[label]--
	return portable.Log(sum) - labelLogit
}

// value returns f_c(x): the mean cross-entropy of the samples of client c at the parameters x, plus
// the regularisation mu/2 ‖x‖².
func (l *logistic) value(c int, x []float64) float64 {
	d := make([]float64, l.classes)
	sum := 0.0
	for i := range l.labels[c] {
		sum += l.sampleLoss(d, c, i, x)
	}
	return sum/float64(len(l.labels[c])) + float64(l.mu/2*norm2(x))
}

// gradient writes ∇f_c(x) into dst.
func (l *logistic) gradient(dst []float64, c int, x []float64) {
	clear(dst)
	l.addGradient(dst, c, x, 1, make([]float64, l.classes))
	addScaled(dst, l.mu, x)
}

// addGradient adds weight times the gradient of client c's mean cross-entropy at x to dst, without that of
// the regularisation. dst has the layout of x: the weights of each class, one for each feature, and then a bias
// for each class. d is scratch space with one element for each class.
func (l *logistic) addGradient(dst []float64, c int, x []float64, weight float64, d []float64) {
	f := l.features
	biases := dst[f*l.classes:]
	n := len(l.labels[c])
	// The gradient is a mean over the samples of the client.
	weight /= float64(n)
	for i := range n {
		// This writes the derivatives by the logits to d; the loss itself is not needed.
		l.sampleLoss(d, c, i, x)
		features := l.rows[c][i*f:][:f]
		// By the chain rule the gradient of row y of W is the derivative of logit y times the
		// features, and that of its bias is the derivative alone.
		for y, derivative := range d {
			scaled := float64(derivative * weight)
			addScaled(dst[y*f:][:f], scaled, features)
			biases[y] += scaled
		}
	}
}

// variance returns the variance of the gradient of one sample of client c at the parameters x: the mean of
// the squared norms less the squared norm of the mean. The gradient of the cross-entropy of a sample is
// d ⊗ x̃, where d is the derivative by the logits and x̃ the features with a 1 behind them, so that its
// squared norm is ‖d‖²(‖features‖² + 1). The regularisation is left out, because its gradient is the same
// for all samples.
func (l *logistic) variance(c int, x []float64) float64 {
	f := l.features
	n := len(l.labels[c])
	d := make([]float64, l.classes)
	squares := 0.0
	mean := make([]float64, len(x))
	for i := range n {
		// This writes the derivatives by the logits to d.
		l.sampleLoss(d, c, i, x)
		features := l.rows[c][i*f:][:f]
		squares += float64(norm2(d) * (norm2(features) + 1) / float64(n))
	}
	l.addGradient(mean, c, x, 1, d)
	return max(0, squares-norm2(mean))
}

// curvature gives L and mu of all objectives.
func (l *logistic) curvature() (smooth, mu float64) { return l.smoothness, l.mu }

// minimise returns the parameters at which the weighted sum of the clients' objectives is smallest,
// and an error if it is not found in 200 steps. weights has one element for each client; clients of
// weight 0 are left out. It is Newton's method from the origin. A step is halved until it satisfies
// Armijo's condition of sufficient descent.
func (l *logistic) minimise(weights []float64) ([]float64, error) {
	n := (l.features + 1) * l.classes
	x := make([]float64, n)
	next := make([]float64, n)
	gradient := make([]float64, n)
	scratch := make([]float64, l.classes)
	totalWeight := 0.0
	for _, w := range weights {
		totalWeight += w
	}
	loss := weightedValue(l, weights, x)
	// Each step solves H · direction = gradient with the Hessian H and the gradient at x.
	for range 200 {
		clear(gradient)
		hessian := newSymmetric(n)
		for c, w := range weights {
			if w == 0 {
				continue
			}
			l.addGradient(gradient, c, x, w, scratch)
			l.addHessian(hessian, c, x, w, scratch)
		}
		for j := range x {
			// The regularisation adds totalWeight·mu·x to the gradient, and totalWeight·mu to the diagonal
			// of the Hessian.
			gradient[j] += float64(totalWeight * l.mu * x[j])
			hessian.add(j, j, float64(totalWeight*l.mu))
		}
		// The gradient vanishes at the minimum.
		if math.Sqrt(norm2(gradient)) <= 1e-12*(1+totalWeight) {
			return x, nil
		}
		direction, err := hessian.solve(gradient)
		if err != nil {
			return nil, fmt.Errorf("convex: the Hessian: %w", err)
		}
		// The directional derivative along −direction is −slope, so the objective falls that way.
		slope := 0.0
		for j := range gradient {
			slope += float64(gradient[j] * direction[j])
		}
		loss, err = l.descend(next, weights, x, direction, loss, slope)
		if err != nil {
			return nil, err
		}
		copy(x, next)
	}
	return nil, errors.New("convex: Newton's method has not converged in 200 steps")
}

// descend writes the parameters to next that one step against direction reaches from x, and returns the weighted
// objective there. The step is halved, from 1 on, until the objective falls from loss by a share of what slope,
// the derivative along direction, promises (Armijo's condition). It is an error if no step does.
func (l *logistic) descend(next, weights, x, direction []float64, loss, slope float64) (nextLoss float64, err error) {
	// Near the minimum rounding hides the descent. Newton's own step is right there, so it is taken as it is.
	isNearMinimum := slope <= 1e-12*(1+loss)
	for step := 1.0; step > 1e-10; step /= 2 {
		copy(next, x)
		addScaled(next, -step, direction)
		nextLoss = weightedValue(l, weights, next)
		if nextLoss <= loss-float64(1e-4*step*slope) || isNearMinimum {
			return nextLoss, nil
		}
	}
	return 0, errors.New("convex: Newton's method finds no descent")
}

// addHessian adds weight times the Hessian of client c's mean cross-entropy at x to h: the mean of
// (diag(p) − ppᵀ) ⊗ x̃x̃ᵀ over the samples, where p is the softmax and x̃ has a sample's features and a 1 behind
// them. The rows and columns of h are in the order of the parameters x: the weights of each class, one for each
// feature, and then a bias for each class. The regularisation is not in it. p is scratch space with one element
// for each class.
func (l *logistic) addHessian(h *symmetric, c int, x []float64, weight float64, p []float64) {
	f := l.features
	k := l.classes
	n := len(l.labels[c])
	// index returns the place of a parameter in x: that of feature j of class y, or that of the
	// bias of the class for j = f.
	index := func(y, j int) int {
		if j == f {
			return f*k + y
		}
		return y*f + j
	}
	extended := make([]float64, f+1)
	extended[f] = 1
	for i := range n {
		l.sampleLoss(p, c, i, x)
		// sampleLoss leaves the softmax less 1 at the label.
		p[l.labels[c][i]]++
		copy(extended, l.rows[c][i*f:][:f])
		for y := range k {
			for z := y; z < k; z++ {
				// factor is element (y, z) of diag(p) − ppᵀ, times the weight of a sample.
				factor := float64(-p[y] * p[z])
				if y == z {
					factor += p[y]
				}
				factor *= weight / float64(n)
				for a, u := range extended {
					// A block on the diagonal is symmetric itself, so only one of its triangles is
					// added.
					from := 0
					row := index(y, a)
					if y == z {
						from = a
					}
					for b := from; b <= f; b++ {
						h.add(row, index(z, b), float64(factor*u*extended[b]))
					}
				}
			}
		}
	}
}
