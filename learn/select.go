package learn

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"fedpace/learn/internal/kernel"
)

// Kernel is the arithmetic of local SGD: its class decides the bits of a model, and
// this machine's fastest instructions of the class compute them. The zero value is
// plain Go.
type Kernel struct{ isa kernel.ISA }

// Class names the class: "go", "neon", "avx", "amx" or "amx3".
func (k Kernel) Class() string { return k.isa.Class() }

// Instructions names what computes it: "go", "neon", "avx2", "avx512", "amx", "amx3", or one of the latter
// two as emulated.
func (k Kernel) Instructions() string { return k.isa.String() }

// AutoKernel stands for the class of the fastest instructions of float32 that there are.
const AutoKernel = "auto"

// needs says, for each class but plain Go, what a machine must have for it.
var needs = map[string]string{
	kernel.NEON.Class(): "an arm64 processor",
	kernel.AVX2.Class(): "an amd64 processor with AVX2 and FMA",
	kernel.AMX.Class():  needsOfTiles,
	kernel.AMX3.Class(): needsOfTiles,
}

// needsOfTiles is what a machine must have for the classes amx and amx3.
const needsOfTiles = "an amd64 processor with AVX-512, AVX512_BF16, AMX_TILE and AMX_BF16, and Linux 5.16"

// SelectKernel returns the kernel of a class, or with [AutoKernel] the fastest one. The error of a
// class that this machine lacks says which ones it has.
func SelectKernel(class string) (Kernel, error) {
	list, err := usable()
	if err != nil {
		return Kernel{}, err
	}
	// The fastest instructions are the last, so the first match from behind is the best.
	for _, isa := range slices.Backward(list) {
		isFastest := class == AutoKernel && !isa.Tiles()
		if isFastest || isa.Class() == class {
			return Kernel{isa}, nil
		}
	}
	limit := os.Getenv(KernelVariable)
	// Classes that round what they multiply are used where they are named, and not emulated unless the
	// limit says so.
	if _, isClass := needs[class]; isClass && limit == "" {
		for _, isa := range kernel.Named() {
			if isa.Class() == class && !isa.Emulated() {
				return Kernel{isa}, nil
			}
		}
	}
	var classes []string
	for _, isa := range list {
		classes = append(classes, isa.Class())
	}
	available := strings.Join(slices.Compact(classes), ", ")
	requirement, isClass := needs[class]
	// A misspelt class is told apart from one that this machine lacks.
	if !isClass {
		return Kernel{}, fmt.Errorf("%q is not a kernel class (here: %s)", class, available)
	}
	// The limit may be the reason, so the message names it.
	if limit != "" {
		available += ", to which " + KernelVariable + "=" + limit + " limits it"
	}
	if requirement == needsOfTiles {
		available += fmt.Sprintf("; with %s=%s-emulated a process computes it slowly on AVX2", KernelVariable, class)
	}
	return Kernel{}, fmt.Errorf("%s needs %s, and this machine has %s", class, requirement, available)
}

// KernelVariable names the environment variable that limits a process to one
// instruction set or class beside plain Go.
const KernelVariable = "FEDPACE_KERNEL"

// usable lists the instruction sets that this process may use, the fastest last. It is found out once.
var usable = sync.OnceValues(func() ([]kernel.ISA, error) { return allowedSets(os.Getenv(KernelVariable)) })

// allowedSets returns the machine's instruction sets that a limit allows, the fastest last: plain Go and
// those with this name or class, or all of float32 if limit is empty. What emulates another set is allowed by
// its name alone. With an error only plain Go is allowed.
func allowedSets(limit string) ([]kernel.ISA, error) {
	all := kernel.Available()
	if limit == "" {
		return all, nil
	}
	all = append(all, kernel.Named()...)
	allowed := slices.DeleteFunc(slices.Clone(all), func(isa kernel.ISA) bool {
		isClass := isa.Class() == limit && !isa.Emulated()
		return isa != kernel.Go && isa.String() != limit && !isClass
	})
	// Only plain Go is left, although something else was asked for.
	if len(allowed) == 1 && limit != kernel.Go.String() {
		return allowed, fmt.Errorf(
			"%s: this machine has no instructions %q (here: %s)",
			KernelVariable,
			limit,
			strings.Trim(fmt.Sprint(all), "[]"),
		)
	}
	return allowed, nil
}

// fastest is the instruction set for what gives the same bits in all classes. An error of usable is
// ignored here: SelectKernel reports it, which every process calls before it trains.
var fastest = sync.OnceValue(func() kernel.ISA {
	list, _ := usable()
	return list[len(list)-1]
})

// AddExact adds the term roundToEven(2^44·w·(x[i]-base[i])), computed in float64,
// to every dst[i]: sums of such terms do not depend on their order. It returns the
// index of the first element whose difference is not finite or at least 2^17 in
// magnitude, after which dst is undefined, or -1. All slices have one length and
// |w| <= 1, else it panics.
func AddExact(dst []int64, w float64, x, base []float32) (bad int) {
	return fastest().AddExact(dst, w, x, base)
}

// AddExactAndReset adds as AddExact does and makes x equal base again, in one pass
// over memory. A refused element and those behind it keep their values.
func AddExactAndReset(dst []int64, w float64, x, base []float32) (bad int) {
	return fastest().AddExactAndReset(dst, w, x, base)
}

// Lookup decodes bytes to the values that a table gives them: dst[i] =
// table[src[i]]. It panics when the lengths differ.
func Lookup(dst []float32, src []byte, table *[256]float32) {
	fastest().Lookup(dst, src, table)
}

// Prefetch asks the processor to load bytes into its cache, and does not wait for them. It changes no
// result.
func Prefetch(src []byte) {
	fastest().Prefetch(src)
}
