package data

import (
	"errors"
	"fmt"
	"slices"

	"fedpace/actors/learn"
	"fedpace/internal/keyed"
)

// rows is the store of a set's samples, numbered from 0.
type rows interface {
	// append appends sample i without its label.
	append(dst *learn.Batch, i int)
}

// prefetcher is rows that lie anywhere in much memory: a sample that is asked for
// some samples ahead of its turn need not be waited for.
type prefetcher interface {
	prefetch(i int)
}

// ahead is how many samples a batch is ahead in asking: some hundred nanoseconds.
const ahead = 4

// grouped is a Set of real samples in memory.
type grouped struct {
	task   string // "" for own data
	info   Info
	names  []string
	start  []int   // client c trains on train[start[c]:start[c+1]]
	train  []int32 // samples
	held   []int32
	labels []int32 // by sample
	rows   rows
}

// grouping collects the clients of a set in order.
type grouping struct {
	names   []string
	start   []int
	train   []int32
	held    []int32
	without int // clients left out for want of a training sample
}

// add appends a client. A client that cannot train is left out, its held-out
// samples with it.
func (g *grouping) add(name string, train, held []int32) {
	if len(train) == 0 {
		g.without++
		return
	}
	g.names = append(g.names, name)
	g.start = append(g.start, len(g.train))
	g.train = append(g.train, train...)
	g.held = append(g.held, held...)
}

// set makes the set, or says why there is none.
func (g *grouping) set(s grouped) (*grouped, error) {
	if len(g.names) == 0 {
		return nil, errors.New("no client has a sample to train on")
	}
	if len(g.held) == 0 {
		return nil, errors.New("no sample is held out for validation; want a client with at least 2 samples")
	}
	s.names = g.names
	s.start = append(g.start, len(g.train))
	s.train, s.held = g.train, g.held
	if g.without > 0 {
		s.info.note("%d clients without a training sample left out", g.without)
	}
	return &s, nil
}

func (i *Info) note(format string, args ...any) {
	if i.Note != "" {
		i.Note += "; "
	}
	i.Note += fmt.Sprintf(format, args...)
}

// split parts a client's samples: a seeded choice of int(0.8 n) trains, the
// rest is held out; both keep their order (paper/NOTES, "Data").
func split(seed uint64, client int, samples []int32) (train, held []int32) {
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

func (s *grouped) taskName() string { return s.task }

// Info describes the set.
func (s *grouped) Info() Info { return s.info }

// Clients is the number of clients.
func (s *grouped) Clients() int { return len(s.names) }

// Client names client c as the source does.
func (s *grouped) Client(c int) string { return s.names[c] }

// Samples is the number of training samples of client c.
func (s *grouped) Samples(c int) int { return s.start[c+1] - s.start[c] }

// Batch appends training samples of client c.
func (s *grouped) Batch(dst *learn.Batch, c int, samples []int32) error {
	if c < 0 || c >= len(s.names) {
		return fmt.Errorf("data: %s: client %d of %d", s.info.Name, c, len(s.names))
	}
	own := s.train[s.start[c]:s.start[c+1]]
	for _, i := range samples {
		if i < 0 || int(i) >= len(own) {
			return fmt.Errorf("data: %s: sample %d of client %d, which has %d", s.info.Name, i, c, len(own))
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
func (s *grouped) HeldOut() int { return len(s.held) }

// HeldOutBatch appends held-out samples; they are in the order of the clients.
func (s *grouped) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if from < 0 || n < 0 || from > len(s.held)-n {
		return fmt.Errorf("data: %s: held-out samples %d to %d of %d", s.info.Name, from, from+n, len(s.held))
	}
	held := s.held[from : from+n]
	for k, i := range held {
		if k+ahead < n {
			s.prefetch(held[k+ahead])
		}
		s.append(dst, i)
	}
	return nil
}

func (s *grouped) prefetch(i int32) {
	if p, ok := s.rows.(prefetcher); ok {
		p.prefetch(int(i))
	}
}

func (s *grouped) append(dst *learn.Batch, i int32) {
	s.rows.append(dst, int(i))
	dst.Labels = append(dst.Labels, s.labels[i])
	dst.N++
}

// Close releases nothing: the samples are in memory and no file is open.
func (s *grouped) Close() error { return nil }
