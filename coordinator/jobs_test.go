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

// 200 of 1,000 samples: four shards at even distances, the last one short.
func TestSomeSamplesAreSpread(t *testing.T) {
	got := shards(1000, 200)
	for i, want := range []struct{ from, count uint64 }{{0, 64}, {250, 64}, {500, 64}, {750, 8}} {
		if got[i].From != want.from || got[i].Count != want.count {
			t.Errorf("shard %d is %+v, want %+v", i, got[i], want)
		}
	}
}
