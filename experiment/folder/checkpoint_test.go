package folder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Whatever becomes of a file, what is wrong with it is said, and nothing that
// was not written is taken for a checkpoint.
func TestCheckpoint_DamagedOrOld(t *testing.T) {
	whole := written(t, []byte("the state of a run, as bytes"))
	if _, err := read(whole); err != nil {
		t.Fatal(err)
	}
	is := func(what string, b []byte, want ...error) {
		t.Helper()
		_, err := read(b)
		for _, w := range want {
			if errors.Is(err, w) {
				return
			}
		}
		t.Errorf("%s: %v, want one of %v", what, err, want)
	}
	for n := range whole {
		is("cut short", whole[:n], ErrTruncated)
	}
	is("something behind it", append(bytes.Clone(whole), 0), ErrDamaged)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		switch {
		case i < len(checkpointMagic):
			is("a bit of the beginning", b, ErrDamaged)
		case i < len(checkpointMagic)+4:
			is("the format", b, ErrFormat, ErrDamaged)
		case i < int(checkpointHeadLen):
			is("the length", b, ErrTruncated, ErrDamaged)
		default:
			is("a bit", b, ErrDamaged)
		}
	}
	for _, format := range []uint32{checkpointFormat - 1, checkpointFormat + 1} {
		other := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(other[len(checkpointMagic):], format)
		is("another format", other, ErrFormat)
	}
	is("another file", []byte("\x89PNG and more of it, longer than the head of a checkpoint"), ErrForeign)
	is("a sparse file", make([]byte, len(whole)), ErrDamaged)
	blank := bytes.Clone(whole)
	clear(blank[checkpointHeadLen:])
	is("blocks that never came to the disk", blank, ErrDamaged)
}

// written is the file of a checkpoint with this payload.
func written(t *testing.T, payload []byte) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { _, err := w.Write(payload); return err }
	if err := errors.Join(encodeCheckpoint(f, write), f.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (payload []byte, err error) {
	err = decodeCheckpoint(bytes.NewReader(b), int64(len(b)), func(p *Payload) error {
		payload, err = io.ReadAll(p)
		return err
	})
	return payload, err
}
