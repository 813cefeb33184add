package learn

// Batch is a minibatch in the layout its model reads (see Input). The slices
// are reused from one batch to the next: Reset keeps their memory.
type Batch struct {
	N      int     // samples
	Labels []int32 // N

	X []float32 // Dense: N rows of Features values, row-major

	// Sparse: compressed rows. Row i holds Index[RowStart[i]:RowStart[i+1]]
	// with its Values; indices within a row are distinct and ascending.
	RowStart []int32
	Index    []int32
	Value    []float32

	Tokens []uint8 // Tokens: N rows of Features tokens
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.N = 0
	b.Labels = b.Labels[:0]
	b.X = b.X[:0]
	b.RowStart = b.RowStart[:0]
	b.Index = b.Index[:0]
	b.Value = b.Value[:0]
	b.Tokens = b.Tokens[:0]
}
