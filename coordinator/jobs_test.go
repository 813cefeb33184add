package coordinator

import (
	"testing"

	"pgregory.net/rapid"
)

// Shards are in order, lie within the held-out samples, do not overlap, and
// cover what is asked for: all, or as many as asked but for what the even
// distances cost near all of them.
func TestShardsOfTheHeldOutSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heldOut := rapid.IntRange(1, 500_000).Draw(t, "held out")
		samples := rapid.IntRange(0, heldOut+10).Draw(t, "samples")
		end, total := 0, 0
		for i, s := range shards(heldOut, samples) {
			from, count := int(s.From), int(s.Count)
			if int(s.Index) != i || from < end || count < 1 {
				t.Fatalf("shard %d is %+v, the one before ends at %d", i, s, end)
			}
			end, total = from+count, total+count
		}
		if end > heldOut {
			t.Fatalf("the last shard ends at %d of %d", end, heldOut)
		}
		switch {
		case samples == 0 || samples >= heldOut:
			if total != heldOut {
				t.Fatalf("%d of all %d samples", total, heldOut)
			}
		case total > samples || total < samples/2 || 2*samples < heldOut && total != samples:
			t.Fatalf("%d samples of the %d asked for, of %d", total, samples, heldOut)
		}
	})
}

// Few samples are each from another place, more from 128 places or further ones.
func TestSomeSamplesAreSpread(t *testing.T) {
	for _, c := range []struct{ heldOut, samples, places, last, count int }{
		{1000, 100, 100, 990, 1},
		{1000, 255, 255, 996, 1},
		{129_000, 1000, 143, 128_097, 6},
		{129_000, 10_000, 157, 128_178, 16},
	} {
		got := shards(c.heldOut, c.samples)
		if last := got[len(got)-1]; len(got) != c.places || last.From != uint64(c.last) || last.Count != uint64(c.count) {
			t.Errorf("%d of %d samples: %d places, the last %+v; want %+v", c.samples, c.heldOut, len(got), last, c)
		}
	}
}
