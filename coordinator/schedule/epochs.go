package schedule

import (
	"cmp"
	"math"
)

// Epochs is what a client's local steps follow from where a schedule of K counts
// epochs, in parts of which [Parts] are one: as many minibatches as that
// part of the client's samples fills, so that a client with more data takes longer.
type Epochs struct {
	Batch   int     // samples a minibatch; 0: K counts local steps
	Samples float64 // mean over the clients, for the K_r of reports
	// Own gives a client's own samples a minibatch, 0 for Batch; nil: all have Batch.
	Own func(client int) int
}

// Of is the epochs of one client.
func (e Epochs) Of(client int) Epochs {
	if e.Own != nil {
		e.Batch = cmp.Or(e.Own(client), e.Batch)
	}
	return e
}

// Steps is the local steps of a client with so many samples.
func (e Epochs) Steps(k int, samples float64) int {
	steps := math.Ceil(float64(k) * samples / (Parts * float64(e.Batch)))
	return int(min(max(1, steps), MaxK0+1))
}
