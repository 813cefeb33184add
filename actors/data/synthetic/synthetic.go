package synthetic

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// maxSyntheticClients bounds what a mistyped number can ask for.
const maxSyntheticClients = 1 << 28

// maxHeldOut is the size of a synthetic set's validation part: enough for a
// standard error of half a percent, small enough to evaluate often.
const maxHeldOut = 10_000

// recipe is a task's way to make samples. A sample is made as a record of
// fixed size in integer arithmetic, so that it has the same bits everywhere.
type recipe struct {
	task     string
	clients  int // of the paper
	counts   []int
	input    learn.Input
	features int
	classes  int
	record   int // bytes of a record
	// client prepares what a client's samples share. shift is the share of
	// the client's own habits in its samples, in 1/256: 0 for none, below 256.
	client func(seed uint64, client uint64, shift int) maker
}

// maker makes the samples of one client. make depends on its arguments only
// and may be called concurrently.
type maker interface {
	make(record []byte, label int, key uint64)
}

// recipes by task; see synthetic_*.go.
var recipes = map[string]func() (recipe, decoder){
	"cifar100": syntheticCIFAR100,
	"femnist":  syntheticFEMNIST,
	"sent140":  syntheticSent140,
}

// decoder appends a record to a batch; Labels and N are the caller's.
type decoder func(dst *learn.Batch, record []byte)

// The parts of a Synthetic key.
const (
	partCount   = iota // (client): how many samples
	partLabels         // (client): the labels in order
	partHabits         // (client): what its samples share
	partSample         // (client, sample)
	partTask           // what all clients share, whatever the seed
	partHeldOut        // (client): labels of held-out samples
)

// New makes a federated set for a task (femnist, sent140, cifar100,
// shakespeare) with the given number of clients, 0 for the paper's (3,000,
// 21,876, 500 and 660). Samples per client
// follow a spread like the real sets'. quadratic and logistic are
// [DefaultQuadratics] and [DefaultMixtures], with 50 clients unless told.
//
// heterogeneity sets in how far clients differ. At 0 samples are independent
// and identically distributed. Above, the labels of a client follow a
// Dirichlet distribution with every parameter 1/heterogeneity, and the share
// h/(1+h) of what varies between samples becomes a habit of the client
// instead: the same label looks different from client to client.
//
// A client is made when its samples are first asked for; only a bounded number
// of clients stays in memory. The same arguments give the same bits on every
// machine.
func New(task string, clients int, seed uint64, heterogeneity float64) (federated.Set, error) {
	if convex, ok := defaultConvex[task]; ok {
		return convex(clients, seed, heterogeneity)
	}
	prepare, ok := recipes[task]
	if !ok && task != textTask {
		return nil, fmt.Errorf("data: no synthetic set for task %q, want one of %s", task, strings.Join(Tasks(), ", "))
	}
	if clients < 0 || clients > maxSyntheticClients {
		return nil, fmt.Errorf("data: synthetic %s: %d clients, want 1 to %d, or 0 for the paper's number", task, clients, maxSyntheticClients)
	}
	if math.IsNaN(heterogeneity) || math.IsInf(heterogeneity, 0) || heterogeneity < 0 {
		return nil, fmt.Errorf("data: synthetic %s: heterogeneity %v, want a finite number of at least 0", task, heterogeneity)
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "fedpace synthetic 1\n%s\n%d\n%d\n%016x\n", task, clients, seed, math.Float64bits(heterogeneity)))
	share := int(256 * (heterogeneity / (1 + heterogeneity)))
	if task == textTask {
		return newSyntheticText(clients, seed, heterogeneity, share, hex.EncodeToString(digest[:])), nil
	}
	r, decode := prepare()
	if clients == 0 {
		clients = r.clients
	}
	s := &synthetic{
		recipe: r,
		decode: decode,
		n:      clients,
		seed:   seed,
		h:      heterogeneity,
		shift:  share,
		held:   min(maxHeldOut, clients*r.heldOutPerClient()),
	}
	s.cache.limit = cacheBytes
	s.cache.make = s.open
	s.digest = hex.EncodeToString(digest[:])
	return s, nil
}

// Tasks names the tasks that Synthetic makes sets for.
func Tasks() []string {
	names := []string{textTask, quadraticTask, logisticTask}
	for name := range recipes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// heldOutPerClient is a fifth of the samples against four fifths for training,
// as in the real sets, taken at the smallest client so that each has as many.
func (r *recipe) heldOutPerClient() int { return max(1, r.counts[0]/4) }

// synthetic is the Set of all recipes.
type synthetic struct {
	recipe
	decode decoder
	n      int
	seed   uint64
	h      float64
	shift  int
	held   int
	digest string

	cache cache
	pool  heldOutPool
}

// Info describes the set.
func (s *synthetic) Info() federated.Info {
	return federated.Info{
		Name:      s.task + " (synthetic)",
		Synthetic: true,
		Note:      fmt.Sprintf("made samples, heterogeneity %g", s.h),
		Digest:    s.digest,
		Input:     s.input,
		Features:  s.features,
		Classes:   s.classes,
	}
}

// Clients is the number of clients.
func (s *synthetic) Clients() int { return s.n }

// Client names client c.
func (s *synthetic) Client(c int) string { return fmt.Sprintf("synthetic-%d", c) }

// Samples draws the client's number of samples from the recipe's quantiles,
// joined by straight lines.
func (s *synthetic) Samples(c int) int { return drawCount(s.counts, s.seed, c) }

// drawCount draws a client's number of samples from quantiles.
func drawCount(counts []int, seed uint64, c int) int {
	h := keyed.Hash(seed, keyed.Synthetic, uint64(c), partCount)
	pieces := uint64(len(counts) - 1)
	at := keyed.Below(h, pieces<<16)
	low, high := counts[at>>16], counts[at>>16+1]
	return low + (high-low)*int(at&0xffff)>>16
}

// Batch appends samples of client c.
func (s *synthetic) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= s.n {
		return fmt.Errorf("data: %s: client %d of %d", s.task, c, s.n)
	}
	e := s.cache.get(c)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, i := range samples {
		if i < 0 || int(i) >= len(e.labels) {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.task, i, c, len(e.labels))
		}
		record := e.records[int(i)*s.record : (int(i)+1)*s.record]
		if !e.made[i] {
			e.maker.make(record, int(e.labels[i]), keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partSample, uint64(i)))
			e.made[i] = true
		}
		s.append(dst, record, int32(e.labels[i]))
	}
	return nil
}

func (s *synthetic) append(dst *learn.Batch, record []byte, label int32) {
	s.decode(dst, record)
	dst.Labels = append(dst.Labels, label)
	dst.N++
}

// open prepares a client without making any sample.
func (s *synthetic) open(c int) *cached {
	n := s.Samples(c)
	e := &cached{
		labels:  make([]uint8, n),
		made:    make([]bool, n),
		records: make([]byte, n*s.record),
		maker:   s.client(s.seed, uint64(c), s.shift),
	}
	s.label(e.labels, nil, c)
	return e
}

// label draws the labels of a client: n training labels, then held-out ones
// that follow the same distribution.
//
// Labels with Dirichlet(1/h) proportions are drawn without the proportions, by
// Pólya's urn: label i is a fresh uniform one with probability K/(K + h i) and
// else a copy of an earlier one. That needs no logarithm and no power, whose
// last bits differ between machines.
func (s *synthetic) label(train, held []uint8, c int) {
	k := float64(s.classes)
	draw := func(urn []uint8, i int, part uint64) uint8 {
		h := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), part, uint64(i))
		i = len(urn)
		u := keyed.Float64(h)
		h = keyed.Hash(h, keyed.Synthetic)
		if drawn := float64(s.h * float64(i)); float64(u*(k+drawn)) >= k && i > 0 {
			return urn[keyed.Below(h, uint64(i))]
		}
		return uint8(keyed.Below(h, uint64(s.classes)))
	}
	for i := range train {
		train[i] = draw(train[:i], i, partLabels)
	}
	for i := range held {
		held[i] = draw(train, i, partHeldOut)
	}
}

// HeldOut is the number of held-out samples.
func (s *synthetic) HeldOut() int { return s.held }

// HeldOutBatch appends held-out samples.
func (s *synthetic) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > s.held-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.task, from, from+n, s.held)
	}
	s.pool.once.Do(s.makeHeldOut)
	for i := from; i < from+n; i++ {
		s.append(dst, s.pool.records[i*s.record:(i+1)*s.record], int32(s.pool.labels[i]))
	}
	return nil
}

// makeHeldOut makes the whole validation part: it is small, and every
// evaluation reads all of it. Its samples are spread evenly over the clients.
func (s *synthetic) makeHeldOut() {
	s.pool.records = make([]byte, s.held*s.record)
	s.pool.labels = make([]uint8, s.held)
	var train []uint8
	for from := 0; from < s.held; {
		c := from * s.n / s.held
		to := from + 1
		for to < s.held && to*s.n/s.held == c {
			to++
		}
		train = slices.Grow(train[:0], s.Samples(c))[:s.Samples(c)]
		s.label(train, s.pool.labels[from:to], c)
		maker := s.client(s.seed, uint64(c), s.shift)
		for i := from; i < to; i++ {
			key := keyed.Hash(s.seed, keyed.Synthetic, uint64(c), partHeldOut, uint64(i-from), partSample)
			maker.make(s.pool.records[i*s.record:(i+1)*s.record], int(s.pool.labels[i]), key)
		}
		from = to
	}
}

// Close releases nothing: made samples hold no file.
func (s *synthetic) Close() error { return nil }
