package slow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
)

// NextSeed returns the seed from which a test that is played in parts goes on: what the file at path says, or 0 if
// there is no such file or path is empty.
func NextSeed(t testing.TB, path string) uint64 {
	t.Helper()
	if path == "" {
		return 0
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		t.Fatalf("%s: want the number of the next seed: %v", path, err)
	}
	return seed
}

// SetNextSeed writes the seed from which the next part goes on, if all seeds before it have passed. It does nothing if
// path is empty.
func SetNextSeed(t testing.TB, path string, seed uint64) {
	t.Helper()
	if path == "" || t.Failed() {
		return
	}
	if err := os.WriteFile(path, []byte(fmt.Sprintln(seed)), 0o666); err != nil {
		t.Fatal(err)
	}
}
