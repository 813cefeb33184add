package network

import (
	"iter"

	"fedpace/learn/internal/kernel"
)

// joint is the arithmetic of layers with batch norms, which need all samples of a minibatch at once. Each
// block of samples has a network of its own. They take turns, in the order of the blocks: each runs to
// the next batch norm, where it waits until all have come there (see [meeting]). Sums over the minibatch
// thus have a fixed order.
type joint struct {
	// parts are the networks of blocks. They are made when a minibatch first needs them.
	parts []*network
	// newPart makes the network of another block.
	newPart func() *network
	// blocks are the samples of each network, and losses the sums of their losses.
	blocks []Batch
	losses []float64
	meeting
}

// meeting is what the networks of one minibatch share.
type meeting struct {
	// blocks is the number of networks that take part.
	blocks int
	// norms are the sums of each batch norm, in the order of the layers.
	norms []*batchSums
}

// newJoint makes the arithmetic of a list of layers with batch norms, for one minibatch at a time. sizes is the
// number of the layers' parameters in each region of the model. It begins with the network of one block; all
// networks share j.meeting.
func newJoint(list []Layer, samples Samples, sizes [Regions]int, isa kernel.ISA) *joint {
	j := &joint{}
	j.newPart = func() *network { return newNetwork(list, samples, sizes, Lanes, isa, &j.meeting) }
	j.grow(1)
	return j
}

// grow makes networks until there are n.
func (j *joint) grow(n int) {
	for len(j.parts) < n {
		j.parts = append(j.parts, j.newPart())
	}
}

// singleNetwork returns the first network, prepared to run without waiting for others: for a minibatch of a
// single block, or for an evaluation block by block.
func (j *joint) singleNetwork() *network {
	j.meeting.blocks = 1
	j.parts[0].wait = nil
	return j.parts[0]
}

// divide sets j.blocks to the blocks of a minibatch, of up to [Lanes] samples each.
func (j *joint) divide(b *Batch) {
	samples := j.parts[0].samples
	j.blocks = j.blocks[:0]
	for first := 0; first < b.N; first += Lanes {
		j.blocks = append(j.blocks, b.part(samples, first, min(Lanes, b.N-first)))
	}
}

// Gradients implements [Arithmetic] for models with batch norms, which need the mean and the variance of a whole
// minibatch. The minibatch is divided into blocks, each with a network of its own. The networks are coroutines, of
// which one runs at a time: each pauses at a batch norm until all have added their samples to its sums.
func (j *joint) Gradients(params []float32, batch *Batch) (loss float64) {
	j.divide(batch)
	if len(j.blocks) == 1 {
		return j.singleNetwork().Gradients(params, &j.blocks[0])
	}
	j.grow(len(j.blocks))
	j.meeting.blocks = len(j.blocks)
	j.losses = append(j.losses[:0], make([]float64, len(j.blocks))...)
	resume := make([]func() (struct{}, bool), len(j.blocks))
	for k := range j.blocks {
		next, stop := iter.Pull(j.blockPass(k, params))
		// A coroutine that has ended is not affected. One still waits only where another panicked.
		defer stop()
		resume[k] = next
	}
	// All networks wait equally often, so all end in the same turn.
	for waiting := true; waiting; {
		for _, next := range resume {
			_, waiting = next()
		}
	}
	for _, sum := range j.losses {
		loss += sum
	}
	return loss / float64(batch.N)
}

// blockPass returns a coroutine that takes block k through its network, forward and back, and stores the sum of
// its losses. It yields wherever a batch norm waits for the other blocks.
func (j *joint) blockPass(k int, params []float32) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		part := j.parts[k]
		part.wait = func() {
			if !yield(struct{}{}) {
				panic("network: a block waits for others that do not come")
			}
		}
		j.losses[k] = part.sumGradients(params, &j.blocks[k])
	}
}

// Update implements [Arithmetic]: it adds alpha times the gradients of all blocks, one after the other, or
// stores their sum.
func (j *joint) Update(dst []float32, _ *Batch, op kernel.Op, alpha float32) {
	for k := range j.blocks {
		j.parts[k].Update(dst, &j.blocks[k], op, alpha)
		// The first block has stored, so that the others add.
		op = kernel.Add
	}
}

// Evaluate implements [Arithmetic]: it measures the batch block by block, with one network. In an evaluation batch
// norms take their running values, so that no block depends on the samples of another.
func (j *joint) Evaluate(params []float32, b *Batch, scores []Score) (loss float64) {
	j.divide(b)
	n := j.singleNetwork()
	for k := range j.blocks {
		loss += n.Evaluate(params, &j.blocks[k], scores)
	}
	return loss
}
