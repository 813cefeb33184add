package main

import . "github.com/mmcloughlin/avo/build"

// main writes every kernel for every instruction set that has its own version, and then those that
// AVX2 and AVX-512 share.
func main() {
	ConstraintExpr("amd64")
	for _, s := range []simd{avx512, half, avx2} {
		// There is a product for each size of a tile: mr rows by nr vectors.
		for nr := 1; nr <= 2; nr++ {
			for mr := 1; mr <= s.maxRows[nr]; mr++ {
				gemm(s, mr, nr)
			}
		}
	}
	for _, s := range []simd{avx512, avx2} {
		// There is a kernel for each number of samples; AVX-512 has registers for twice as many.
		for samples := 1; samples <= denseSamples || s.wide() && samples <= 2*denseSamples; samples++ {
			denseStep(s, samples)
		}
		softmax(s)
		gruForward(s)
		gruBackward(s)
		maxPool(s)
		maxUnpool(s)
		lookup(s)
		addExact(s, false)
		addExact(s, true)
		nonZeros(s)
		for vectors := 1; vectors <= mostVectors(s); vectors++ {
			sumPair(s, vectors)
			addColumns(s, vectors)
			addColumnsExact(s, vectors)
		}
	}
	present()
	columns()
	// These kernels are bound by memory, so the length of vectors does not matter.
	transpose()
	addTransposed()
	copyPieces()
	rowSums()
	addScaled()
	normalisation()
	prefetch()
	cpuid()
	amx()
	Generate()
}
