package synthetic

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math"

	"fedpace/data/federated"
	"fedpace/internal/keyed"
	"fedpace/learn"
)

// Tasks whose samples make a strongly convex objective.
const (
	quadraticTask = "quadratic"
	logisticTask  = "logistic"
)

// convexClients is the number of clients of a convex set that names none.
const convexClients = 50

// maxConvexValues bounds how many float32 values a convex set keeps in memory.
const maxConvexValues = 1 << 26

// Quadratics asks for a federated quadratic: client c's objective is the mean
// over its samples of ½ (x − b)ᵀ A_c (x − b), in the form that learn's
// "quadratic:DIMENSIONS" reads.
//
// All A_c have the same eigenvalues, spaced evenly from Mu to L, so that every
// client is exactly Mu-strongly convex and L-smooth. Their eigenvectors, and the
// means of the clients' b, differ by Heterogeneity: at 0 clients are alike, at 1
// a client's b is as far from the others' mean as that is from the origin, where
// runs start. A sample's b is the client's with Noise times a variate of mean 0
// and variance 1 added to each coordinate, which makes the variance of a
// minibatch's gradient a constant.
type Quadratics struct {
	// Clients is the number of clients; 0 means 50.
	Clients int
	// Dimension is the dimension of x, at least 2.
	Dimension int
	// Samples is the number of training samples of each client.
	Samples int
	// Mu and L are the smallest and the largest eigenvalue of every A_c.
	Mu, L float64
	// Noise is the deviation of a sample's b from its client's, in each coordinate.
	Noise float64
	// Heterogeneity is how far the clients' A_c and b differ; at 0 they are equal.
	Heterogeneity float64
	// Seed decides all random numbers.
	Seed uint64
}

// DefaultQuadratics is a problem small enough for runs of seconds.
var DefaultQuadratics = Quadratics{
	Dimension:     20,
	Samples:       50,
	Mu:            0.1,
	L:             1,
	Noise:         1,
	Heterogeneity: 1,
}

// Set makes the data. The caller has checked the ranges of the fields. It is an error if the set would take
// too much memory.
func (q Quadratics) Set() (federated.Set, error) {
	q.Clients = cmp.Or(q.Clients, convexClients)
	// In memory a client has the b of its samples, the held-out one included, and a and v of its A.
	if err := checkConvex(q.Clients, q.Samples+3, q.Dimension); err != nil {
		return nil, err
	}
	info := federated.Info{
		Name: "quadratic (synthetic)",
		Note: fmt.Sprintf(
			"made samples, heterogeneity %g, mu %g, L %g, noise %g",
			q.Heterogeneity,
			q.Mu,
			q.L,
			q.Noise,
		),
		// The values of a sample are its b, and a and v of its client's A (see quadraticRows.Append).
		Samples: learn.Samples{Input: learn.Dense, Features: 3 * q.Dimension, Classes: 1},
	}
	// One sample for each client is held out, with the client's A and the mean of its b. The mean loss of
	// these samples is F(x) − Σ p_c f_c*, where f_c* is the least loss of client c, which its share p_c of the
	// samples weights: without the noise of samples. At the optimum x* that is Γ, the paper's measure of how far
	// clients differ.
	s := convexSet(quadraticTask, fmt.Sprintf("%+v", q), info, q.Clients, q.Samples, 1)
	rows := &quadraticRows{
		n:         q.Dimension,
		perClient: q.Samples + 1,
		matrix:    make([]float32, q.Clients*2*q.Dimension),
		b:         make([]float32, len(s.Labels)*q.Dimension),
	}
	centre := variates(keyed.Hash(q.Seed, keyed.Synthetic, partTask, 1))
	axis := variates(keyed.Hash(q.Seed, keyed.Synthetic, partTask, 2))
	for c := range q.Clients {
		q.writeClient(rows, c, centre, axis)
	}
	s.Rows = rows
	return s, nil
}

// quadraticRows are the samples of quadratics, those of a client one after the other: a b for each sample,
// and an A for each client.
type quadraticRows struct {
	// n is the dimension.
	n int
	// perClient is the number of samples of each client, the held-out one included.
	perClient int
	// matrix has for each client the n eigenvalues of its A, a, and then the n coordinates of a unit vector, v.
	// A is H diag(a) H, where H = I − 2 v vᵀ is the reflection at the plane that is perpendicular to v.
	matrix []float32
	// b has the n coordinates of each sample's b.
	b []float32
}

// Append adds sample i: its b, then a and v of its client's matrix A.
func (r *quadraticRows) Append(dst *learn.Batch, i int) {
	dst.X = append(dst.X, r.b[i*r.n:][:r.n]...)
	dst.X = append(dst.X, r.matrix[i/r.perClient*2*r.n:][:2*r.n]...)
}

// Memory returns the size of all samples in bytes.
func (r *quadraticRows) Memory() int { return 4 * (len(r.matrix) + len(r.b)) }

// convexSet makes the set of a task without its rows and with all labels 0. The samples of each client follow
// each other: first those for training, as many as samples says, and then those held out, as many as held
// says. about is a text with everything that the data follow from, for the digest.
func convexSet(task, about string, info federated.Info, clients, samples, held int) *federated.Grouped {
	info.Synthetic = true
	info.Digest = fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "fedpace convex 1\n%s\n%s\n", task, about)))
	perClient := samples + held
	s := &federated.Grouped{
		Task:   task,
		About:  info,
		Starts: []int{0},
		Labels: make([]int32, clients*perClient),
	}
	for i := range int32(clients * perClient) {
		if int(i)%perClient < samples {
			s.Train = append(s.Train, i)
		} else {
			s.Held = append(s.Held, i)
		}
	}
	for c := range clients {
		s.Names = append(s.Names, fmt.Sprintf("synthetic-%d", c))
		s.Starts = append(s.Starts, (c+1)*samples)
	}
	return s
}

// checkConvex returns an error if a set of this many clients, samples of each, and values of a sample would
// take too much memory.
func checkConvex(clients, samples, width int) error {
	if float64(clients)*float64(samples)*float64(width) > maxConvexValues {
		return fmt.Errorf(
			"data: %d clients of %d samples with %d values are more than %d",
			clients,
			samples,
			width,
			maxConvexValues,
		)
	}
	return nil
}

// variates is the key of random numbers that are uniform with mean 0 and variance 1. They are bounded, and
// the same on every machine.
type variates uint64

// value returns the number that parts name; the same parts always name the same number.
func (v variates) value(parts ...uint64) float64 {
	u := float64(keyed.Float64(keyed.Hash(uint64(v), keyed.Synthetic, parts...)))
	return float64((float64(2*u) - 1) * math.Sqrt(3))
}

// writeClient writes client c's matrix A, by its eigenvalues a and the unit vector v (see quadraticRows), and the
// vectors b of its samples to rows. centre and axis draw what all clients have in common of b and of v; with the
// heterogeneity grows what a client adds of its own. Behind the samples stands the held-out one, their mean.
func (q Quadratics) writeClient(rows *quadraticRows, c int, centre, axis variates) {
	n := q.Dimension
	// The first part of a number that draws names is 1 for v, 2 for the client's mean of b, and 3 for the noise.
	draws := variates(keyed.Hash(q.Seed, keyed.Synthetic, uint64(c), partHabits))
	a := rows.matrix[c*2*n:][:n]
	v := rows.matrix[(c*2+1)*n:][:n]
	direction := make([]float64, n)
	squaredNorm := 0.0
	for j := range n {
		// The eigenvalues grow evenly from mu to L.
		a[j] = float32(q.Mu + float64((q.L-q.Mu)*float64(j)/float64(n-1)))
		direction[j] = axis.value(uint64(j)) + float64(q.Heterogeneity*draws.value(1, uint64(j)))
		squaredNorm += float64(direction[j] * direction[j])
	}
	for j := range n {
		v[j] = float32(direction[j] / math.Sqrt(squaredNorm))
	}
	b := rows.b[c*rows.perClient*n:][:rows.perClient*n]
	mean := make([]float64, n)
	for i := range q.Samples {
		for j := range n {
			coordinate := centre.value(uint64(j)) + float64(q.Heterogeneity*draws.value(2, uint64(j)))
			x := float32(coordinate + float64(q.Noise*draws.value(3, uint64(i), uint64(j))))
			b[i*n+j] = x
			mean[j] += float64(x)
		}
	}
	for j, m := range mean {
		b[q.Samples*n+j] = float32(m / float64(q.Samples))
	}
}

// Mixtures asks for samples to classify. Each class has a mean, around which its samples overlap with those of
// other classes. Each client shifts all of its samples by a vector, and has its own shares of the classes:
// its labels follow a Dirichlet distribution with every parameter 1/Heterogeneity.
type Mixtures struct {
	// Clients is the number of clients; 0 means 50.
	Clients int
	// Features is the number of values of a sample, and Classes the number of classes.
	Features int
	Classes  int
	// Samples is the number of training samples of each client. A quarter as many are held out.
	Samples int
	// Heterogeneity is how far clients differ in their shifts, in units of how far classes differ, and in
	// their labels. At 0 clients are alike.
	Heterogeneity float64
	// Seed decides all random numbers.
	Seed uint64
}

// DefaultMixtures is a problem small enough for runs of seconds.
var DefaultMixtures = Mixtures{
	Features:      20,
	Classes:       5,
	Samples:       50,
	Heterogeneity: 1,
}

// separation is the deviation of the classes' means in each feature, beside 1
// within a class: classes overlap.
const separation = 0.5

// Set makes the data set: for each client samples of every class around centres that are the
// client's own by the heterogeneity. A fifth of the samples is held out.
func (m Mixtures) Set() (federated.Set, error) {
	m.Clients = cmp.Or(m.Clients, convexClients)
	held := max(1, m.Samples/4)
	if err := checkConvex(m.Clients, m.Samples+held, m.Features); err != nil {
		return nil, err
	}
	info := federated.Info{
		Name:    "logistic (synthetic)",
		Note:    fmt.Sprintf("made samples, heterogeneity %g", m.Heterogeneity),
		Samples: learn.Samples{Input: learn.Dense, Features: m.Features, Classes: m.Classes},
	}
	s := convexSet(logisticTask, fmt.Sprintf("%+v", m), info, m.Clients, m.Samples, held)
	rows := &federated.FloatRows{Width: m.Features, Values: make([]float32, len(s.Labels)*m.Features)}
	perClient := m.Samples + held
	for c := range m.Clients {
		m.writeClient(s.Labels[c*perClient:][:perClient], rows.Values[c*perClient*m.Features:], c)
	}
	s.Rows = rows
	s.Held = s.Held[:min(maxHeldOut, len(s.Held))]
	return s, nil
}

// writeClient writes the labels and the rows of client c's samples, the held-out ones last. The labels follow
// Pólya's urn (see polya), into which only training labels go: held-out labels are drawn from it and not added.
// The features of a row are uniformly distributed, with variance 1, around a centre: that of its label, which all
// clients share, moved by the heterogeneity times a vector of the client's own. All values are divided by the
// square root of the number of features.
func (m Mixtures) writeClient(labels []int32, rows []float32, c int) {
	// The first part of a number that draws names is 1 for the client's own vector, and 2 for the samples.
	draws := variates(keyed.Hash(m.Seed, keyed.Synthetic, uint64(c), partHabits))
	shared := variates(keyed.Hash(m.Seed, keyed.Synthetic, partTask, 3))
	scale := 1 / math.Sqrt(float64(m.Features))
	for i := range labels {
		urn := labels[:min(i, m.Samples)]
		labels[i] = polya(
			urn,
			m.Classes,
			m.Heterogeneity,
			keyed.Hash(m.Seed, keyed.Synthetic, uint64(c), partLabels, uint64(i)),
		)
		row := rows[i*m.Features:][:m.Features]
		for j := range row {
			centre := float64(separation * shared.value(uint64(labels[i]), uint64(j)))
			shift := float64(separation * m.Heterogeneity * draws.value(1, uint64(j)))
			deviation := draws.value(2, uint64(i), uint64(j))
			row[j] = float32(float64((centre + shift + deviation) * scale))
		}
	}
}
