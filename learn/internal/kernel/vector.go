package kernel

import "math"

// Transpose writes the transpose of the rows×cols matrix src to dst, which must not overlap with
// src. It does nothing if rows or cols is not positive.
func (isa ISA) Transpose(dst, src Matrix, rows, cols int) {
	if rows <= 0 || cols <= 0 {
		return
	}
	// Assembly checks no bounds, so the last element of both matrices is checked here.
	_ = src.Data[(rows-1)*src.LD+cols-1]
	_ = dst.Data[(cols-1)*dst.LD+rows-1]
	// The assembly takes whole tiles of 8×8, which are the first r rows and l columns. Plain Go
	// takes the others.
	r := 0
	l := 0
	if v := isa.vectors(); v != nil {
		r = rows &^ 7
		l = cols &^ 7
		if r > 0 && l > 0 {
			v.transpose(&dst.Data[0], 4*dst.LD, &src.Data[0], 4*src.LD, r/8, l/8)
		}
	}
	transposeGo(dst, src, r, rows, 0, cols)
	transposeGo(dst, src, 0, r, l, cols)
}

// transposeGo transposes the elements in rows r0 to before r1 and columns c0 to before c1 of src.
func transposeGo(dst, src Matrix, r0, r1, c0, c1 int) {
	for i := r0; i < r1; i++ {
		for j := c0; j < c1; j++ {
			dst.Data[j*dst.LD+i] = src.Data[i*src.LD+j]
		}
	}
}

// Pieces are rows of pieces of memory. Row is the distance in floats from one row to the next, and Step
// that from one piece to the next.
type Pieces struct {
	// Data holds the pieces.
	Data []float32
	// Row and Step are distances in floats.
	Row, Step int
}

// CopyPieces copies n floats of each piece from src to dst. Both have so many rows, of so many pieces each. Up to
// 7 floats behind the n may be copied, too; these must exist in src and dst.
func (isa ISA) CopyPieces(dst, src Pieces, rows, piecesPerRow, n int) {
	// Assembly copies whole chunks of 8 floats, and takes distances in bytes.
	chunks := (n + 7) / 8
	// last returns the index of the last float that is read or written. Assembly does not check it.
	last := func(p Pieces) int { return (rows-1)*p.Row + (piecesPerRow-1)*p.Step + 8*chunks - 1 }
	_, _ = dst.Data[last(dst)], src.Data[last(src)]
	if v := isa.vectors(); v != nil {
		v.copyPieces(
			&dst.Data[0],
			4*dst.Row,
			4*dst.Step,
			&src.Data[0],
			4*src.Row,
			4*src.Step,
			rows,
			piecesPerRow,
			chunks,
		)
		return
	}
	// Plain Go copies exactly n floats of each piece.
	for i := range rows {
		for j := range piecesPerRow {
			copy(dst.Data[i*dst.Row+j*dst.Step:][:n], src.Data[i*src.Row+j*src.Step:])
		}
	}
}

// Lookup decodes bytes by a table: dst[i] = table[src[i]]. dst and src must have the same length;
// it panics otherwise.
func (isa ISA) Lookup(dst []float32, src []byte, table *[256]float32) {
	if len(dst) != len(src) {
		panic("kernel: Lookup of slices of different lengths")
	}
	// The assembly takes groups of 16 bytes, and plain Go the rest.
	done := 0
	if v := isa.vectors(); v != nil && len(dst) >= 16 {
		v.lookup(&dst[0], &src[0], &table[0], len(dst)/16)
		done = len(dst) &^ 15
	}
	// Both slices get the same length, so that the loop checks no bounds.
	src = src[done:]
	dst = dst[done:][:len(src)]
	for i, b := range src {
		dst[i] = table[b]
	}
}

// Prefetch brings bytes nearer that will soon be read, where the machine can. It may
// ask for a line behind src, or miss the last: the processor ignores what it cannot
// have.
func (isa ISA) Prefetch(src []byte) {
	if v := isa.vectors(); v != nil && len(src) > 0 {
		v.prefetch(&src[0], (len(src)+63)/64)
	}
}

// Softmax replaces the logits z of a block by softmax·scale, for the first n lanes, one for each sample. z
// has a row of Lanes logits for each of rows classes. It writes each lane's largest logit to top, and the
// sum of exp(logit − top) to sum. Lanes up to Filled(n) are computed.
func (isa ISA) Softmax(z []float32, rows, n int, scale float32, top, sum *[Lanes]float32) {
	w := Filled(n)
	_ = z[(rows-1)*Lanes+w-1]
	if v := isa.vectors(); v != nil {
		v.softmax(&z[0], rows, w/v.lanes, scale, &top[0], &sum[0])
		return
	}
	// The first row is the largest so far; a NaN replaces any value, so that it is seen.
	copy(top[:w], z)
	for i := 1; i < rows; i++ {
		row := z[i*Lanes:][:w]
		for l, v := range row {
			if v > top[l] || v != v {
				top[l] = v
			}
		}
	}
	// The largest logit is subtracted from all, so that no exponential overflows.
	clear(sum[:w])
	for i := range rows {
		row := z[i*Lanes:][:w]
		for l, v := range row {
			e := Exp(v - top[l])
			row[l] = e
			sum[l] += e
		}
	}
	// One division for each lane makes the scale and the sum one factor.
	var f [Lanes]float32
	for l := range w {
		f[l] = scale / sum[l]
	}
	for i := range rows {
		row := z[i*Lanes:][:w]
		for l := range row {
			row[l] *= f[l]
		}
	}
}

// firstLanes[Lanes-n:] is a mask that selects the first n lanes of a block. otherLanes[Lanes-n:] has 0 in
// those lanes and -0 in the others, which as an addend changes no value.
var firstLanes, otherLanes = func() (first, second [2 * Lanes]int32) {
	for i := range Lanes {
		first[i] = -1
		second[Lanes+i] = math.MinInt32
	}
	return first, second
}()

// AddRowSums sums the first n lanes of each row of the block x, which has len(dst) rows. It sets
// dst[i] to the sum of row i if op is Store, and adds alpha times the sum if op is Add. The lanes
// of a row are added pairwise, halves first, after the second half of the block has been added to
// the first.
func (isa ISA) AddRowSums(dst, x []float32, n int, op Op, alpha float32) {
	_ = x[(len(dst)-1)*Lanes+n-1]
	if routine := isa.vectors(); routine != nil {
		// In mode 0 the sum is stored.
		mode := 0
		switch {
		case op == Add && n < Lanes:
			// In mode 1 alpha times the sum is rounded and then added.
			mode = 1
		case op == Add:
			// In mode 2 alpha times the sum is added in one step.
			mode = 2
		}
		routine.rowSums(&dst[0], &x[0], len(dst), alpha, mode, &firstLanes[Lanes-n], &otherLanes[Lanes-n])
		return
	}
	// Plain Go adds in the same order as the assembly. It always rounds the product with alpha, so that
	// its bits differ from those of the class avx in mode 2.
	var lane [Vector]float32
	for i := range dst {
		row := x[i*Lanes:][:n]
		// Lanes beside the first n count as zero.
		clear(lane[:])
		copy(lane[:], row)
		for l := Vector; l < n; l++ {
			lane[l-Vector] += row[l]
		}
		for half := Vector / 2; half > 0; half /= 2 {
			for l := range half {
				lane[l] += lane[l+half]
			}
		}
		if op == Add {
			dst[i] += float32(alpha * lane[0])
		} else {
			dst[i] = lane[0]
		}
	}
}
