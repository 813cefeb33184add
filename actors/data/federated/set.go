package federated

import (
	"fmt"
	"math"

	"fedpace/actors/learn"
)

// Info describes a set in the words that reports use.
type Info struct {
	Name           string // e.g. "femnist (parquet)"
	Synthetic      bool   // made, or real samples in a made grouping; every report says so
	Undealt        bool   `json:",omitempty"` // nobody's samples, which need a partition: its one client stands for all
	Note           string // what a reader must know, e.g. what is synthetic about it
	HeldOutClients int    `json:",omitempty"` // that have held-out samples alone, and are none of the set's
	Digest         string // hex SHA-256 that identifies the samples and their split
	learn.Samples
	Schema
}

func (i *Info) AddNote(format string, args ...any) {
	if i.Note != "" {
		i.Note += "; "
	}
	i.Note += fmt.Sprintf(format, args...)
}

// Check says how a batch of n samples breaks what a set promises of it.
func (i *Info) Check(b *learn.Batch, n int) error {
	if b.N != n {
		return fmt.Errorf("a batch of %d samples, want %d", b.N, n)
	}
	if err := b.Check(i.Samples); err != nil {
		return err
	}
	for k := 1; k < len(b.RowStart); k++ { // only sparse samples have rows
		for j := b.RowStart[k-1] + 1; j < b.RowStart[k]; j++ {
			if b.Index[j] <= b.Index[j-1] {
				return fmt.Errorf("sample %d: index %d after %d, want ascending ones", k-1, b.Index[j], b.Index[j-1])
			}
		}
	}
	for _, values := range [][]float32{b.X, b.Value, b.Targets} {
		for _, x := range values {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				return fmt.Errorf("a value is %v, want finite ones", x)
			}
		}
	}
	return nil
}

// Set is a federated dataset. Its methods may be called concurrently.
type Set interface {
	Info() Info
	// Clients is the number of clients, numbered from 0; Client names one.
	Clients() int
	Client(c int) string
	// Samples is the number of client c's training samples, at least 1.
	Samples(c int) int
	// Batch appends to dst the given training samples (0..Samples(c)-1) of
	// client c. It returns an error when the samples cannot be read.
	Batch(dst *learn.Batch, c int, samples []int32) error
	// HeldOut is the number of validation samples, pooled over all clients;
	// HeldOutBatch appends samples from..from+n-1 of them.
	HeldOut() int
	HeldOutBatch(dst *learn.Batch, from, n int) error
	// Close releases files and maps.
	Close() error
}

// CheckSamples says whether a set has these training samples of client c.
func CheckSamples(s Set, c int, samples []int32) error {
	if c < 0 || c >= s.Clients() {
		return fmt.Errorf("data: %s: client %d of %d", s.Info().Name, c, s.Clients())
	}
	n := s.Samples(c)
	for _, i := range samples {
		if i < 0 || int(i) >= n {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.Info().Name, i, c, n)
		}
	}
	return nil
}

// CheckHeldOut says whether a set has held-out samples from..from+n-1.
func CheckHeldOut(s Set, from, n int) error {
	if from < 0 || n < 0 || from > s.HeldOut()-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.Info().Name, from, from+n, s.HeldOut())
	}
	return nil
}

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
