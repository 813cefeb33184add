// Package outputs has the outputs of which one file is enough: the models, evaluations by client,
// what a run has cost so far, and event files for TensorBoard. An output is a file here: a
// [metrics.Sink] that registers itself.
package outputs

import (
	"bufio"

	"fedpace/metrics"
)

// appendTo opens a file that only grows, through a buffer. A new one begins with the header.
func appendTo(s *metrics.Start, name, header string) (*bufio.Writer, error) {
	file, err := s.Append(name)
	if err != nil {
		return nil, err
	}
	to := bufio.NewWriter(file)
	if file.Size() == 0 {
		_, _ = to.WriteString(header + "\n") // Flush returns the error
	}
	return to, to.Flush()
}
