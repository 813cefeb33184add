package secagg

import (
	"crypto/aes"
	"crypto/cipher"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// On arm64 words have the same bits: uint64 of a negative float64 is 0 there and not 2^64 less its size, so
// what is converted goes by way of int64. The tests of words run under an emulator.
func TestEncode_Arm64(t *testing.T) {
	slow.Test(t, "it compiles the tests for arm64 and emulates them")
	if runtime.GOARCH == "arm64" {
		return
	}
	qemu := installed.Program(t, "qemu-aarch64-static", "qemu-user-static")
	path := filepath.Join(t.TempDir(), "secagg.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", path, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), qemu, path, "-test.run", "Encode_[^A]|AddMask|Recover|Conversions")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// What Go leaves to the machine is not what words are made of: from int64 to uint64 the bits stay.
func TestEncode_ConversionsOfNegativeNumbers(t *testing.T) {
	var word [1]uint64
	if err := Encode(word[:], 1, []float32{-3 * 0x1p-44}, []float32{0}); err != nil {
		t.Fatal(err)
	}
	if want := ^uint64(2); word[0] != want {
		t.Errorf("-3 is the word %#x, want %#x", word[0], want)
	}
	direct := -3.0
	got := uint64(direct)
	t.Logf("uint64(float64(-3)) is %#x on %s", got, runtime.GOARCH)
	if runtime.GOARCH == "arm64" && got != 0 || runtime.GOARCH == "amd64" && got != ^uint64(2) {
		t.Errorf("uint64(float64(-3)) is %#x on %s", got, runtime.GOARCH)
	}
}

// The counter of a mask has 128 bits: the stream goes on behind block 2^32, where a counter of 32 bits
// repeats or panics.
func TestMask_CounterBeyond32Bits(t *testing.T) {
	block, err := aes.NewCipher(make([]byte, cipherKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	before := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	behind := []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	var got, want [2 * aes.BlockSize]byte
	cipher.NewCTR(block, before).XORKeyStream(got[:], got[:])
	block.Encrypt(want[:aes.BlockSize], before)
	block.Encrypt(want[aes.BlockSize:], behind)
	if got != want {
		t.Errorf("the stream is %x, want %x", got, want)
	}
}
