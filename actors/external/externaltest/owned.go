package externaltest

import (
	"sort"

	"fedpace/data/federated"
	"fedpace/learn"
)

// owned are samples that the trainer brings itself: rows are numbered client by client,
// those held out behind them.
type owned struct {
	set    federated.Set
	starts []int
}

// newOwned returns the samples of a set as those that the trainer brings itself. The rows of a
// client follow those of the client before.
func newOwned(set federated.Set) *owned {
	o := &owned{set: set, starts: []int{0}}
	for c := range set.Clients() {
		o.starts = append(o.starts, o.starts[c]+set.Samples(c))
	}
	return o
}

// about returns the description of the samples for the greeting: the clients' names and numbers of
// samples, the number of held-out samples and the digest.
func (o *owned) about() object {
	var names []string
	var samples []int
	for c := range o.set.Clients() {
		names = append(names, o.set.Client(c))
		samples = append(samples, o.set.Samples(c))
	}
	return object{"names": names, "samples": samples, "held_out": o.set.HeldOut(), "digest": o.set.Info().Digest}
}

// append appends the sample of the given row to the batch. Rows behind those of all clients are
// held-out samples.
func (o *owned) append(b *learn.Batch, row int) {
	clients := len(o.starts) - 1
	if row >= o.starts[clients] {
		check(o.set.HeldOutBatch(b, row-o.starts[clients], 1))
		return
	}
	c := sort.SearchInts(o.starts, row+1) - 1
	check(o.set.Batch(b, c, []int32{int32(row - o.starts[c])}))
}
