package federated

import (
	"slices"

	"fedpace/actors/learn"
)

// Windows is the Set of next-character prediction: sample i of a role is the
// window characters from its place i, its label the character after them. The
// text is kept once; windows overlap in it and are never expanded.
type Windows struct {
	About  Info
	Names  []string
	Starts []int   // of client c's text
	Train  []int32 // windows that client c trains on, from its start
	Pool   []int   // held-out windows before client c; one more than clients
	Text   []uint8 // vocabulary indices
}

// The clients are roles, named as LEAF does: play and character.

func (s *Windows) TaskName() string    { return "shakespeare" }
func (s *Windows) Info() Info          { return s.About }
func (s *Windows) Clients() int        { return len(s.Names) }
func (s *Windows) Client(c int) string { return s.Names[c] }
func (s *Windows) Samples(c int) int   { return int(s.Train[c]) }
func (s *Windows) HeldOut() int        { return s.Pool[len(s.Names)] }
func (s *Windows) Close() error        { return nil }

func (s *Windows) Batch(dst *learn.Batch, c int, samples []int32) error {
	if err := CheckSamples(s, c, samples); err != nil {
		return err
	}
	for _, i := range samples {
		s.append(dst, s.Starts[c]+int(i))
	}
	return nil
}

// HeldOutBatch appends held-out windows, role by role.
func (s *Windows) HeldOutBatch(dst *learn.Batch, from, n int) error {
	if err := CheckHeldOut(s, from, n); err != nil {
		return err
	}
	c, _ := slices.BinarySearch(s.Pool, from+1)
	for i := from; i < from+n; i++ {
		for i >= s.Pool[c] {
			c++
		}
		s.append(dst, s.heldOut(c-1, i))
	}
	return nil
}

func (s *Windows) append(dst *learn.Batch, from int) {
	dst.Tokens = append(dst.Tokens, s.Text[from:][:ShakespeareWindow]...)
	dst.Labels = append(dst.Labels, int32(s.Text[from+ShakespeareWindow]))
	dst.N++
}

func (s *Windows) Memory() int {
	return len(s.Text) + 4*len(s.Train) + 8*len(s.Starts) + 8*len(s.Pool)
}

// Row is the place in the text at which window i of client c begins.
func (s *Windows) Row(c int, i int32) int32 { return int32(s.Starts[c]) + i }

// HeldOutRow is the place of held-out window i.
func (s *Windows) HeldOutRow(i int) int32 {
	c, _ := slices.BinarySearch(s.Pool, i+1)
	return int32(s.heldOut(c-1, i))
}

// heldOut is the place in the text of held-out window i, which is one of client c.
func (s *Windows) heldOut(c, i int) int {
	return s.Starts[c] + int(s.Train[c]) + ShakespeareWindow - 1 + i - s.Pool[c]
}
