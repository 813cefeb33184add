package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// Class is a family of implementations.
type Class uint8

// The classes. [Classes] lists those that this machine can run.
const (
	Go     Class = iota // plain Go, the reference
	NEON                // arm64: products in assembly, the rest in plain Go
	AVX2                // amd64 with AVX2 and FMA
	AVX512              // amd64 with AVX-512 F, BW, DQ and VL
	classes
)

var names = [classes]string{"go", "neon", "avx2", "avx512"}

func (c Class) String() string { return names[c] }

// routine is what a class has in assembly on this machine: nothing, the products
// alone, or, where lanes is not 0, everything. Strides are in bytes.
type routine struct {
	gemm func(c Class, m, n, k int, segments []Segment, a Operand, b, dst Matrix, op Op, aux []float32, alpha float32)

	lanes       int // floats of a vector
	transpose   func(dst *float32, ldd int, src *float32, lds int, down, right int)
	lookup      func(dst *float32, src *uint8, table *float32, groups int)
	prefetch    func(src *uint8, lines int)
	softmax     func(z *float32, rows, vectors int, scale float32, top, sum *float32)
	rowSums     func(dst, x *float32, rows int, alpha float32, add bool)
	addScaled   func(dst, x *float32, groups int, alpha float32)
	addExact    func(dst *int64, x, base *float32, groups int, w float64) bool
	gruForward  func(n int, in, state, h, saved *float32)
	gruBackward func(n int, dh, saved, h, da *float32)
	maxPool     func(rows int, x *float32, part int, dst *float32, ld int, code *int32)
	maxUnpool   func(rows int, gradient *float32, ld int, code *int32, dst *float32, right, down int)
	peak        func(turns int)
}

// vectors are the class's routines, nil where not everything is in assembly.
func (c Class) vectors() *routine {
	if r := &routines[c]; r.lanes > 0 {
		return r
	}
	return nil
}

// Peak runs a loop of nothing but fused multiply-adds on registers and returns
// how many operations (two a multiply-add) that were: the speed of light that
// benchmarks stand beside. It is 0 for a class without such a loop.
func (c Class) Peak(turns int) float64 {
	const sums = 4 * 12 // gen/vector.go
	v := c.vectors()
	if v == nil {
		return 0
	}
	v.peak(turns)
	return float64(turns) * sums * float64(v.lanes) * 2
}

// Classes lists those that this machine can run, the reference first.
func Classes() []Class {
	var list []Class
	for c := range classes {
		if c == Go || routines[c].gemm != nil {
			list = append(list, c)
		}
	}
	return list
}

// Best is the fastest class that this machine can run.
func Best() Class {
	list := Classes()
	return list[len(list)-1]
}

// ByName finds a class that this machine can run.
func ByName(name string) (Class, error) {
	var here []string
	for _, c := range Classes() {
		if c.String() == name {
			return c, nil
		}
		here = append(here, c.String())
	}
	if slices.Contains(names[:], name) {
		return 0, fmt.Errorf("kernel class %q needs a processor that this machine does not have (here: %s)", name, strings.Join(here, ", "))
	}
	return 0, fmt.Errorf("%q is not a kernel class (here: %s)", name, strings.Join(here, ", "))
}
