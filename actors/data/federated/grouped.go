package federated

import (
	"errors"
	"fmt"
	"slices"

	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// rows is the store of a set's samples, numbered from 0.
type Rows interface {
	// append appends sample i without its label.
	Append(dst *learn.Batch, i int)
}

// prefetcher is rows that lie anywhere in much memory: a sample that is asked for
// some samples ahead of its turn need not be waited for.
type prefetcher interface {
	Prefetch(i int)
}

// ahead is how many samples a batch is ahead in asking: some hundred nanoseconds.
const ahead = 4

// grouped is a Set of real samples in memory.
type Grouped struct {
	Task   string // "" for own data
	About  Info
	Names  []string
	Starts []int   // client c trains on train[start[c]:start[c+1]]
	Train  []int32 // samples
	Held   []int32
	Labels []int32 // by sample
	Rows   Rows
}

// grouping collects the clients of a set in order.
type Grouping struct {
	Names   []string
	Starts  []int
	Train   []int32
	Held    []int32
	Without int // clients left out for want of a training sample
}

// add appends a client. A client that cannot train is left out, its held-out
// samples with it.
func (g *Grouping) Add(name string, train, held []int32) {
	if len(train) == 0 {
		g.Without++
		return
	}
	g.Names = append(g.Names, name)
	g.Starts = append(g.Starts, len(g.Train))
	g.Train = append(g.Train, train...)
	g.Held = append(g.Held, held...)
}

// set makes the set, or says why there is none.
func (g *Grouping) Set(s Grouped) (*Grouped, error) {
	if len(g.Names) == 0 {
		return nil, errors.New("no client has a sample to train on")
	}
	if len(g.Held) == 0 {
		return nil, errors.New("no sample is held out for validation; want a client with at least 2 samples")
	}
	s.Names = g.Names
	s.Starts = append(g.Starts, len(g.Train))
	s.Train, s.Held = g.Train, g.Held
	if g.Without > 0 {
		s.About.AddNote("%d clients without a training sample left out", g.Without)
	}
	return &s, nil
}

func (i *Info) AddNote(format string, args ...any) {
	if i.Note != "" {
		i.Note += "; "
	}
	i.Note += fmt.Sprintf(format, args...)
}

// split parts a client's samples: a seeded choice of int(0.8 n) trains, the
// rest is held out; both keep their order (paper/NOTES, "Data").
func Split(seed uint64, client int, samples []int32) (train, held []int32) {
	n := len(samples)
	held = slices.Clone(samples)
	random := keyed.New(seed, keyed.Split, uint64(client))
	for i := n - 1; i > 0; i-- {
		j := keyed.Below(random.Uint64(), uint64(i+1))
		held[i], held[j] = held[j], held[i]
	}
	keep := 4 * n / 5
	train, held = held[:keep:keep], held[keep:]
	slices.Sort(train)
	slices.Sort(held)
	return train, held
}

func (s *Grouped) TaskName() string { return s.Task }

// Info describes the set.
func (s *Grouped) Info() Info { return s.About }

// Clients is the number of clients.
func (s *Grouped) Clients() int { return len(s.Names) }

// Client names client c as the source does.
func (s *Grouped) Client(c int) string { return s.Names[c] }

// Samples is the number of training samples of client c.
func (s *Grouped) Samples(c int) int { return s.Starts[c+1] - s.Starts[c] }

// Batch appends training samples of client c.
func (s *Grouped) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= len(s.Names) {
		return fmt.Errorf("data: %s: client %d of %d", s.About.Name, c, len(s.Names))
	}
	own := s.Train[s.Starts[c]:s.Starts[c+1]]
	for _, i := range samples {
		if i < 0 || int(i) >= len(own) {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.About.Name, i, c, len(own))
		}
	}
	for k, i := range samples {
		if k+ahead < len(samples) {
			s.prefetch(own[samples[k+ahead]])
		}
		s.append(dst, own[i])
	}
	return nil
}

// HeldOut is the number of held-out samples.
func (s *Grouped) HeldOut() int { return len(s.Held) }

// HeldOutBatch appends held-out samples; they are in the order of the clients.
func (s *Grouped) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > len(s.Held)-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.About.Name, from, from+n, len(s.Held))
	}
	held := s.Held[from : from+n]
	for k, i := range held {
		if k+ahead < n {
			s.prefetch(held[k+ahead])
		}
		s.append(dst, i)
	}
	return nil
}

func (s *Grouped) prefetch(i int32) {
	if p, ok := s.Rows.(prefetcher); ok {
		p.Prefetch(int(i))
	}
}

func (s *Grouped) append(dst *learn.Batch, i int32) {
	s.Rows.Append(dst, int(i))
	dst.Labels = append(dst.Labels, s.Labels[i])
	dst.N++
}

// Close releases nothing: the samples are in memory and no file is open.
func (s *Grouped) Close() error { return nil }

// Memory is the size of the samples and their index.
func (s *Grouped) Memory() int {
	n := 4*(len(s.Train)+len(s.Held)+len(s.Labels)) + 8*len(s.Starts)
	if r, ok := s.Rows.(interface{ Memory() int }); ok {
		n += r.Memory()
	}
	return n
}
