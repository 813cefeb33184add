// Package memlimit gives Go's garbage collector the memory limit of the process's control group, and
// makes it run early while large files are read.
//
// The runtime does not read it by itself: without a limit a heap may grow to twice of what is in use,
// and the kernel kills a process in a small container that would have had enough memory.
package memlimit
