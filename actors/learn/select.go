package learn

import (
	"fmt"
	"os"
	"sync"

	"fedpace/actors/learn/internal/kernel"
)

// KernelVariable names the environment variable that picks a kernel class.
const KernelVariable = "FEDPACE_KERNEL"

var selected = sync.OnceValues(func() (kernel.Class, error) {
	name := os.Getenv(KernelVariable)
	if name == "" {
		return kernel.Best(), nil
	}
	c, err := kernel.ByName(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", KernelVariable, err)
	}
	return c, nil
})

// SelectKernel chooses the kernel class of this process, the best that the
// machine can run or the one that FEDPACE_KERNEL names, and returns its name. The
// error says which classes there are. A program calls it at its start; later
// calls return the same.
func SelectKernel() (string, error) {
	c, err := selected()
	return c.String(), err
}

// Kernel is the name of the class in use. It panics where SelectKernel returns
// an error.
func Kernel() string { return class().String() }

func class() kernel.Class {
	c, err := selected()
	if err != nil {
		panic("learn: SelectKernel was not checked: " + err.Error())
	}
	return c
}

// AddExact adds the term roundToEven(2^44·w·(x[i]-base[i])), computed in float64,
// to every dst[i]: sums of such terms do not depend on their order. It returns the
// index of the first element whose difference is not finite or at least 2^17 in
// magnitude, after which dst is undefined, or -1. All slices have one length and
// |w| <= 1, else it panics.
func AddExact(dst []int64, w float64, x, base []float32) (bad int) {
	return class().AddExact(dst, w, x, base)
}

// AddExactAndReset adds as AddExact does and makes x equal base again, in one pass
// over memory. A refused element and those behind it keep their values.
func AddExactAndReset(dst []int64, w float64, x, base []float32) (bad int) {
	return class().AddExactAndReset(dst, w, x, base)
}

// Lookup decodes bytes to the values that a table gives them: dst[i] =
// table[src[i]]. It panics when the lengths differ.
func Lookup(dst []float32, src []byte, table *[256]float32) {
	// All classes give the same values, so that data can be read, though not
	// trained on, where SelectKernel returns an error: the class is then plain Go.
	c, _ := selected()
	c.Lookup(dst, src, table)
}

// Prefetch asks the processor for bytes that will soon be read from anywhere in
// memory, and does not wait for them.
func Prefetch(src []byte) {
	c, _ := selected() // as in Lookup
	c.Prefetch(src)
}
