// Package process is what the benchmarks share: the main function of a program, and
// what a process has cost.
package process
