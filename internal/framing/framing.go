package framing

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Size is the length of what precedes a payload.
const Size = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin appends room for what precedes a payload, which is to be appended next.
func Begin(b []byte) []byte { return append(b, make([]byte, Size)...) }

// Seal completes a record that [Begin] began.
func Seal(record []byte) []byte {
	payload := record[Size:]
	binary.LittleEndian.PutUint32(record, uint32(len(payload)))
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(record[:8], castagnoli))
	return record
}

// Reader reads records one after another.
type Reader struct {
	Offset int64 // of the record that comes next
	Torn   bool  // the log ends within a record; known behind the last

	in     *bufio.Reader
	most   int64
	wrong  error
	buffer bytes.Buffer
}

// NewReader reads records from a place in a log. A payload has at most so many bytes. Errors for
// damage wrap wrong.
func NewReader(in *bufio.Reader, offset, most int64, wrong error) *Reader {
	return &Reader{
		Offset: offset,
		in:     in,
		most:   most,
		wrong:  wrong,
	}
}

// Next returns the next payload, io.EOF at the end, torn or not. It is valid until the next call.
func (r *Reader) Next() ([]byte, error) {
	var frame [Size]byte
	if n, err := io.ReadFull(r.in, frame[:]); err != nil {
		return nil, r.ends(err, n > 0)
	}
	if frame == [Size]byte{} && r.zeros() { // a file system may leave them behind when the power fails
		return nil, r.ends(io.EOF, true)
	}
	size := binary.LittleEndian.Uint32(frame[:])
	sum := binary.LittleEndian.Uint32(frame[4:])
	// A length that is damaged must not look like an end that is torn.
	if got, want := crc32.Checksum(frame[:8], castagnoli), binary.LittleEndian.Uint32(frame[8:]); got != want {
		return nil, r.Damaged(
			r.Offset,
			fmt.Sprintf("a record's length has the checksum %08x, its bytes give %08x", want, got),
		)
	}
	if size == 0 || int64(size) > r.most {
		return nil, r.Damaged(r.Offset, fmt.Sprintf("a record of %d bytes, want 1 to %d", size, r.most))
	}
	// Memory grows with what is there, not with what a length promises.
	r.buffer.Reset()
	if _, err := io.CopyN(&r.buffer, r.in, int64(size)); err != nil {
		return nil, r.ends(err, true)
	}
	if got := crc32.Checksum(r.buffer.Bytes(), castagnoli); got != sum {
		return nil, r.Damaged(r.Offset, fmt.Sprintf("a record's checksum is %08x, its bytes give %08x", sum, got))
	}
	r.Offset += Size + int64(size)
	return r.buffer.Bytes(), nil
}

// Damaged is the error for what is wrong at a place.
func (r *Reader) Damaged(at int64, what string) error {
	return fmt.Errorf("%w at byte %d: %s", r.wrong, at, what)
}

// ends tells a log that ends, within a record or not, from one that cannot be read.
func (r *Reader) ends(err error, within bool) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	r.Torn = r.Torn || within
	return io.EOF
}

// zeros reports whether nothing but zeros follows.
func (r *Reader) zeros() bool {
	for {
		b, err := r.in.ReadByte()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if b != 0 {
			return false
		}
	}
}
