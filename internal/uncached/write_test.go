package uncached

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Parts of all sizes stand one behind the other, however many there are, and what stood before stays.
func TestWriteAt_Parts(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var want []byte
	for _, sizes := range [][]int{{3}, {0}, {}, {5000, 0, 70_000, 1}, make([]int, 3000), {1 << 20, 12}} {
		var parts [][]byte
		record := int64(0)
		for i, size := range sizes {
			// Many small parts are more than the system takes at once.
			if len(sizes) > 1000 {
				size = i % 7
			}
			part := bytes.Repeat([]byte{byte(i + len(want))}, size)
			parts = append(parts, part)
			record += int64(size)
		}
		n, err := WriteAt(file, parts, int64(len(want)))
		if err != nil || n != record {
			t.Fatalf("%d bytes, %v, want %d", n, err, record)
		}
		want = append(want, bytes.Join(parts, nil)...)
	}
	got, err := os.ReadFile(file.Name())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes that differ from the %d written, %v", len(got), len(want), err)
	}
}

// A file that cannot be written is an error, with the number of bytes that it has got.
func TestWriteAt_Fails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if n, err := WriteAt(file, [][]byte{[]byte("text")}, 0); err == nil || n != 0 {
		t.Errorf("%d bytes, %v, want an error", n, err)
	}
}

// What is left of parts begins in the middle of one, or with the next.
func TestAfter_Places(t *testing.T) {
	parts := [][]byte{[]byte("ab"), {}, []byte("cde")}
	for count, want := range []string{"abcde", "bcde", "cde", "de", "e", ""} {
		if got := bytes.Join(after(parts, int64(count)), nil); string(got) != want {
			t.Errorf("after %d bytes %q is left, want %q", count, got, want)
		}
	}
}
