package secagg

import (
	"math"
	"math/bits"
	"testing"

	"fedpace/internal/testkit/slow"
)

// TestMask_UploadsLookAlike plays rounds in which a member sends an update of zeros
// or one at the upper bound, and looks at the bits of what it uploads. Whoever could tell the two apart
// would see another share of ones at some bit, or another correlation of bits that follow each other.
func TestMask_UploadsLookAlike(t *testing.T) {
	rounds := 300
	if slow.On() {
		rounds = 10_000
	}
	const length = 4
	var ones, pairs [2][64]int
	terms := Terms{
		Neighbours: 2,
		Threshold:  2,
		Minimum:    3,
	}
	for number := range rounds {
		for kind, value := range []uint64{0, 1 << 61} {
			r := newRig(t, 3, length, terms, uint64(2*number+kind))
			for i := range r.words[0] {
				r.words[0][i] = value
				r.updates[0][i] = value
			}
			r.uploads()
			for _, w := range r.words[0] {
				follows := w ^ bits.RotateLeft64(w, 1)
				for bit := range 64 {
					ones[kind][bit] += int(w >> bit & 1)
					pairs[kind][bit] += int(follows >> bit & 1)
				}
			}
		}
	}
	// Each of 256 counts is binomial with p = 1/2. Five deviations of a difference of two such counts
	// are passed once in 10,000 tests of 128 differences.
	n := float64(rounds * length)
	limit := 5 * math.Sqrt(n/2)
	for bit := range 64 {
		for name, counts := range map[string][2][64]int{"ones": ones, "changes": pairs} {
			if d := math.Abs(float64(counts[0][bit] - counts[1][bit])); d > limit {
				t.Errorf("bit %d: %d and %d %s of %.0f", bit, counts[0][bit], counts[1][bit], name, n)
			}
			if d := math.Abs(float64(counts[0][bit]) - n/2); d > limit {
				t.Errorf("bit %d: %d %s of %.0f", bit, counts[0][bit], name, n)
			}
		}
	}
}

// uploads plays a round up to the masked uploads.
func (r *rig) uploads() {
	r.t.Helper()
	s := r.server
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Keys()
		if err != nil {
			return err
		}
		return s.Keys(client, b)
	})
	roster, err := s.Roster()
	if err != nil {
		r.t.Fatal(err)
	}
	r.each(func(_ int, client uint32, x *Client) error {
		b, err := x.Shares(roster)
		if err != nil {
			return err
		}
		return s.Shares(client, b)
	})
	if _, err := s.Members(); err != nil {
		r.t.Fatal(err)
	}
	r.each(func(i int, client uint32, x *Client) error {
		inbox, err := s.Inbox(client)
		if err != nil {
			return err
		}
		return x.Mask(inbox, r.words[i])
	})
}
