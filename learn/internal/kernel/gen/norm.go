package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// walk writes a function of this name over groups of 8 floats of some arrays. The function serves machines with
// AVX2 and with AVX-512: memory, not the width of a vector, decides its speed. doc is the function's comment, and
// scalar the name of a float argument, "" for none. before writes the loads of what stays the same; body writes the
// computation of one group, whose places in memory it gets by the names of the arrays.
func walk(name, doc string, arrays []string, scalar string, before func(), body func(operands map[string]Mem)) {
	signature := "func(" + strings.Join(arrays, ", ") + " *float32, groups int"
	if scalar != "" {
		signature += ", " + scalar + " float32"
	}
	function(name, signature+")", doc)
	groups := load("groups")
	operands := map[string]Mem{}
	var pointers []reg.Register
	for _, a := range arrays {
		p := load(a)
		operands[a] = Mem{Base: p}
		pointers = append(pointers, p)
	}
	// The loop reads one group of each array and advances by 32 bytes.
	before()
	Label("group")
	body(operands)
	advance(32, pointers...)
	repeat("group", groups)
	done()
}

// normalisation writes the kernels of norm.go: the passes over the positions of a group
// normalisation, the sum of a residual connection, and the mask of a ReLU.
func normalisation() {
	// Each kernel is written by walk, from the names of its arrays and what it does with one group of each: the
	// function at the end. Most have no scalar argument, "", and load nothing before the loop, none.
	none := func() {}
	walk("centre", ": see Centre.", []string{"dst", "x", "mean", "squares"}, "", none, func(operands map[string]Mem) {
		c := YMM()
		sum := YMM()
		VMOVUPS(operands["x"], c)
		VSUBPS(operands["mean"], c, c)
		VMOVUPS(c, operands["dst"])
		VMOVUPS(operands["squares"], sum)
		VFMADD231PS(c, c, sum)
		VMOVUPS(sum, operands["squares"])
	})
	var lowerBound, zero reg.VecVirtual
	walk("affine", " writes at least `least`; see Affine.", []string{"dst", "x", "scale", "shift"}, "least",
		func() {
			lowerBound = YMM()
			VBROADCASTSS(argument("least"), lowerBound)
		},
		func(operands map[string]Mem) {
			v := YMM()
			VMOVUPS(operands["x"], v)
			t := YMM()
			VMOVUPS(operands["scale"], t)
			VFMADD213PS(operands["shift"], t, v)
			// The order of the operands lets a NaN stay.
			VMAXPS(v, lowerBound, v)
			VMOVUPS(v, operands["dst"])
		})
	// AddDots needs both sums in one pass over the arrays.
	walk("addDots", ": see AddDots.", []string{"sum", "dot", "y", "x"}, "", none, func(operands map[string]Mem) {
		g := YMM()
		v := YMM()
		VMOVUPS(operands["y"], g)
		VADDPS(operands["sum"], g, v)
		VMOVUPS(v, operands["sum"])
		d := YMM()
		VMOVUPS(operands["dot"], d)
		VFMADD231PS(operands["x"], g, d)
		VMOVUPS(d, operands["dot"])
	})
	// Combine computes b·y + c first, and then adds a·x.
	walk("combine", ": see Combine.", []string{"dst", "x", "a", "y", "b", "c"}, "", none,
		func(operands map[string]Mem) {
			v := YMM()
			t := YMM()
			VMOVUPS(operands["y"], v)
			VMOVUPS(operands["b"], t)
			VFMADD213PS(operands["c"], t, v)
			VMOVUPS(operands["a"], t)
			VFMADD231PS(operands["x"], t, v)
			VMOVUPS(v, operands["dst"])
		})
	// The kernels of a ReLU compare with zero.
	setZero := func() {
		zero = YMM()
		VXORPS(zero, zero, zero)
	}
	walk("addReLU", ": see AddReLU.", []string{"dst", "x"}, "", setZero, func(operands map[string]Mem) {
		v := YMM()
		VMOVUPS(operands["dst"], v)
		VADDPS(operands["x"], v, v)
		// The order of the operands lets a NaN stay.
		VMAXPS(v, zero, v)
		VMOVUPS(v, operands["dst"])
	})
	walk("mask", ": see Mask.", []string{"dst", "x"}, "", setZero, func(operands map[string]Mem) {
		k := YMM()
		// The mask is set where 0 < x.
		VCMPPS(Imm(0x11), operands["x"], zero, k)
		VANDPS(operands["dst"], k, k)
		VMOVUPS(k, operands["dst"])
	})
}
