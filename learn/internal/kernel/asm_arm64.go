package kernel

import "golang.org/x/sys/cpu"

// routines holds what this processor can run in assembly: on arm64 the products alone, with NEON.
var routines = func() (r [isas]routine) {
	if cpu.ARM64.HasASIMD {
		r[NEON].gemm = gemmAsm
	}
	return r
}()

// gemmNEON multiplies 1 to 6 rows of A with 16 columns of B; strides are in bytes.
// Of the tile's six rows the first ones count.
//
//go:noescape
func gemmNEON(k, segments int, segment *int, a *float32, rows, ars, acs int, b *float32, ldb int, tile *[96]float32)

// gemmAsm is GemmSum with NEON. The assembly computes tiles of 6 rows and 16 columns. It reads
// whole vectors of B, of which the last columns may be of no interest, as far as the array behind B
// reaches; plain Go computes the columns that are left.
func gemmAsm(_ ISA, m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32) {
	const rows, cols = 6, 16
	// last is how far behind its first column a tile reads in B.
	last := 0
	for _, s := range segments {
		last = max(last, s.B)
	}
	last += (k-1)*b.LD + cols
	// The assembly writes a tile here, as not all of it may belong to C.
	var tile [rows * cols]float32
	j := 0
	for ; j < n && j+last <= cap(b.Data); j += cols {
		w := min(cols, n-j)
		// The tile is computed as a whole, and the rows and columns that belong to C are stored.
		for i := 0; i < m; i += rows {
			h := min(rows, m-i)
			gemmNEON(k, len(segments), &segments[0].A, &a.Data[i*a.Row], h, 4*a.Row, 4*a.Col, &b.Data[j], 4*b.LD, &tile)
			for r := range h {
				storeRow(dst, tile[r*cols:][:w], i+r, j, op, aux, alpha)
			}
		}
	}
	if j >= n {
		return
	}
	// What is left begins at column j, also in the matrix that ReLUGrad reads.
	if op == ReLUGrad {
		aux = aux[j:]
	}
	b.Data = b.Data[j:]
	dst.Data = dst.Data[j:]
	gemmGo(m, n-j, k, segments, a, b, dst, op, aux, alpha)
}

// tileRoutines is empty: only amd64 has tiles.
var tileRoutines [isas]tileRoutine
