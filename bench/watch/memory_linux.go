package main

import (
	"os"
	"syscall"
)

// peak is the most memory that a process had, in bytes.
func peak(s *os.ProcessState) int64 {
	if use, ok := s.SysUsage().(*syscall.Rusage); ok {
		return int64(use.Maxrss) << 10
	}
	return 0
}
