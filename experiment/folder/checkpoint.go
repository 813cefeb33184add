package folder

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"

	"fedpace/metrics"
)

// A run's checkpoints in its folder: the newest, and the one before it, to which
// a run goes back when the newest is damaged.
const (
	CheckpointFile         = "checkpoint.bin"
	PreviousCheckpointFile = "checkpoint.previous.bin"

	unfinishedCheckpoint = ".checkpoint.unfinished"
)

// Checkpoints are both, the newest first.
var Checkpoints = []string{CheckpointFile, PreviousCheckpointFile}

// A checkpoint's file is, integers little-endian:
//
//	magic     20 bytes
//	format    uint32
//	length    uint64, of the payload
//	payload   the state of the run
//	checksum  SHA-256 of magic, format, length and the payload's SHA-256
const (
	checkpointMagic   = "fedpace checkpoint\n\x00"
	checkpointFormat  = 12
	checkpointHeadLen = int64(len(checkpointMagic)) + 4 + 8
	// maxCheckpoint is the largest size of a checkpoint's file, in bytes.
	maxCheckpoint = 1 << 40
)

// Why a checkpoint is refused.
var (
	// ErrTruncated: the file ends early.
	ErrTruncated = errors.New("checkpoint: truncated")
	// ErrDamaged: the file is whole in length and not what was written.
	ErrDamaged = errors.New("checkpoint: damaged")
	// ErrForeign: the file is not a checkpoint, or one of another run.
	ErrForeign = errors.New("checkpoint: foreign")
	// ErrInputs: the data, a file that the configuration names, the trainer or the kernel
	// class is not what the run began with.
	ErrInputs = errors.New("checkpoint: an input has changed since the run began")
	// ErrFormat: another version wrote the file.
	ErrFormat = errors.New("checkpoint: of another format")
)

// Refused reports whether a checkpoint is refused for a reason that going back to an earlier
// checkpoint does not cure: it is of another run, other inputs or another format.
func Refused(err error) bool {
	return errors.Is(err, ErrForeign) || errors.Is(err, ErrInputs) || errors.Is(err, ErrFormat)
}

// Complete removes what only a run that goes on needs, once its summary is there: its checkpoints and
// spools.
func (r *Results) Complete() error {
	err := r.remove(CheckpointFile, PreviousCheckpointFile, unfinishedCheckpoint, JournalFile)
	for _, a := range r.outputs {
		if a.spool {
			err = errors.Join(err, a.file.Close(), r.remove(a.name))
		}
	}
	r.outputs = slices.DeleteFunc(r.outputs, func(a *appendFile) bool { return a.spool })
	return aboutResults(err)
}

// Tidy is [Results.Complete] for the folder of a run that is complete, in which a process
// that was killed may have left those files.
func Tidy(dir string) error {
	names := append(spoolFiles(), CheckpointFile, PreviousCheckpointFile, unfinishedCheckpoint, JournalFile)
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	if !slices.ContainsFunc(names, exists) {
		return nil
	}
	r, err := ReopenResults(dir)
	if err != nil {
		return err
	}
	return errors.Join(r.remove(names...), r.Close())
}

// spoolFiles lists the names of the files that outputs need only until a run is complete, over all
// kinds of outputs.
func spoolFiles() (list []string) {
	for _, name := range metrics.Sinks.Names() {
		sink, _ := metrics.Sinks.Entry(name)
		list = append(list, metrics.Spools(sink)...)
	}
	return list
}

// checkpointSum is the checksum that stands behind the payload.
func checkpointSum(head []byte, payload hash.Hash) []byte {
	sum := sha256.Sum256(payload.Sum(bytes.Clone(head)))
	return sum[:]
}

// decodeCheckpoint reads a checkpoint of size bytes from f: a head of the magic text, the format in 4 bytes and the
// payload's length in 8, little-endian; the payload; and a SHA-256 of both. It checks magic, format, length and
// checksum, and only then lets read have the payload, of which it must leave nothing.
func decodeCheckpoint(f io.ReadSeeker, size int64, read func(*Payload) error) error {
	head := make([]byte, min(checkpointHeadLen, size))
	if _, err := io.ReadFull(f, head); err != nil {
		return err
	}
	if err := checkMagic(head[:min(len(head), len(checkpointMagic))]); err != nil {
		return err
	}
	if int64(len(head)) < checkpointHeadLen {
		return fmt.Errorf("%w: it has %d bytes", ErrTruncated, size)
	}
	fields := head[len(checkpointMagic):]
	format := binary.LittleEndian.Uint32(fields)
	length := binary.LittleEndian.Uint64(fields[4:])
	// A file that is too short was cut off; any other contradiction is damage.
	switch wanted := checkpointHeadLen + int64(length) + sha256.Size; {
	case format == 0 || length > maxCheckpoint:
		return fmt.Errorf("%w: its head says format %d and %d bytes", ErrDamaged, format, length)
	case format != checkpointFormat:
		return fmt.Errorf("%w: it has format %d, and this version reads format %d (resume the run with the version "+
			"that wrote it, or begin another with --out)", ErrFormat, format, checkpointFormat)
	case size < wanted:
		return fmt.Errorf("%w: it has %d of %d bytes", ErrTruncated, size, wanted)
	case size > wanted:
		return fmt.Errorf("%w: it has %d bytes, %d were written", ErrDamaged, size, wanted)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, int64(length)); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, want); err != nil {
		return err
	}
	// The whole file is read before any of it is used.
	if !bytes.Equal(checkpointSum(head, sum), want) {
		return fmt.Errorf("%w: its checksum is not that of what it holds", ErrDamaged)
	}
	if _, err := f.Seek(checkpointHeadLen, io.SeekStart); err != nil {
		return err
	}
	p := NewPayload(f, int64(length))
	err := read(p)
	if err == nil && p.Remaining() != 0 {
		err = fmt.Errorf("%w: %d bytes too many", ErrDamaged, p.Remaining())
	}
	return err
}

// checkMagic tells a damaged checkpoint from a file that is none, by its first bytes, head, of which there are as many
// as checkpointMagic has. It returns nil if all are those of checkpointMagic. It returns ErrDamaged if all are zeros,
// as in a block that never reached the disk, or if more than half are right: those were all right once. Any other
// file was never a checkpoint, which is ErrForeign.
func checkMagic(head []byte) error {
	same := 0
	zeros := 0
	for i, b := range head {
		if b == checkpointMagic[i] {
			same++
		}
		if b == 0 {
			zeros++
		}
	}
	switch {
	case same == len(head):
		return nil
	// More than half of the bytes are as they were written.
	case zeros == len(head) || same > len(head)/2:
		return fmt.Errorf("%w: it does not begin as it was written", ErrDamaged)
	}
	return fmt.Errorf(
		"%w: the file does not begin as one (move it away: a run goes on from the checkpoint before)",
		ErrForeign,
	)
}

// Payload is the state in a checkpoint, as a reader that knows how many bytes it still holds. It is an
// io.ByteReader, so that gob takes no more of it than it needs.
type Payload struct {
	*bufio.Reader
	limited *io.LimitedReader
}

// NewPayload is the payload of so many bytes that a reader yields next.
func NewPayload(r io.Reader, length int64) *Payload {
	limited := &io.LimitedReader{R: r, N: length}
	return &Payload{bufio.NewReader(limited), limited}
}

// Remaining is the number of bytes that are not read yet.
func (p *Payload) Remaining() int64 { return p.limited.N + int64(p.Buffered()) }
