package vector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "fedpace/internal/testkit/testseed"
)

// The bytes are those of encoding/binary, and read back to the same bits, on a
// machine of either byte order.
func TestBytes_LittleEndian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.SliceOf(rapid.Custom(func(t *rapid.T) float32 { return math.Float32frombits(rapid.Uint32().Draw(t, "bits")) })).Draw(t, "float32"))
		check(t, rapid.SliceOf(rapid.Custom(func(t *rapid.T) float64 { return math.Float64frombits(rapid.Uint64().Draw(t, "bits")) })).Draw(t, "float64"))
		check(t, rapid.SliceOf(rapid.Int64()).Draw(t, "int64"))
	})
}

func check[T Number](t *rapid.T, v []T) {
	var want bytes.Buffer
	if err := binary.Write(&want, binary.LittleEndian, v); err != nil {
		t.Fatal(err)
	}
	if got := Bytes(v); !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("bytes %x, want %x", got, want.Bytes())
	}
	if got := Append(make([]T, 1, 3), want.Bytes()); !bytes.Equal(Bytes(got[1:]), want.Bytes()) {
		t.Fatalf("%v reads back as %v", v, got[1:])
	}
	// Behind a byte the numbers are not aligned, so that they are copied.
	shifted := append([]byte{0}, want.Bytes()...)[1:]
	for _, b := range [][]byte{Bytes(v), shifted} {
		if got := View[T](b); len(got) != len(v) || !bytes.Equal(Bytes(got), want.Bytes()) {
			t.Fatalf("%v is viewed as %v", v, got)
		}
	}
	back := make([]T, len(v))
	if err := Read(&want, back); err != nil || !bytes.Equal(Bytes(back), Bytes(v)) {
		t.Fatalf("%v reads back as %v (%v)", v, back, err)
	}
}

func TestVector_EndsEarly(t *testing.T) {
	if err := Read(bytes.NewReader(make([]byte, 11)), make([]float32, 3)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func TestBytes_OtherOrder(t *testing.T) {
	if got := reverseNumbers([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 4); !bytes.Equal(got, []byte{4, 3, 2, 1, 8, 7, 6, 5}) {
		t.Errorf("%v", got)
	}
}
