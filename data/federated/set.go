package federated

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"fedpace/learn"
)

// Info describes a set in the words that reports use.
type Info struct {
	// Name says what the set is and where it comes from, such as "femnist (parquet)".
	Name string
	// Synthetic says that samples are made, or that real samples are in a made grouping. Every
	// report says so.
	Synthetic bool
	// Undealt says that the samples belong to no client, so that a partition must deal them. Until
	// then one client has all of them.
	Undealt bool `json:",omitempty"`
	// Note is what a reader of results must know of the set, such as what is synthetic about it.
	Note string
	// Warnings are the parts of Note that a run says before it begins: what may make its results mean
	// something else than they seem to.
	Warnings []string `json:",omitempty"`
	// HeldOutClients is the number of clients that have held-out samples and no training sample.
	// They are not counted among the clients of the set.
	HeldOutClients int `json:",omitempty"`
	// Arrival says when samples arrive; nil means that all are there from the beginning.
	Arrival *Arrival `json:",omitempty"`
	// Digest is a SHA-256 in hexadecimal digits that identifies the samples and their split.
	Digest string
	// Source is such a digest of the files and of how they are read, which is the same for all seeds. It is
	// empty where no file was read, and in prepared files of earlier versions.
	Source string `json:",omitempty"`
	learn.Samples
	Schema
}

// Identify sets Digest and Source for a set that was read with the options o. layout and sources are those of
// [Options.Digest].
func (i *Info) Identify(o Options, layout string, sources ...[sha256.Size]byte) {
	i.Digest = o.Digest(layout, sources...)
	o.Seed = 0
	i.Source = o.Digest(layout, sources...)
}

// AddNote adds a remark for people on how the set was read.
func (i *Info) AddNote(format string, args ...any) {
	if i.Note != "" {
		i.Note += "; "
	}
	i.Note += fmt.Sprintf(format, args...)
}

// AddWarning adds a warning, which format and args make as fmt.Sprintf does. A run prints it before
// it begins. A warning that is there already is not added again.
func (i *Info) AddWarning(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if slices.Contains(i.Warnings, text) {
		return
	}
	i.Warnings = append(slices.Clip(i.Warnings), text)
	i.AddNote("%s", text)
}

// Check returns an error if the batch b is not what a set with this description promises: n samples
// of the right form, with finite values, and sparse rows with ascending indices.
func (i *Info) Check(b *learn.Batch, n int) error {
	if b.N != n {
		return fmt.Errorf("a batch of %d samples, want %d", b.N, n)
	}
	if err := b.Check(i.Samples); err != nil {
		return err
	}
	// Only sparse samples have RowStart; for others the loop has no step.
	for k := 1; k < len(b.RowStart); k++ {
		for j := b.RowStart[k-1] + 1; j < b.RowStart[k]; j++ {
			if b.Index[j] <= b.Index[j-1] {
				return fmt.Errorf("sample %d: index %d after %d, want ascending ones", k-1, b.Index[j], b.Index[j-1])
			}
		}
	}
	for _, values := range [][]float32{b.X, b.Value, b.Targets} {
		for _, x := range values {
			// The difference is NaN for infinities and NaN alone.
			if x-x != 0 {
				return fmt.Errorf("a value is %v, want finite ones", x)
			}
		}
	}
	return nil
}

// Set is a federated dataset. Its methods may be called concurrently.
type Set interface {
	// Info describes the set.
	Info() Info
	// Clients is the number of clients, which are numbered from 0.
	Clients() int
	// Client is the name of client c.
	Client(c int) string
	// Samples is the number of client c's training samples, at least 1.
	Samples(c int) int
	// Batch appends to dst the given training samples (0..Samples(c)-1) of
	// client c. It returns an error when the samples cannot be read.
	Batch(dst *learn.Batch, c int, samples []int32) error
	// HeldOut is the number of validation samples, pooled over all clients.
	HeldOut() int
	// HeldOutBatch appends the validation samples first..first+n-1 to dst.
	HeldOutBatch(dst *learn.Batch, first, n int) error
	// Close releases files and maps.
	Close() error
}

// CheckSamples returns an error unless client c of the set has all of these samples, which are
// numbered from 0 within the client.
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

// CheckHeldOut returns an error unless the set has all of the held-out samples first..first+n-1.
func CheckHeldOut(s Set, first, n int) error {
	if first < 0 || n < 0 || first > s.HeldOut()-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.Info().Name, first, first+n, s.HeldOut())
	}
	return nil
}

// Numbered is a set whose samples have numbers, by which messages to a process that has the same samples name
// them.
type Numbered interface {
	Set
	// Row is the number of client c's training sample i.
	Row(c int, i int32) int32
	// HeldOutRow is the number of held-out sample i.
	HeldOutRow(i int) int32
}

// InMemory is a set of which a copy with all samples in memory can be had.
type InMemory interface {
	// InMemory returns that set. made says that its samples were made for this call, as by a set that makes
	// samples on demand, so that the caller may use up their memory.
	InMemory() (s *Grouped, made bool)
}

// InMemory returns the set itself, which is in memory already: made is false.
func (s *Grouped) InMemory() (set *Grouped, made bool) { return s, false }

// Row returns the sample's place in the rows.
func (s *Grouped) Row(c int, i int32) int32 { return s.Train[s.Starts[c]+int(i)] }

// HeldOutRow returns the held-out sample's place in the rows.
func (s *Grouped) HeldOutRow(i int) int32 { return s.Held[i] }
