package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/edsrzf/mmap-go"
)

// alignment is the alignment of every offset in shared memory, in bytes.
const alignment = 64

// Align rounds n bytes up to a multiple of the alignment, so that numbers of any type can begin
// there.
func Align(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// TemporaryFile returns a file without a name, so that no other program can open it and it is gone
// with its last descriptor, however the process ends.
func TemporaryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "fedpace-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Memory is the memory that one process shares with this one: a file without a name that both map.
type Memory struct {
	file *os.File
	// Bytes are the mapped file. A slice of them is valid until [Memory.Grow].
	Bytes mmap.MMap
}

// NewMemory returns empty shared memory for one child, which [Memory.Grow] makes larger. It needs a
// little-endian machine, as numbers are not converted. Close it after use.
func NewMemory() (*Memory, error) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, errors.New("processes share numbers in little-endian memory, which this machine does not have")
	}
	f, err := memoryFile()
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return &Memory{file: f}, nil
}

// Grow makes room for n bytes in all, and for some more, so that it is rarely needed. It reports
// whether the file was enlarged, of which the child must be told. Existing content stays, but
// slices of the old mapping become invalid.
func (m *Memory) Grow(n int) (grown bool, err error) {
	if n <= len(m.Bytes) {
		return false, nil
	}
	// Doubling makes repeated growth cheap, up to a bound on the memory that is wasted.
	n = max(n, min(2*len(m.Bytes), len(m.Bytes)+growth))
	if err := m.file.Truncate(int64(n)); err != nil {
		return false, fmt.Errorf("shared memory of %d bytes: %w", n, err)
	}
	if m.Bytes != nil {
		if err := m.Bytes.Unmap(); err != nil {
			return false, err
		}
	}
	m.Bytes, err = mmap.Map(m.file, mmap.RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("shared memory of %d bytes: %w", n, err)
	}
	return true, nil
}

// growth bounds the bytes that memory grows by beyond what is needed.
const growth = 64 << 20

// File returns the file of the memory, which a child inherits and maps.
func (m *Memory) File() *os.File { return m.file }

// Close unmaps the memory and closes its file. The child's own mapping stays valid until the child
// ends.
func (m *Memory) Close() error {
	var err error
	// Memory that was never grown is not mapped.
	if m.Bytes != nil {
		err = m.Bytes.Unmap()
	}
	return errors.Join(err, m.file.Close())
}

// Numbers returns n numbers of four bytes each as a slice of the shared memory m itself, from an
// offset in bytes that [Align] has given. What the child writes there is seen in it; [Memory.Grow]
// makes it invalid.
func Numbers[T float32 | int32](m *Memory, offset, n int) []T {
	b := m.Bytes[offset : offset+4*n]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
