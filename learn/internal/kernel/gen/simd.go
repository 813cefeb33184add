package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// simd says in what the vector extensions differ.
type simd struct {
	name string
	// bytes is the length of a vector in bytes.
	bytes int
	// masks says that there are registers for masks, as AVX-512 has them.
	masks bool
	// maxRows is the largest register tile for one and for two vectors of columns.
	maxRows [3]int
	vec     func() reg.VecVirtual
}

var (
	avx512 = simd{"512", 64, true, [3]int{1: 14, 2: 14}, ZMM}
	avx2   = simd{"256", 32, false, [3]int{1: 12, 2: 6}, YMM}
	// half is AVX-512 on vectors of AVX2's length.
	half = simd{"Half", 32, true, [3]int{1: 14, 2: 6}, YMM}
)

// wide reports whether a vector has 512 bits.
func (s simd) wide() bool { return s.bytes == 64 }

// zero clears a register. avo knows that this form reads nothing.
func (s simd) zero(v reg.Register) { VXORPS(v, v, v) }

// vector returns the place of a whole vector of x in the program's data.
func (s simd) vector(x float32) Mem { return bits(math.Float32bits(x)) }

// constants holds the constants of the program's data by their bits, so that each stands there once.
var constants = map[uint32]Mem{}

// bits returns 64 bytes of the program's data that hold x 16 times; an instruction that reads less
// takes its beginning. Equal constants share one place.
func bits(x uint32) Mem {
	m, ok := constants[x]
	if !ok {
		m = GLOBL(fmt.Sprintf("constant%08x", x), 8|16) // RODATA|NOPTR
		for i := range 16 {
			DATA(4*i, U32(x))
		}
		constants[x] = m
	}
	return m
}

// function begins an assembly function of this name and signature. Its comment is its name with doc
// behind it. Its pointers do not escape.
func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	Doc(name + doc)
}

// load brings the argument of this name into a general register, which it returns.
func load(name string) reg.GPVirtual { return Load(Param(name), GP64()).(reg.GPVirtual) }

// argument returns the memory operand of the kernel's argument of this name, and panics if the
// signature has none.
func argument(name string) Mem {
	c, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return c.Addr
}

// advance moves each of the pointers on by the given number of bytes.
func advance(bytes int, pointers ...reg.Register) {
	for _, p := range pointers {
		ADDQ(immediate(bytes), p)
	}
}

// immediate is a constant operand: avo has it in 8 or 32 bits.
func immediate(x int) Op {
	if x < 1<<8 {
		return Imm(uint64(x))
	}
	return U32(uint32(x))
}

// repeat counts count down by one, and goes back to label until nothing is left.
func repeat(label string, count Op) {
	DECQ(count)
	JNZ(LabelRef(label))
}

// done ends a function that used wide registers.
func done() {
	VZEROUPPER()
	RET()
}
