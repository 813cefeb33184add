package fleet

import (
	"testing"

	"pgregory.net/rapid"
)

// Where a client leaves before it is done, its plan says so too, and when; and
// it is there until it leaves.
func TestLeave_SeenInPlans(t *testing.T) {
	recorded := stays(t)
	rapid.Check(t, func(t *rapid.T) {
		f, err := NewFleet(Config{
			Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 1}, Availability: anyAvailability(t, recorded),
			Dropout: Dropout{WhenUnavailable: rapid.Bool().Draw(t, "leaves")},
		}, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		client := rapid.IntRange(0, 10).Draw(t, "client")
		at := rapid.Int64Range(0, 1000*second).Draw(t, "at")
		p, err := f.Plan(f.Client(client), 1, rapid.IntRange(1, 100).Draw(t, "steps"), SameBits(1e6), at)
		if err != nil {
			t.Fatal(err)
		}
		leaves, ok := f.Leaves(client, at)
		if early := ok && leaves < at+p.Total(); early != (p.Dropout != NoPhase) || early && leaves != at+p.After {
			t.Fatalf("leaves at %d (%v), its plan: %+v", leaves, ok, p)
		}
		if ok && (f.Available(client, leaves) || leaves > at && !f.Available(client, leaves-1)) {
			t.Fatalf("leaves at %d, where its availability does not end", leaves)
		}
	})
}
