package external

import (
	"fmt"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// Owned is the set of a trainer that brings its own samples, which it alone can read:
// what is known of them is whose they are, and how many.
type Owned struct {
	about  federated.Info
	data   *OwnedData
	starts []int32 // row of each client's first sample, then that of the first held out
}

// Owned is the set of the trainer's own samples.
func (p *Program) Owned() *Owned {
	d := p.Greeting.Data
	s := &Owned{data: d, about: federated.Info{Name: p.Name + " (its own data)", Digest: d.Digest}, starts: []int32{0}}
	for c, n := range d.Samples {
		s.starts = append(s.starts, s.starts[c]+int32(n))
	}
	return s
}

func (s *Owned) Info() federated.Info { return s.about }
func (s *Owned) Clients() int         { return len(s.data.Names) }
func (s *Owned) Client(c int) string  { return s.data.Names[c] }
func (s *Owned) Samples(c int) int    { return s.data.Samples[c] }
func (s *Owned) HeldOut() int         { return s.data.HeldOut }
func (s *Owned) Close() error         { return nil }

// Tokens are those of a sample; 0: it has none.
func (s *Owned) Tokens() int { return s.data.Tokens }

// Row is the number of client c's sample i.
func (s *Owned) Row(c int, i int32) int32 { return s.starts[c] + i }

// HeldOutRow is the number of held-out sample i.
func (s *Owned) HeldOutRow(i int) int32 { return s.starts[len(s.starts)-1] + int32(i) }

func (s *Owned) Batch(*learn.Batch, int, []int32) error { return s.unread() }

func (s *Owned) HeldOutBatch(*learn.Batch, int, int) error { return s.unread() }

func (s *Owned) unread() error {
	return fmt.Errorf("the samples of %s are the trainer's, and cannot be read here", s.about.Name)
}
