package bus

import "testing"

// BenchmarkSealed is what the digest adds to a small and to a large message, encoded
// and decoded.
func BenchmarkSealed(b *testing.B) {
	b.Run("reply", func(b *testing.B) { roundTrips(b, &SumReply{Status: Continue}) })
	b.Run("chunk", func(b *testing.B) {
		roundTrips(b, &Sum{Job: 1, Trainer: "box", ModelDigest: DigestOf(nil).Bytes(), Chunks: 12, Params: 750_000, Values: make([]byte, ChunkBytes)})
	})
}

// roundTrips measures encoding and decoding a message, with and without its digest.
func roundTrips[M Sealed](b *testing.B, m M) {
	for name, f := range map[string]struct {
		encode func(M) ([]byte, error)
		decode func([]byte, M) error
	}{
		"plain":  {func(m M) ([]byte, error) { return Marshal(nil, m) }, func(b []byte, m M) error { return Unmarshal(b, m) }},
		"sealed": {MarshalSealed[M], UnmarshalSealed[M]},
	} {
		b.Run(name, func(b *testing.B) {
			var buffer []byte
			got := m.ProtoReflect().New().Interface().(M)
			for b.Loop() {
				var err error
				buffer, err = f.encode(m)
				if err != nil {
					b.Fatal(err)
				}
				err = f.decode(buffer, got)
				if err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(buffer)))
		})
	}
}
