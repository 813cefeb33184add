package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// walk is a function over groups of 8 floats of some arrays. It serves both classes:
// memory, not the width of a vector, decides its speed. body has the arrays' places.
func walk(name, doc string, arrays []string, scalar string, before func(), body func(at map[string]Mem)) {
	signature := "func(" + strings.Join(arrays, ", ") + " *float32, groups int"
	if scalar != "" {
		signature += ", " + scalar + " float32"
	}
	function(name, signature+")", doc)
	groups := load("groups")
	at := map[string]Mem{}
	var pointers []reg.Register
	for _, a := range arrays {
		p := load(a)
		at[a] = Mem{Base: p}
		pointers = append(pointers, p)
	}
	before()
	Label("group")
	body(at)
	advance(32, pointers...)
	repeat("group", groups)
	done()
}

func normalisation() {
	none := func() {}
	walk("centre", ": see Centre.", []string{"dst", "x", "mean", "squares"}, "", none, func(at map[string]Mem) {
		c := YMM()
		sum := YMM()
		VMOVUPS(at["x"], c)
		VSUBPS(at["mean"], c, c)
		VMOVUPS(c, at["dst"])
		VMOVUPS(at["squares"], sum)
		VFMADD231PS(c, c, sum)
		VMOVUPS(sum, at["squares"])
	})
	var least, zero reg.VecVirtual
	walk("affine", " writes at least `least`; see Affine.", []string{"dst", "x", "scale", "shift"}, "least",
		func() {
			least = YMM()
			VBROADCASTSS(argument("least"), least)
		},
		func(at map[string]Mem) {
			v := YMM()
			VMOVUPS(at["x"], v)
			t := YMM()
			VMOVUPS(at["scale"], t)
			VFMADD213PS(at["shift"], t, v)
			VMAXPS(v, least, v) // a NaN stays
			VMOVUPS(v, at["dst"])
		})
	walk("addDots", ": see AddDots.", []string{"sum", "dot", "y", "x"}, "", none, func(at map[string]Mem) {
		g := YMM()
		v := YMM()
		VMOVUPS(at["y"], g)
		VADDPS(at["sum"], g, v)
		VMOVUPS(v, at["sum"])
		d := YMM()
		VMOVUPS(at["dot"], d)
		VFMADD231PS(at["x"], g, d)
		VMOVUPS(d, at["dot"])
	})
	walk("combine", ": see Combine.", []string{"dst", "x", "a", "y", "b", "c"}, "", none, func(at map[string]Mem) {
		v := YMM()
		t := YMM()
		VMOVUPS(at["y"], v)
		VMOVUPS(at["b"], t)
		VFMADD213PS(at["c"], t, v)
		VMOVUPS(at["a"], t)
		VFMADD231PS(at["x"], t, v)
		VMOVUPS(v, at["dst"])
	})
	clear := func() {
		zero = YMM()
		VXORPS(zero, zero, zero)
	}
	walk("addReLU", ": see AddReLU.", []string{"dst", "x"}, "", clear, func(at map[string]Mem) {
		v := YMM()
		VMOVUPS(at["dst"], v)
		VADDPS(at["x"], v, v)
		VMAXPS(v, zero, v) // a NaN stays
		VMOVUPS(v, at["dst"])
	})
	walk("mask", ": see Mask.", []string{"dst", "x"}, "", clear, func(at map[string]Mem) {
		k := YMM()
		VCMPPS(Imm(0x11), at["x"], zero, k) // 0 < x
		VANDPS(at["dst"], k, k)
		VMOVUPS(k, at["dst"])
	})
}
