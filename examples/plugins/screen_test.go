package plugins_test

import (
	"fmt"
	"io"

	"fedpace/metrics"
)

// onScreen is a run's folder whose files are printed.
type onScreen struct{ name string }

func (s *onScreen) Append(name string) (metrics.File, error) { return &onScreen{name}, nil }
func (s *onScreen) Spool(name string) (metrics.File, error)  { return &onScreen{name}, nil }
func (s *onScreen) Path(name string) string                  { return name }
func (s *onScreen) Size() int64                              { return 0 }

func (s *onScreen) Replace(name string, write func(io.Writer) error) error {
	return write(&onScreen{name})
}

func (s *onScreen) Write(line []byte) (int, error) {
	fmt.Printf("%s: %s", s.name, line)
	return len(line), nil
}
