//go:build !amd64 && !arm64

package kernel

var routines [isas]routine
