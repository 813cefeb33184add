//go:build !amd64 && !arm64

package kernel

// routines is empty: on other processors everything is plain Go.
var routines [isas]routine

// tileRoutines is empty: only amd64 has tiles.
var tileRoutines [isas]tileRoutine
