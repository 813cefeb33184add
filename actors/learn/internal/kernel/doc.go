// Package kernel holds the arithmetic that local SGD spends its time in.
//
// Every operation exists in several classes: Go, the plain reference that runs
// everywhere, and assembly for particular processors. [Best] is chosen at run
// time. Within a class the same inputs give the same bits on every machine: the
// Go class rounds every product (no compiler may fuse it), the assembly classes
// accumulate each output over k in order with fused multiply-add. Those of amd64
// agree with each other bit for bit; NEON has only its products in assembly and
// shares the rest with the Go class.
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
