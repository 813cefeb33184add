package aggregate

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestHeldOutShards_CoverSamples draws how many of how many samples are measured: shards are in
// order, do not overlap, and cover as many samples as asked for.
func TestHeldOutShards_CoverSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heldOut := rapid.IntRange(1, 500_000).Draw(t, "held out")
		samples := rapid.IntRange(0, heldOut+10).Draw(t, "samples")
		want := samples
		wantSpread := samples
		if samples == 0 || samples >= heldOut {
			want = heldOut
			wantSpread = 0
		}
		end := 0
		for i, s := range heldOutShards(heldOut, samples) {
			if int(s.Index) != i || int(s.From) != end || s.Count < 1 || int(s.Spread) != wantSpread {
				t.Fatalf("shard %d is %+v, the one before ends at %d", i, s, end)
			}
			end += int(s.Count)
		}
		if end != want {
			t.Fatalf("%d samples, want %d", end, want)
		}
	})
}

// TestHeldOutShards_Sizes has the numbers of shards counted by hand.
func TestHeldOutShards_Sizes(t *testing.T) {
	for _, c := range []struct{ heldOut, samples, shards, last int }{
		{1000, 64, 1, 64},
		{1000, 200, 4, 8},
		{1000, 999, 16, 39},
		{1000, 1000, 1, 1000},
		{2049, 0, 3, 1},
	} {
		t.Run(fmt.Sprint(c.samples, " of ", c.heldOut), func(t *testing.T) {
			got := heldOutShards(c.heldOut, c.samples)
			if last := got[len(got)-1]; len(got) != c.shards || int(last.Count) != c.last {
				t.Errorf("%d shards, the last %+v; want %+v", len(got), last, c)
			}
		})
	}
}
