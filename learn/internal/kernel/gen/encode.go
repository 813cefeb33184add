package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Neither avo nor Go's assembler knows the tiles of AMX or the conversions to bfloat16, so their
// instructions are written as bytes. They name registers by number: those of general registers and of
// vectors are the hardware's, and the eight tiles are 0 to 7.

// Prefixes of VEX and EVEX instructions, as their field pp says them.
const (
	prefixNone = iota
	prefix66
	prefixF3
	prefixF2
)

// map0F38 is the opcode map of all instructions here, as the field m of VEX and EVEX says it.
const map0F38 = 2

// vex returns the first four bytes of an instruction of 128 bits and W0 in the map 0F38: the prefix with its
// registers and the opcode. register is the one of ModRM's field reg, second the one of the field vvvv, and
// index and base those of the memory operand. Registers are stored inverted.
func vex(prefix, opcode, register, second, index, base int) []byte {
	return []byte{
		0xc4,
		byte((register>>3&1^1)<<7 | (index>>3&1^1)<<6 | (base>>3&1^1)<<5 | map0F38),
		byte((second&15^15)<<3 | prefix),
		byte(opcode),
	}
}

// tileMemory encodes TILELOADD or TILESTORED, as prefix says, which move a tile from or to memory: row r lies at
// base + displacement + r·index. base and index are numbers of registers.
func tileMemory(prefix, tile, base, index, displacement int) []byte {
	const opcode = 0x4b
	code := vex(prefix, opcode, tile, 0, index, base)
	// ModRM has the fields mod, reg and rm in 2, 3 and 3 bits. Mod 2 is a displacement of 32 bits, and rm 4 says
	// that a SIB byte follows, which has the scale 1, the index and the base.
	modRM := byte(2<<6 | tile<<3 | 4)
	sib := byte(index&7<<3 | base&7)
	code = append(code, modRM, sib)
	return binary.LittleEndian.AppendUint32(code, uint32(displacement))
}

// tileLoad encodes TILELOADD, which reads a tile from memory.
func tileLoad(tile, base, index, displacement int) []byte {
	return tileMemory(prefixF2, tile, base, index, displacement)
}

// tileStore encodes TILESTORED, which writes a tile to memory.
func tileStore(tile, base, index, displacement int) []byte {
	return tileMemory(prefixF3, tile, base, index, displacement)
}

// tileZero encodes TILEZERO.
func tileZero(tile int) []byte {
	return append(vex(prefixF2, 0x49, tile, 0, 0, 0), byte(3<<6|tile<<3))
}

// tileProduct encodes TDPBF16PS: sum += left·right.
func tileProduct(sum, left, right int) []byte {
	return append(vex(prefixF3, 0x5c, sum, right, 0, left), byte(3<<6|sum<<3|left))
}

// tileConfigure encodes LDTILECFG, which reads the shapes of all tiles from 64 bytes at base.
func tileConfigure(base int) []byte {
	code := append(vex(prefixNone, 0x49, 0, 0, 0, base), byte(2<<6|base&7))
	// RSP and R12 as a base need a SIB byte, here without an index.
	if base&7 == 4 {
		code = append(code, 0x24)
	}
	return append(code, 0, 0, 0, 0)
}

// tileRelease encodes TILERELEASE, after which the processor has no tiles that need saving.
func tileRelease() []byte { return append(vex(prefixNone, 0x49, 0, 0, 0, 0), 3<<6) }

// toBF16 encodes VCVTNE2PS2BF16 of 512 bits: the lower half of dst is made from the 16 values of low, and
// the upper half from those of high.
func toBF16(dst, low, high int) []byte {
	// EVEX has three bytes behind 0x62, with the upper bits of the registers inverted: the map and the bits 3 and 4 of
	// dst and low; the prefix and bits 0 to 3 of high; the length of 512 bits (2) and bit 4 of high. The opcode
	// and ModRM follow, which has the lower bits of dst and low.
	return []byte{
		0x62,
		byte((dst>>3&1^1)<<7 | (low>>4&1^1)<<6 | (low>>3&1^1)<<5 | (dst>>4&1^1)<<4 | map0F38),
		byte((high&15^15)<<3 | 1<<2 | prefixF2),
		byte(2<<5 | (high>>4&1^1)<<3),
		0x72,
		byte(3<<6 | dst&7<<3 | low&7),
	}
}

// number returns the hardware's number of a physical register.
func number(r reg.Register) int { return int(reg.ToPhysical(r).PhysicalIndex()) }

// emit writes the bytes of an instruction, with its text as a comment.
func emit(code []byte, format string, args ...any) {
	Comment(fmt.Sprintf(format, args...))
	for len(code) > 0 {
		opcode := "BYTE"
		n := 1
		value := operand.Op(operand.U8(code[0]))
		switch {
		case len(code) >= 4:
			opcode = "LONG"
			n = 4
			value = operand.U32(binary.LittleEndian.Uint32(code))
		case len(code) >= 2:
			opcode = "WORD"
			n = 2
			value = operand.U16(binary.LittleEndian.Uint16(code))
		}
		Instruction(&ir.Instruction{Opcode: opcode, Operands: []operand.Op{value}})
		code = code[n:]
	}
}
