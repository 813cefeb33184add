package secagg

import (
	"crypto/ed25519"
	"testing"
	"time"
)

// BenchmarkMember is what one device of a hundred computes in a round for a model of 1.7 million
// parameters: everything but the local steps. It reports the parts that the configuration's constants
// stand for.
func BenchmarkMember(b *testing.B) {
	const members = 100
	const params = 1_700_000
	plan, err := Choose(members, 0.1, 0.2)
	if err != nil {
		b.Fatal(err)
	}
	random := testRandom(1)
	c := NewContext("bench", 1)
	server, err := NewServer(c, plan.Terms)
	if err != nil {
		b.Fatal(err)
	}
	var first *Client
	var others []*Client
	for i := range members {
		_, identity, _ := ed25519.GenerateKey(random)
		x, err := NewClient(random, c, plan.Terms, identity, uint32(i), 1)
		if err != nil {
			b.Fatal(err)
		}
		if first == nil {
			first = x
		} else {
			others = append(others, x)
		}
		entry, _ := x.Keys()
		if err := server.Keys(uint32(i), entry); err != nil {
			b.Fatal(err)
		}
	}
	roster, err := server.Roster()
	if err != nil {
		b.Fatal(err)
	}
	for i, x := range others {
		shares, err := x.Shares(roster)
		if err != nil {
			b.Fatal(err)
		}
		if err := server.Shares(uint32(i+1), shares); err != nil {
			b.Fatal(err)
		}
	}
	before := *first
	var sharing, encoding, masking time.Duration
	after := make([]float32, params)
	base := make([]float32, params)
	words := make([]uint64, params)
	var inbox []byte
	for b.Loop() {
		x := before
		x.held = map[int]heldShares{}
		began := time.Now()
		shares, err := x.Shares(roster)
		if err != nil {
			b.Fatal(err)
		}
		sharing += time.Since(began)
		if inbox == nil {
			if err := server.Shares(0, shares); err != nil {
				b.Fatal(err)
			}
			if _, err := server.Members(); err != nil {
				b.Fatal(err)
			}
			if inbox, err = server.Inbox(0); err != nil {
				b.Fatal(err)
			}
		}
		began = time.Now()
		if err := Encode(words, 0.01, after, base); err != nil {
			b.Fatal(err)
		}
		encoding += time.Since(began)
		began = time.Now()
		if err := x.Mask(inbox, words); err != nil {
			b.Fatal(err)
		}
		masking += time.Since(began)
	}
	n := float64(b.N)
	b.ReportMetric(float64(plan.Neighbours), "neighbours")
	b.ReportMetric(sharing.Seconds()*1e3/n, "ms-shares/op")
	b.ReportMetric(encoding.Seconds()*1e3/n, "ms-encode/op")
	b.ReportMetric(masking.Seconds()*1e3/n, "ms-masks/op")
	plain := float64(2 * 4 * params)
	masked := float64((4 + 8) * params)
	for _, size := range Sizes(members, plan.Neighbours) {
		masked += float64(size.Up + size.Down)
	}
	b.ReportMetric(masked/plain, "bytes-ratio")
}
