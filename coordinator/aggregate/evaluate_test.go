package aggregate

import (
	"testing"

	"pgregory.net/rapid"
)

// Shards are in order, lie within the held-out samples, do not overlap, and
// cover what is asked for: all, or as many as asked but for what the even
// distances cost near all of them.
func TestHeldOutShards_CoverWhatIsAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heldOut := rapid.IntRange(1, 500_000).Draw(t, "held out")
		samples := rapid.IntRange(0, heldOut+10).Draw(t, "samples")
		end, total := 0, 0
		for i, s := range heldOutShards(heldOut, samples, rapid.Bool().Draw(t, "text")) {
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

// 200 of 1,000 samples: four shards at even distances, the last one short. Few of a text are each
// from another place, more from 64 places or further ones.
func TestHeldOutShards_Spread(t *testing.T) {
	for _, c := range []struct {
		text                                   bool
		heldOut, samples, places, second, last int
	}{
		{false, 1000, 200, 4, 250, 8},
		{true, 1000, 100, 100, 10, 1},
		{true, 129_000, 1000, 67, 1925, 10},
		{true, 129_000, 10_000, 157, 821, 16},
	} {
		got := heldOutShards(c.heldOut, c.samples, c.text)
		if last := got[len(got)-1]; len(got) != c.places || got[1].From != uint64(c.second) || last.Count != uint64(c.last) {
			t.Errorf("%d places, the second %+v, the last %+v; want %+v", len(got), got[1], last, c)
		}
	}
}
