package synthetic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// Tasks whose samples make a strongly convex objective.
const (
	quadraticTask = "quadratic"
	logisticTask  = "logistic"
)

// convexClients is the population of a convex set unless told.
const convexClients = 50

// maxConvexValues bounds what a convex set keeps in memory, in float32.
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
	Clients       int // 0: 50
	Dimension     int // 2 or more
	Samples       int // of each client
	Mu, L         float64
	Noise         float64
	Heterogeneity float64
	Seed          uint64
}

// DefaultQuadratics is a problem small enough for runs of seconds.
var DefaultQuadratics = Quadratics{Dimension: 20, Samples: 50, Mu: 0.1, L: 1, Noise: 1, Heterogeneity: 1}

// quadratics is the set: matrices by client and the b of every sample.
type quadratics struct {
	q       Quadratics
	info    federated.Info
	matrix  []float32 // a and v of each client: 2 × Dimension
	targets []float32 // b of each sample
	means   []float32 // b's mean of each client
}

// Set makes the data.
func (q Quadratics) Set() (federated.Set, error) {
	switch {
	case q.Clients < 0 || q.Dimension < 2 || q.Samples < 1:
		return nil, fmt.Errorf("data: quadratics of %d clients in %d dimensions with %d samples each, want at least 1, 2 and 1", q.Clients, q.Dimension, q.Samples)
	case !(q.Mu > 0 && q.Mu <= q.L) || math.IsInf(q.L, 0):
		return nil, fmt.Errorf("data: quadratics with mu %v and L %v, want 0 < mu <= L", q.Mu, q.L)
	case !(q.Noise >= 0) || math.IsInf(q.Noise, 0):
		return nil, fmt.Errorf("data: quadratics with noise %v, want a number of at least 0", q.Noise)
	}
	if q.Clients == 0 {
		q.Clients = convexClients
	}
	if err := checkConvex(q.Clients, q.Samples+3, q.Dimension, q.Heterogeneity); err != nil {
		return nil, err
	}
	s := &quadratics{q: q}
	s.info = federated.Info{
		Name: "quadratic (synthetic)", Synthetic: true,
		Note:   fmt.Sprintf("made samples, heterogeneity %g, mu %g, L %g, noise %g", q.Heterogeneity, q.Mu, q.L, q.Noise),
		Digest: convexDigest(quadraticTask, fmt.Sprintf("%+v", q)),
		Input:  learn.Dense, Features: 3 * q.Dimension, Classes: 1,
	}
	s.matrix = make([]float32, q.Clients*2*q.Dimension)
	s.targets = make([]float32, q.Clients*q.Samples*q.Dimension)
	s.means = make([]float32, q.Clients*q.Dimension)
	centre, axis := variates(keyed.Hash(q.Seed, keyed.Synthetic, partTask, 1)), variates(keyed.Hash(q.Seed, keyed.Synthetic, partTask, 2))
	for c := range q.Clients {
		s.client(c, centre, axis)
	}
	return s, nil
}

// defaultConvex makes the convex tasks' sets with their default shapes.
var defaultConvex = map[string]func(clients int, seed uint64, heterogeneity float64) (federated.Set, error){
	quadraticTask: func(clients int, seed uint64, heterogeneity float64) (federated.Set, error) {
		q := DefaultQuadratics
		q.Clients, q.Seed, q.Heterogeneity = clients, seed, heterogeneity
		return q.Set()
	},
	logisticTask: func(clients int, seed uint64, heterogeneity float64) (federated.Set, error) {
		m := DefaultMixtures
		m.Clients, m.Seed, m.Heterogeneity = clients, seed, heterogeneity
		return m.Set()
	},
}

// checkConvex bounds a set in memory.
func checkConvex(clients, samples, width int, heterogeneity float64) error {
	if clients > maxSyntheticClients || int64(samples) > maxConvexValues || int64(width) > maxConvexValues ||
		float64(clients)*float64(samples)*float64(width) > maxConvexValues {
		return fmt.Errorf("data: %d clients of %d samples with %d values are more than %d", clients, samples, width, maxConvexValues)
	}
	if !(heterogeneity >= 0) || math.IsInf(heterogeneity, 0) {
		return fmt.Errorf("data: heterogeneity %v, want a finite number of at least 0", heterogeneity)
	}
	return nil
}

func convexDigest(task, of string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "fedpace convex 1\n%s\n%s\n", task, of))
	return hex.EncodeToString(sum[:])
}

// variates are numbers of mean 0 and variance 1, uniform and so bounded, that
// are the same on every machine.
type variates uint64

func (v variates) at(parts ...uint64) float64 {
	u := keyed.Float64(keyed.Hash(uint64(v), keyed.Synthetic, parts...))
	return float64((2*u - 1) * math.Sqrt(3))
}

// client makes client c's matrix and samples.
func (s *quadratics) client(c int, centre, axis variates) {
	n := s.q.Dimension
	own := variates(keyed.Hash(s.q.Seed, keyed.Synthetic, uint64(c), partHabits))
	a, v := s.matrix[c*2*n:][:n], s.matrix[(c*2+1)*n:][:n]
	direction, square := make([]float64, n), 0.0
	for j := range n {
		a[j] = float32(s.q.Mu + float64((s.q.L-s.q.Mu)*float64(j)/float64(n-1)))
		direction[j] = axis.at(uint64(j)) + float64(s.q.Heterogeneity*own.at(1, uint64(j)))
		square += float64(direction[j] * direction[j])
	}
	for j := range n {
		v[j] = float32(direction[j] / math.Sqrt(square))
	}
	mean := make([]float64, n)
	for i := range s.q.Samples {
		row := s.targets[(c*s.q.Samples+i)*n:][:n]
		for j := range n {
			at := centre.at(uint64(j)) + float64(s.q.Heterogeneity*own.at(2, uint64(j)))
			row[j] = float32(at + float64(s.q.Noise*own.at(3, uint64(i), uint64(j))))
			mean[j] += float64(row[j])
		}
	}
	for j, m := range mean {
		s.means[c*n+j] = float32(m / float64(s.q.Samples))
	}
}

func (s *quadratics) Info() federated.Info { return s.info }
func (s *quadratics) Clients() int         { return s.q.Clients }
func (s *quadratics) Client(c int) string  { return fmt.Sprintf("synthetic-%d", c) }
func (s *quadratics) Samples(int) int      { return s.q.Samples }
func (s *quadratics) HeldOut() int         { return s.q.Clients }
func (s *quadratics) Close() error         { return nil }

func (s *quadratics) append(dst *learn.Batch, c int, b []float32) {
	n := s.q.Dimension
	dst.X = append(append(dst.X, b...), s.matrix[c*2*n:][:2*n]...)
	dst.Labels = append(dst.Labels, 0)
	dst.N++
}

// Batch appends samples of client c.
func (s *quadratics) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := checkSamples(quadraticTask, c, s.q.Clients, samples, s.q.Samples); err != nil {
		return err
	}
	for _, i := range samples {
		s.append(dst, c, s.targets[(c*s.q.Samples+int(i))*s.q.Dimension:][:s.q.Dimension])
	}
	return nil
}

// HeldOutBatch appends one sample for each client: its A and the mean of its b.
// Their mean loss is F(x) − Σ p_c f_c*, free of noise, and Γ at x*.
func (s *quadratics) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.HeldOut()-n {
		return fmt.Errorf("data: quadratic: held-out samples %d to %d of %d", from, from+n, s.HeldOut())
	}
	for c := from; c < from+n; c++ {
		s.append(dst, c, s.means[c*s.q.Dimension:][:s.q.Dimension])
	}
	return nil
}

func checkSamples(task string, c, clients int, samples []int32, most int) error {
	if c < 0 || c >= clients {
		return fmt.Errorf("data: %s: client %d of %d", task, c, clients)
	}
	for _, i := range samples {
		if i < 0 || int(i) >= most {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", task, i, c, most)
		}
	}
	return nil
}

// Mixtures asks for samples to classify: a mean for each class, that overlap,
// with a client's own mean and its own shares of the classes on top. Labels
// follow a Dirichlet distribution with every parameter 1/Heterogeneity, and
// Heterogeneity is also how far the means of clients lie apart.
type Mixtures struct {
	Clients       int // 0: 50
	Features      int
	Classes       int
	Samples       int // of each client, for training; a fifth as many are held out
	Heterogeneity float64
	Seed          uint64
}

// DefaultMixtures is a problem small enough for runs of seconds.
var DefaultMixtures = Mixtures{Features: 20, Classes: 5, Samples: 50, Heterogeneity: 1}

// separation is the deviation of the classes' means in each feature, beside 1
// within a class: classes overlap.
const separation = 0.5

// mixtures is the set: rows by client, those for training first.
type mixtures struct {
	m      Mixtures
	info   federated.Info
	held   int // of each client
	rows   []float32
	labels []int32
}

// Set makes the data.
func (m Mixtures) Set() (federated.Set, error) {
	if m.Clients == 0 {
		m.Clients = convexClients
	}
	if m.Clients < 0 || m.Features < 1 || m.Classes < 2 || m.Samples < 1 || m.Classes > 1<<16 {
		return nil, fmt.Errorf("data: %d clients with %d samples each of %d features in %d classes, want at least 1, 1, 1 and 2", m.Clients, m.Samples, m.Features, m.Classes)
	}
	if err := checkConvex(m.Clients, m.Samples+max(1, m.Samples/4), m.Features, m.Heterogeneity); err != nil {
		return nil, err
	}
	s := &mixtures{m: m, held: max(1, m.Samples/4)}
	s.info = federated.Info{
		Name: "logistic (synthetic)", Synthetic: true,
		Note:   fmt.Sprintf("made samples, heterogeneity %g", m.Heterogeneity),
		Digest: convexDigest(logisticTask, fmt.Sprintf("%+v", m)),
		Input:  learn.Dense, Features: m.Features, Classes: m.Classes,
	}
	each := m.Samples + s.held
	s.rows, s.labels = make([]float32, m.Clients*each*m.Features), make([]int32, m.Clients*each)
	for c := range m.Clients {
		s.client(c)
	}
	return s, nil
}

// client makes client c's samples. Labels come from Pólya's urn, as in
// [Synthetic]; the held-out ones are drawn from what the training ones left.
func (s *mixtures) client(c int) {
	own := variates(keyed.Hash(s.m.Seed, keyed.Synthetic, uint64(c), partHabits))
	all := variates(keyed.Hash(s.m.Seed, keyed.Synthetic, partTask, 3))
	each := s.m.Samples + s.held
	labels := s.labels[c*each:][:each]
	scale := 1 / math.Sqrt(float64(s.m.Features))
	for i := range each {
		urn := labels[:min(i, s.m.Samples)]
		h := keyed.Hash(s.m.Seed, keyed.Synthetic, uint64(c), partLabels, uint64(i))
		k, drawn := float64(s.m.Classes), float64(s.m.Heterogeneity*float64(len(urn)))
		pick := keyed.Hash(h, keyed.Synthetic)
		if u := keyed.Float64(h); float64(u*(k+drawn)) >= k {
			labels[i] = urn[keyed.Below(pick, uint64(len(urn)))]
		} else {
			labels[i] = int32(keyed.Below(pick, uint64(s.m.Classes)))
		}
		row := s.rows[(c*each+i)*s.m.Features:][:s.m.Features]
		for j := range row {
			mean := float64(separation*all.at(uint64(labels[i]), uint64(j))) + float64(separation*s.m.Heterogeneity*own.at(1, uint64(j)))
			row[j] = float32(float64((mean + own.at(2, uint64(i), uint64(j))) * scale))
		}
	}
}

func (s *mixtures) Info() federated.Info { return s.info }
func (s *mixtures) Clients() int         { return s.m.Clients }
func (s *mixtures) Client(c int) string  { return fmt.Sprintf("synthetic-%d", c) }
func (s *mixtures) Samples(int) int      { return s.m.Samples }
func (s *mixtures) HeldOut() int         { return min(maxHeldOut, s.m.Clients*s.held) }
func (s *mixtures) Close() error         { return nil }

func (s *mixtures) append(dst *learn.Batch, at int) {
	dst.X = append(dst.X, s.rows[at*s.m.Features:][:s.m.Features]...)
	dst.Labels = append(dst.Labels, s.labels[at])
	dst.N++
}

// Batch appends samples of client c.
func (s *mixtures) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := checkSamples(logisticTask, c, s.m.Clients, samples, s.m.Samples); err != nil {
		return err
	}
	for _, i := range samples {
		s.append(dst, c*(s.m.Samples+s.held)+int(i))
	}
	return nil
}

// HeldOutBatch appends held-out samples, client by client.
func (s *mixtures) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.HeldOut()-n {
		return fmt.Errorf("data: logistic: held-out samples %d to %d of %d", from, from+n, s.HeldOut())
	}
	for i := from; i < from+n; i++ {
		c := i / s.held
		s.append(dst, c*(s.m.Samples+s.held)+s.m.Samples+i%s.held)
	}
	return nil
}
