package flower

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Limits of a frame. No process of an app has a reason to send more.
const (
	// maxHeader bounds the line of a header, and maxBlob a single blob, in bytes.
	maxHeader = 64 << 20
	maxBlob   = 4 << 30
	// maxBlobs bounds the number of blobs of a frame.
	maxBlobs = 1 << 20
)

// blobSizes is the part of a frame's header that says how long the blobs behind it are.
type blobSizes struct {
	Blobs []int64 `json:"blobs"`
}

// writeFrame sends a frame to w: header as one line of JSON, then the bytes of all blobs, one
// behind the other. header must encode as a JSON object without the key blobs; that key is added
// with the sizes of the blobs, if there are any. Blobs are not copied.
func writeFrame(w io.Writer, header any, blobs [][]byte) error {
	line, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if len(blobs) > 0 {
		line = appendSizes(line, blobs)
	}
	// The newline ends the header; blobs may hold any bytes, newlines too.
	line = append(line, '\n')
	if _, err := w.Write(line); err != nil {
		return err
	}
	for _, blob := range blobs {
		if _, err := w.Write(blob); err != nil {
			return err
		}
	}
	return nil
}

// appendSizes returns the JSON of an object with one key more, blobs, whose value is the list of
// the blobs' sizes in bytes. The object must have at least one other key, and its memory may be
// reused.
func appendSizes(object []byte, blobs [][]byte) []byte {
	sizes := make([]int, len(blobs))
	for i, blob := range blobs {
		sizes[i] = len(blob)
	}
	// The encoding of a list of integers cannot fail.
	list, _ := json.Marshal(sizes)
	// The closing brace is replaced by a comma and the key.
	object = append(object[:len(object)-1], `,"blobs":`...)
	object = append(object, list...)
	return append(object, '}')
}

// readFrame waits for a frame on r, decodes its header into the pointer header and returns its
// blobs, none if the header announces none. It returns [io.EOF] if the other side has closed the
// pipe between two frames. A frame that is cut off or larger than the limits is another error.
func readFrame(r *bufio.Reader, header any) ([][]byte, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	// The line is decoded twice: for the sizes of the blobs, and for what the caller asked for.
	var sizes blobSizes
	if err := json.Unmarshal(line, &sizes); err != nil {
		return nil, fmt.Errorf("a frame's header is not JSON: %w", err)
	}
	if err := json.Unmarshal(line, header); err != nil {
		return nil, fmt.Errorf("a frame's header has another form: %w", err)
	}
	if len(sizes.Blobs) > maxBlobs {
		return nil, fmt.Errorf("a frame of %d blobs, want at most %d", len(sizes.Blobs), maxBlobs)
	}
	blobs := make([][]byte, len(sizes.Blobs))
	for i, size := range sizes.Blobs {
		if size < 0 || size > maxBlob {
			return nil, fmt.Errorf("a blob of %d bytes, want 0 to %d", size, int64(maxBlob))
		}
		blobs[i] = make([]byte, size)
		if _, err := io.ReadFull(r, blobs[i]); err != nil {
			return nil, fmt.Errorf("a frame is cut off: %w", io.ErrUnexpectedEOF)
		}
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
		case err == bufio.ErrBufferFull && len(line) <= maxHeader:
		case err == bufio.ErrBufferFull:
			return nil, fmt.Errorf("a frame's header is longer than %d bytes", maxHeader)
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
