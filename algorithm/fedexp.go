package algorithm

// init registers the algorithm under the name by which a configuration chooses it. The text is its line
// in the list of such components.
func init() {
	Algorithms.Register("fedexp", "the step grows where updates differ (Jhunjhunwala et al. 2023)", FedExP{})
}

// FedExP extrapolates (Jhunjhunwala, Wang and Joshi, ICLR 2023): it goes η times as far as the mean
// update Δ of the clients' Δ_c,
//
//	x ← x + η Δ,  η = max(1, Σ w_c ‖Δ_c‖² / (2 (‖Δ‖² + ε)))
//
// with w_c = 1/n for the paper's equal weights. Where clients differ their updates are longer than
// their mean, and the step grows; K does not enter it. The norms are those of what is trained. The
// paper judges the mean of the last two models, since steps that are longer swing; here each model
// is judged as it is.
type FedExP struct {
	Epsilon float64 `key:"epsilon" default:"1e-3" range:"[1e-30,1e6]" help:"ε in the step's divisor, beside the mean update's squared norm"`
	Uncorrected
	Staleness
}

// Server implements [Algorithm]: η is in the factor of the sum.
func (FedExP) Server(int) ServerOptimizer { return average{1} }

// Stretch returns η, at least 1, the factor of the mean update: the mean of the updates' squared norms
// over twice the squared norm of their mean. It is large if the updates point in different directions.
func (a FedExP) Stretch(updates [][]int64, weights []float64, mean []int64) float64 {
	squares := 0.0
	for i, u := range updates {
		squares += float64(weights[i] * SquaredNorm(u))
	}
	return max(1, squares/float64(2*(SquaredNorm(mean)+a.Epsilon)))
}

// Stretching is an algorithm whose step depends on the single updates of a round, all of which the
// coordinator therefore holds until the last one has come.
type Stretching interface {
	Algorithm
	// Stretch returns the factor by which the mean update is multiplied. updates are the trained values
	// of each client's update, as exact sums of weight 1; weights are those of the updates, and mean is
	// their weighted mean.
	Stretch(updates [][]int64, weights []float64, mean []int64) float64
}

// Stretch returns the factor of a round's step: that of a [Stretching] algorithm, else 1. updates and mean
// have the values of the whole model, of which the algorithm gets the trained ones; weights are those of
// the updates in mean.
func (i *Instance) Stretch(updates [][]int64, weights []float64, mean []int64) float64 {
	rule, ok := i.Algorithm.(Stretching)
	if !ok {
		return 1
	}
	trained := make([][]int64, len(updates))
	for j, u := range updates {
		trained[j] = u[:i.trainable]
	}
	return rule.Stretch(trained, weights, mean[:i.trainable])
}

// SquaredNorm returns the squared Euclidean norm of an exact sum, in units of the parameters. It is
// added in the order of the parameters, so that it is the same on every machine.
func SquaredNorm(sum []int64) (square float64) {
	for _, s := range sum {
		x := Delta(s, 1)
		square += float64(x * x)
	}
	return square
}
