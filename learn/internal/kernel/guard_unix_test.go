//go:build unix

package kernel

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n elements that end (or, where atStart, begin) at a page that
// may be neither read nor written: a kernel that strays kills the test.
func guarded[T any](t testing.TB, n int, atStart bool) []T {
	t.Helper()
	page := os.Getpagesize()
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	body := (size + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, body+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	for _, edge := range [][]byte{mem[:page], mem[page+body:]} {
		if err := unix.Mprotect(edge, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	from := page
	if !atStart {
		from += body - size
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&mem[from])), n)
}
