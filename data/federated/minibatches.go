package federated

import (
	"fmt"
	"math/rand/v2"

	"fedpace/internal/keyed"
)

// Minibatches is the order in which one client goes through its training
// samples. It follows the published code of the paper's authors: a permutation
// persists across rounds, its last batch is filled up from the head of the
// same permutation, then the client reshuffles and starts at 0. A client with
// fewer samples than the batch size uses all it has.
//
// One epoch is thus ceil(samples/batch) steps, and the batch at step s follows
// from (seed, client, s) alone: epoch s / steps-per-epoch names the permutation
// and the remainder the place in it. Lost work is done again by Reset to the
// same step.
//
// The zero value is ready for Reset. A worker keeps one and resets it for each
// client; it is not safe for concurrent use.
type Minibatches struct {
	seed   uint64
	client uint64
	// epochSteps is the number of steps in one epoch.
	epochSteps int64
	// epoch is the number of the epoch whose permutation perm holds.
	epoch int64
	// stepInEpoch is the number of the next step within its epoch, from 0; epochSteps if the epoch is over.
	stepInEpoch int64
	// batch is the number of samples in one minibatch, at most len(perm).
	batch int
	// perm has the numbers of all samples of the client, from 0, in the order of the epoch.
	perm []int32
	// next is the memory of the minibatch that Next returns.
	next   []int32
	source rand.PCG
}

// Reset sets m to the order of a client's minibatches: the next call of Next gives that of the step after
// the client's first stepsDone steps. samples is the number of the client's samples, and batch the size of a
// minibatch. It panics when samples or batch is below 1 or stepsDone is negative.
func (m *Minibatches) Reset(seed uint64, client, samples, batch int, stepsDone int64) {
	if samples < 1 || batch < 1 || stepsDone < 0 {
		panic(fmt.Sprintf("data: Minibatches.Reset(samples %d, batch %d, steps done %d)", samples, batch, stepsDone))
	}
	m.seed = seed
	m.client = uint64(client)
	// An epoch has as many steps as minibatches hold all samples.
	m.epochSteps = (int64(samples) + int64(batch) - 1) / int64(batch)
	m.batch = min(batch, samples)
	m.perm = Grow(m.perm[:0], samples)
	m.next = Grow(m.next[:0], m.batch)
	m.epoch = stepsDone / m.epochSteps
	m.stepInEpoch = stepsDone % m.epochSteps
	m.shuffle()
}

// Next returns the samples of the next step: min(batch, samples) distinct numbers, from 0 within the client.
// The slice is valid until the next call.
func (m *Minibatches) Next() []int32 {
	if m.stepInEpoch == m.epochSteps {
		m.epoch++
		m.stepInEpoch = 0
		m.shuffle()
	}
	start := int(m.stepInEpoch) * m.batch
	// taken is less than the batch where the permutation ends within it.
	taken := copy(m.next, m.perm[start:])
	// The last batch of an epoch is filled up from the head of the permutation.
	copy(m.next[taken:], m.perm)
	m.stepInEpoch++
	return m.next
}

// shuffle sets perm to the permutation of the epoch, which follows from the seed, the client and the epoch.
func (m *Minibatches) shuffle() {
	keyed.Reseed(&m.source, m.seed, keyed.Permutation, m.client, uint64(m.epoch))
	fillAscending(m.perm)
	Shuffle(m.perm, &m.source)
}
