package main

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// The bytes are those that llvm-mc makes of the instructions, with a displacement of 32 bits where it
// takes a shorter one.
func TestEncode_KnownBytes(t *testing.T) {
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"ldtilecfg (%rax)":                      {tileConfigure(0), "c4e278498000000000"},
		"ldtilecfg (%r12)":                      {tileConfigure(12), "c4c27849842400000000"},
		"tilerelease":                           {tileRelease(), "c4e27849c0"},
		"tilezero %tmm3":                        {tileZero(3), "c4e27b49d8"},
		"tileloadd 1024(%rax,%rcx), %tmm5":      {tileLoad(5, 0, 1, 1024), "c4e27b4bac0800040000"},
		"tileloadd 64(%r13,%r14), %tmm7":        {tileLoad(7, 13, 14, 64), "c4827b4bbc3540000000"},
		"tilestored %tmm2, 2048(%r12,%rdx)":     {tileStore(2, 12, 2, 2048), "c4c27a4b941400080000"},
		"tdpbf16ps %tmm6, %tmm5, %tmm3":         {tileProduct(3, 5, 6), "c4e24a5cdd"},
		"vcvtne2ps2bf16 %zmm1, %zmm2, %zmm3":    {toBF16(3, 1, 2), "62f26f4872d9"},
		"vcvtne2ps2bf16 %zmm25, %zmm18, %zmm11": {toBF16(11, 25, 18), "62126f4072d9"},
		"vcvtne2ps2bf16 %zmm9, %zmm10, %zmm24":  {toBF16(24, 9, 10), "62422f4872c1"},
	} {
		want, err := hex.DecodeString(c.want)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.got, want) {
			t.Errorf("%s is % x, want % x", name, c.got, want)
		}
	}
}
