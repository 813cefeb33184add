package uncached

import "os"

// WriteAt writes parts to a file one behind the other, from an offset in bytes on. It returns the number of bytes that
// were written, which is fewer than all with an error alone. The system has them then, so that they outlive this
// process, though not a failure of the machine.
func WriteAt(file *os.File, parts [][]byte, offset int64) (written int64, err error) {
	written, err = writeUncached(file, parts, offset)
	if err == nil {
		return written, nil
	}
	// The system cannot, or has failed: the rest is written as usual, which tells what is wrong.
	for _, part := range after(parts, written) {
		n, err := file.WriteAt(part, offset+written)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// after returns parts without their first bytes bytes. Together, parts must have that many.
func after(parts [][]byte, bytes int64) [][]byte {
	for len(parts) > 0 && bytes >= int64(len(parts[0])) {
		bytes -= int64(len(parts[0]))
		parts = parts[1:]
	}
	if bytes == 0 {
		return parts
	}
	return append([][]byte{parts[0][bytes:]}, parts[1:]...)
}
