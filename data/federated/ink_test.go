package federated

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"fedpace/learn"
)

// Images held by their ink are the values of their bytes, whatever these are, in whatever order
// they came.
func TestInk_Rows(t *testing.T) {
	const n = 3000 // several blocks
	r := rand.New(rand.NewPCG(1, 1))
	want := &ByteRows{Width: FEMNISTPixels, Bytes: make([]byte, n*FEMNISTPixels), Coding: Ink}
	for i := range n {
		blank := []float64{0, 0.5, 0.9, 1}[r.IntN(4)]
		for p := range FEMNISTPixels {
			want.Bytes[i*FEMNISTPixels+p] = byte(r.Uint32())
			if r.Float64() < blank {
				want.Bytes[i*FEMNISTPixels+p] = white
			}
		}
	}
	rows := NewInkRows(n)
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := n - 1 - part; i >= 0; i -= 4 {
				rows.Put(i, want.sampleBytes(i))
			}
		})
	}
	all.Wait()
	if !bytes.Equal(rows.Unpacked().Bytes, want.Bytes) {
		t.Error("the images are others than those that were put")
	}
	got, of := learn.Batch{X: []float32{5}}, learn.Batch{X: []float32{5}}
	for range 2 { // the second time in memory that is not fresh
		got.X, of.X = got.X[:1], of.X[:1]
		for i := range n {
			rows.Append(&got, (i*7)%n)
			want.Append(&of, (i*7)%n)
			learn.Prefetch(rows.sampleBytes(i))
		}
		if !slices.Equal(got.X, of.X) {
			t.Fatal("the batch is another than that of the bytes")
		}
	}
	ink := n*FEMNISTPixels - bytes.Count(want.Bytes, []byte{white})
	if got, want := rows.Memory(), n*(8+inkMask)+ink; got != want {
		t.Errorf("%d images take %d bytes, want %d", n, got, want)
	}
}
