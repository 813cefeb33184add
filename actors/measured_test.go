package actors

import (
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// TestMeasured_HeldOutSamplesAreSpread has 100 clients with 10 held-out samples each, client by client:
// 100 spread samples measure each client once, and 999 of 1,000 leave out one sample.
func TestMeasured_HeldOutSamplesAreSpread(t *testing.T) {
	perClient := map[int]int{}
	m := Measured{Client: HeldOut, Count: 100, Spread: 100}
	for i := range 100 {
		perClient[m.heldOutPlace(i, 1000)/10]++
	}
	if len(perClient) != 100 {
		t.Errorf("%d clients are measured, want 100", len(perClient))
	}
	m = Measured{Client: HeldOut, Count: 999, Spread: 999}
	places := map[int]bool{}
	for i := range 999 {
		places[m.heldOutPlace(i, 1000)] = true
	}
	if len(places) != 999 || !places[0] || !places[998] {
		t.Errorf("%d different places of 999", len(places))
	}
	// A shard that begins at sample 64 of all goes on where the one before ended.
	m = Measured{Client: HeldOut, FirstSample: 64, Count: 36, Spread: 100}
	if p := m.heldOutPlace(0, 1000); p != 640 {
		t.Errorf("the first sample of the second shard is %d, want 640", p)
	}
	// Without a spread places are as they are told.
	m = Measured{Client: HeldOut, FirstSample: 64, Count: 36}
	if p := m.heldOutPlace(3, 1000); p != 67 {
		t.Errorf("sample 3 from 64 on is %d", p)
	}
}

// TestMeasured_EveryClientHasPart draws sizes: among n of all samples, any range of held-out samples
// has its share of n, to within one.
func TestMeasured_EveryClientHasPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heldOut := rapid.IntRange(2, 5000).Draw(t, "held out")
		spread := rapid.IntRange(1, heldOut-1).Draw(t, "spread")
		first := rapid.IntRange(0, heldOut-1).Draw(t, "first")
		end := rapid.IntRange(first, heldOut).Draw(t, "end")
		m := Measured{Client: HeldOut, Count: spread, Spread: spread}
		inRange := 0
		previous := -1
		for i := range spread {
			place := m.heldOutPlace(i, heldOut)
			if place <= previous || place >= heldOut {
				t.Fatalf("sample %d is at %d, the one before at %d of %d", i, place, previous, heldOut)
			}
			previous = place
			if first <= place && place < end {
				inRange++
			}
		}
		share := float64(end-first) * float64(spread) / float64(heldOut)
		if float64(inRange) <= share-1 || float64(inRange) >= share+1 {
			t.Fatalf("%d samples in %d to %d, want %g to within one", inRange, first, end, share)
		}
	})
}
