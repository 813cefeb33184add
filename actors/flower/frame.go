package flower

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"fedpace/internal/child"
)

// Limits of a frame. No process of an app has a reason to send more.
const (
	// maxHeader bounds the line of a header, and maxBlob a single blob, in bytes.
	maxHeader = 64 << 20
	maxBlob   = 4 << 30
	// maxBlobs bounds the number of blobs of a frame.
	maxBlobs = 1 << 20
)

const (
	// minShared is the size of all blobs of a frame, in bytes, from which on they go through shared
	// memory: fewer cross a pipe as fast.
	minShared = 32 << 10
	// maxShared bounds the memory that is shared with one process, in bytes.
	maxShared = 1 << 30
)

// blobPart is the part of a frame's header that says how long its blobs are, and where they lie.
type blobPart struct {
	Blobs []int64 `json:"blobs"`
	// Shared says that the blobs lie in shared memory, from its beginning on and one behind the
	// other. Otherwise they follow the header in the pipe.
	Shared bool `json:"shared,omitempty"`
	// Placed says that the blobs lie in the room of an [Arena] that the receiver has given the sender.
	Placed bool `json:"placed,omitempty"`
}

// writeFrame sends a frame to w: header as one line of JSON, then the bytes of all blobs, one
// behind the other. header must encode as a JSON object without the keys of a [blobPart], which are
// added if there are blobs. If the receiver shares memory m and the blobs are large, they are
// copied there and not sent. The receiver must have read the frame before, as both directions use
// the same memory. A nil m is no memory.
func writeFrame(w io.Writer, m *child.Memory, header any, blobs [][]byte) error {
	line, err := json.Marshal(header)
	if err != nil {
		return err
	}
	var part blobPart
	if len(blobs) > 0 {
		for _, blob := range blobs {
			part.Blobs = append(part.Blobs, int64(len(blob)))
		}
		part.Shared, err = share(m, blobs)
		if err != nil {
			return err
		}
		line = appendPart(line, &part)
	}
	// The newline ends the header; blobs may hold any bytes, newlines too.
	line = append(line, '\n')
	if _, err := w.Write(line); err != nil || part.Shared {
		return err
	}
	for _, blob := range blobs {
		if _, err := w.Write(blob); err != nil {
			return err
		}
	}
	return nil
}

// share copies blobs into memory m, one behind the other, after it has made the memory large enough for
// them. It returns false, and copies nothing, if blobs of their total size go through the pipe ([isForSharedMemory]).
func share(m *child.Memory, blobs [][]byte) (isShared bool, err error) {
	var size int64
	for _, blob := range blobs {
		size += int64(len(blob))
	}
	if !isForSharedMemory(m, size) {
		return false, nil
	}
	if _, err := m.Grow(int(size)); err != nil {
		return false, err
	}
	free := m.Bytes
	for _, blob := range blobs {
		free = free[copy(free, blob):]
	}
	return true, nil
}

// isForSharedMemory reports whether blobs that take this many bytes together go through shared memory m, once it is
// large enough, and not through the pipe. A nil m is no memory.
func isForSharedMemory(m *child.Memory, size int64) bool {
	return m != nil && minShared <= size && size <= maxShared
}

// appendPart adds the keys of part to the JSON of an object, and returns the JSON of the result. The object
// must have at least one key already. Its memory is used for the result.
func appendPart(object []byte, part *blobPart) []byte {
	// The encoding of integers and a truth value cannot fail.
	keys, _ := json.Marshal(part)
	// A comma takes the place of the object's closing brace and of the opening brace of keys.
	object[len(object)-1] = ','
	return append(object, keys[1:]...)
}

// readFrame waits for a frame on r, decodes its header into the pointer header and returns its blobs, none if the
// header announces none. m is the memory that the sender shares, nil for none; the blobs are copies, so that the next
// frame may use the memory. If blobs that are large enough for shared memory came through the pipe, as the memory was
// too small for them, it is made large enough for the next frame of their size. readFrame returns [io.EOF] if the
// other side has closed the pipe between two frames. A frame that is cut off or larger than the limits is another
// error. Blobs that the sender placed in a room of an [Arena] are not returned: the caller reads them there.
func readFrame(r *bufio.Reader, m *child.Memory, header any) ([][]byte, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	// The line is decoded twice: for the sizes of the blobs, and for what the caller asked for.
	var part blobPart
	if err := json.Unmarshal(line, &part); err != nil {
		return nil, fmt.Errorf("a frame's header is not JSON: %w", err)
	}
	if err := json.Unmarshal(line, header); err != nil {
		return nil, fmt.Errorf("a frame's header has another form: %w", err)
	}
	size, err := part.size()
	if err != nil || part.Placed {
		return nil, err
	}
	if part.Shared {
		return part.copies(m, size)
	}
	blobs := make([][]byte, len(part.Blobs))
	for i, size := range part.Blobs {
		blobs[i] = make([]byte, size)
		if _, err := io.ReadFull(r, blobs[i]); err != nil {
			return nil, fmt.Errorf("a frame is cut off: %w", io.ErrUnexpectedEOF)
		}
	}
	// These blobs would have gone through shared memory, but that was too small for them.
	if isForSharedMemory(m, size) {
		_, err = m.Grow(int(size))
	}
	return blobs, err
}

// size returns the size of all blobs together in bytes. It is an error if there are too many of
// them, or if one has a size that no blob has.
func (p *blobPart) size() (total int64, err error) {
	if len(p.Blobs) > maxBlobs {
		return 0, fmt.Errorf("a frame of %d blobs, want at most %d", len(p.Blobs), maxBlobs)
	}
	for _, size := range p.Blobs {
		if size < 0 || size > maxBlob {
			return 0, fmt.Errorf("a blob of %d bytes, want 0 to %d", size, int64(maxBlob))
		}
		total += size
	}
	return total, nil
}

// copies returns copies of the blobs that lie in memory m and take this many bytes together.
func (p *blobPart) copies(m *child.Memory, size int64) ([][]byte, error) {
	if m == nil || size > int64(len(m.Bytes)) {
		return nil, fmt.Errorf("a frame has %d bytes in shared memory, which is smaller", size)
	}
	rest := bytes.Clone(m.Bytes[:size])
	blobs := make([][]byte, len(p.Blobs))
	for i, size := range p.Blobs {
		// The capacity ends with the blob, so that appending to it leaves the next one alone.
		blobs[i] = rest[:size:size]
		rest = rest[size:]
	}
	return blobs, nil
}

// readLine reads from r up to the next newline and returns the line without it. A line that the end
// of the pipe cuts off is [io.ErrUnexpectedEOF], and nothing at all [io.EOF]. A line longer than
// maxHeader and a buffer of r is an error.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		// The line is longer than the buffer: another read gets its next part.
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxHeader:
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("a frame's header is longer than %d bytes", maxHeader)
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
