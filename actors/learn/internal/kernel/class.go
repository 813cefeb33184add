package kernel

import (
	"fmt"
	"strings"
)

// Class is a family of implementations.
type Class uint8

// The classes. Which of them this machine can run, Supported says.
const (
	Go     Class = iota // plain Go, the reference
	NEON                // arm64: products in assembly, the rest in plain Go
	AVX2                // amd64 with AVX2 and FMA
	AVX512              // amd64 with AVX-512 F, BW, DQ and VL
	classes
)

var names = [classes]string{"go", "neon", "avx2", "avx512"}

func (c Class) String() string { return names[c] }

// vectors says whether everything, not only products, is in assembly.
func (c Class) vectors() bool { return c >= AVX2 }

// Supported says whether this machine can run the class.
func (c Class) Supported() bool { return c == Go || c < classes && supported(c) }

// Classes lists those that this machine can run, the reference first.
func Classes() []Class {
	var list []Class
	for c := range classes {
		if c.Supported() {
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
	for c := range classes {
		if names[c] != name {
			continue
		}
		if !c.Supported() {
			return 0, fmt.Errorf("kernel class %q needs a processor that this machine does not have (here: %s)", name, list())
		}
		return c, nil
	}
	return 0, fmt.Errorf("%q is not a kernel class (here: %s)", name, list())
}

func list() string {
	var s []string
	for _, c := range Classes() {
		s = append(s, c.String())
	}
	return strings.Join(s, ", ")
}
