// Package kernel holds the arithmetic that local SGD spends its time in.
//
// Every operation exists for several instruction sets ([ISA]): plain Go, the
// reference that runs everywhere, and assembly for particular processors. Sets that
// give the same bits are one class ([ISA.Class]), and within a class the same inputs
// give the same bits on every machine. Plain Go rounds every product (no compiler
// may fuse it); assembly accumulates each output over k in order with fused
// multiply-add. AVX2 and AVX-512 are one class. NEON has only its products in
// assembly, shares the rest with plain Go, and is a class of its own. Exact sums
// ([ISA.AddExact]) and what only moves values are the same in all classes.
//
// Activations are held feature-major in blocks of [Lanes] samples: element
// (feature f, sample s) at f*Lanes + s. The samples of a block then fill vector
// registers whole, weights are read where they stand in PyTorch's layout, and no
// product needs packing. Only the samples of a partly filled block mean
// something; the lanes beside them hold whatever their arithmetic gives.
//
// Slices are checked against the shapes before assembly runs; a mismatch is a
// programmer's error and panics.
package kernel

//go:generate go run ./gen -out kernels_amd64.s -stubs kernels_amd64.go -pkg kernel
