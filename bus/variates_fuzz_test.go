package bus

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzReceiveVariates is FuzzReceive for a job whose sums bring control
// variates: what is handed on has one for each client, under its own digest.
func FuzzReceiveVariates(f *testing.F) {
	model, values := Digest{1}, []float32{1, -2}
	next := DigestOf(values)
	whole := &Sum{
		Job: 1, Trainer: "a", ModelDigest: model[:], Chunks: 1, Params: 4, Values: make([]byte, 32), Variates: FloatBytes(values),
		Clients: []*ClientLoss{{Task: 9, VariateDigest: next[:]}},
	}
	first, second := proto.CloneOf(whole), proto.CloneOf(whole)
	first.Chunks, first.Variates = 2, nil
	second.Chunk, second.Chunks, second.Values, second.Clients = 1, 2, nil, nil
	split, long, forged := proto.CloneOf(second), proto.CloneOf(second), proto.CloneOf(whole)
	split.Variates = split.Variates[:5]
	long.Variates = append(long.Variates, 0, 0, 0, 0)
	forged.Variates = make([]byte, 8)
	for _, pair := range [][2]*Sum{{whole, whole}, {first, second}, {second, first}, {first, split}, {long, first}, {forged, whole}} {
		f.Add(encoded(pair[0]), encoded(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		d := newSumDesk(nil)
		d.expect(&Job{Job: 1, Kind: Train, ModelDigest: model[:], Params: 2, Method: &Method{Variates: true}, Clients: []*ClientWork{{Task: 9}}})
		for _, m := range [][]byte{a, b} {
			s, verdict, reason := d.receive(message(m))
			if verdict == Refused && reason == "" {
				t.Error("refused without a reason")
			}
			if s == nil || s.Failure != nil {
				continue
			}
			if len(s.Values) != 4 || len(s.Clients) != 1 || len(s.Variates) != 1 || DigestOf(s.Variates[0]) != DigestFrom(s.Clients[0].VariateDigest) {
				t.Fatalf("%+v is handed on", s.Sum)
			}
		}
	})
}
