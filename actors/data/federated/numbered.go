package federated

import (
	"fmt"

	"fedpace/actors/learn"
)

// Numbered is a set whose samples have numbers, by which another process that has them,
// too, is told which are meant.
type Numbered interface {
	Set
	// Row is the number of client c's training sample i, HeldOutRow that of held-out
	// sample i.
	Row(c int, i int32) int32
	HeldOutRow(i int) int32
}

// Row is the sample's place in the rows.
func (s *Grouped) Row(c int, i int32) int32 { return s.Train[s.Starts[c]+int(i)] }

// HeldOutRow is the held-out sample's place in the rows.
func (s *Grouped) HeldOutRow(i int) int32 { return s.Held[i] }

// Number is a set with numbers. What makes samples on demand makes all of them: made says
// that they are in memory for this alone.
func Number(set Set) (_ Numbered, made bool, err error) {
	if m, ok := set.(interface{ Mapped() Set }); ok {
		set = m.Mapped()
	}
	switch s := set.(type) {
	case Numbered:
		return s, false, nil
	case interface{ Grouped() *Grouped }:
		return s.Grouped(), true, nil
	}
	g, err := collect(set)
	return g, true, err
}

// collect reads all samples of a set of a kind of its own.
func collect(set Set) (*Grouped, error) {
	info := set.Info()
	if info.Input != learn.Dense {
		return nil, fmt.Errorf("%s is a %T, whose samples are %s and cannot be handed to another process", info.Name, set, info.Input)
	}
	g := &Grouped{About: info, Starts: []int{0}}
	var batch learn.Batch
	for c := range set.Clients() {
		samples := make([]int32, set.Samples(c))
		for i := range samples {
			samples[i] = int32(i)
			g.Train = append(g.Train, int32(len(g.Train)))
		}
		if err := set.Batch(&batch, c, samples); err != nil {
			return nil, err
		}
		g.Names, g.Starts = append(g.Names, set.Client(c)), append(g.Starts, len(g.Train))
	}
	for i := range set.HeldOut() {
		g.Held = append(g.Held, int32(len(g.Train)+i))
	}
	if err := set.HeldOutBatch(&batch, 0, set.HeldOut()); err != nil {
		return nil, err
	}
	g.Labels, g.Targets, g.Rows = batch.Labels, batch.Targets, &FloatRows{Width: info.Features, Values: batch.X}
	return g, nil
}
