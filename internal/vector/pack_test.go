package vector

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// What is packed reads back to the same bits, in no more bytes than it says; with another number
// of values, or cut off, it is refused.
func TestPacked_ReadBack(t *testing.T) {
	bits := rapid.Custom(func(t *rapid.T) float32 { return math.Float32frombits(rapid.Uint32().Draw(t, "bits")) })
	long := make([]float32, 1<<18)
	for i := range long {
		long[i] = math.Float32frombits(rand.Uint32())
	}
	if n := len(Pack(long)); n > MostPacked(len(long)) {
		t.Errorf("%d numbers take %d bytes", len(long), n)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.OneOf(bits, rapid.Just(float32(0)))).Draw(t, "values")
		packed := Pack(v)
		back, err := Unpack(packed, len(v))
		if err != nil || !bytes.Equal(Bytes(back), Bytes(v)) || len(packed) > MostPacked(len(v)) {
			t.Fatalf("%v reads back as %v (%v), from %d bytes", v, back, err, len(packed))
		}
		for _, other := range []int{len(v) - 1, len(v) + 1} {
			if _, err := Unpack(packed, max(0, other)); err == nil && len(v) > 0 {
				t.Fatalf("%d numbers read back as %d", len(v), other)
			}
		}
		if _, err := Unpack(packed[:len(packed)-1], len(v)); err == nil {
			t.Fatal("it reads back without its end")
		}
	})
}

// FuzzUnpack reads anything.
func FuzzUnpack(f *testing.F) {
	f.Add(Pack([]float32{1, 0, 0, -2}), 4)
	f.Fuzz(func(t *testing.T, b []byte, numbers int) {
		if v, err := Unpack(b, numbers&0xfff); err == nil && len(v) != numbers&0xfff {
			t.Errorf("%d values", len(v))
		}
	})
}
