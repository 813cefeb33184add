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

// Size is the number of bytes of the frame that precedes a payload.
const Size = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Begin appends room for the frame of a record to b. The caller appends the payload next.
func Begin(b []byte) []byte { return append(b, make([]byte, Size)...) }

// Seal fills in the frame of a record that [Begin] began in an empty slice, and returns the record.
func Seal(record []byte) []byte { return SealWith(record, nil) }

// SealWith is [Seal] for a record whose payload continues with the parts of rest, which the caller writes
// after the record one by one. They are not copied, but the length and the checksum in the frame count them.
func SealWith(record []byte, rest [][]byte) []byte {
	payload := record[Size:]
	size := len(payload)
	sum := crc32.Checksum(payload, castagnoli)
	for _, part := range rest {
		size += len(part)
		sum = crc32.Update(sum, castagnoli, part)
	}
	// The frame has the length, the checksum of the payload, and the checksum of these two.
	binary.LittleEndian.PutUint32(record, uint32(size))
	binary.LittleEndian.PutUint32(record[4:], sum)
	binary.LittleEndian.PutUint32(record[8:], crc32.Checksum(record[:8], castagnoli))
	return record
}

// Reader reads records one after another.
type Reader struct {
	// Offset is the place in the log, in bytes, at which the next record begins.
	Offset int64
	// Torn says that the log ends within a record. It is known once Next has returned io.EOF.
	Torn bool

	in         *bufio.Reader
	maxPayload int64
	wrong      error
	buffer     bytes.Buffer
}

// NewReader returns a reader of the records in a log. offset is the place in the log at which in stands. A
// payload has at most maxPayload bytes. Errors for damage wrap wrong.
func NewReader(in *bufio.Reader, offset, maxPayload int64, wrong error) *Reader {
	return &Reader{
		Offset:     offset,
		in:         in,
		maxPayload: maxPayload,
		wrong:      wrong,
	}
}

// Next returns the next payload, which is valid until the next call. The error is io.EOF at the end of the
// log, whether the log is torn or not. For a damaged record it is that of [Reader.Damaged].
func (r *Reader) Next() ([]byte, error) {
	var frame [Size]byte
	if n, err := io.ReadFull(r.in, frame[:]); err != nil {
		return nil, r.endOfLog(err, n > 0)
	}
	const withinRecord = true
	// A file system may leave zeros at the end of a log when the power fails. They stand for a record that is torn.
	if frame == [Size]byte{} && r.onlyZerosLeft() {
		return nil, r.endOfLog(io.EOF, withinRecord)
	}
	// The frame has the payload's length, the payload's checksum, and the checksum of these two (see SealWith).
	size := binary.LittleEndian.Uint32(frame[:])
	sum := binary.LittleEndian.Uint32(frame[4:])
	// A length that is damaged must not look like an end that is torn.
	if got, want := crc32.Checksum(frame[:8], castagnoli), binary.LittleEndian.Uint32(frame[8:]); got != want {
		return nil, r.Damaged(
			r.Offset,
			fmt.Sprintf("a record's length has the checksum %08x, its bytes give %08x", want, got),
		)
	}
	if size == 0 || int64(size) > r.maxPayload {
		return nil, r.Damaged(r.Offset, fmt.Sprintf("a record of %d bytes, want 1 to %d", size, r.maxPayload))
	}
	// Memory grows with what is there, not with what a length promises.
	r.buffer.Reset()
	if _, err := io.CopyN(&r.buffer, r.in, int64(size)); err != nil {
		return nil, r.endOfLog(err, withinRecord)
	}
	if got := crc32.Checksum(r.buffer.Bytes(), castagnoli); got != sum {
		return nil, r.Damaged(r.Offset, fmt.Sprintf("a record's checksum is %08x, its bytes give %08x", sum, got))
	}
	r.Offset += Size + int64(size)
	return r.buffer.Bytes(), nil
}

// Damaged returns the error for damage at the byte offset in the log.
func (r *Reader) Damaged(offset int64, problem string) error {
	return fmt.Errorf("%w at byte %d: %s", r.wrong, offset, problem)
}

// endOfLog returns io.EOF if err says that the log has ended, and notes in Torn if it ends within a record.
// Any other error is returned unchanged.
func (r *Reader) endOfLog(err error, withinRecord bool) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	r.Torn = r.Torn || withinRecord
	return io.EOF
}

// onlyZerosLeft reports whether all bytes up to the end of the log are zero. It reads up to the first other
// byte.
func (r *Reader) onlyZerosLeft() bool {
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
