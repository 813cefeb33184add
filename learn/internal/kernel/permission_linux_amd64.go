package kernel

import (
	"sync"

	"golang.org/x/sys/unix"
)

// tilesPermitted asks the system, once, for the permission to use the tiles of AMX, and reports whether it
// gave it: Linux wants to know, because it then saves 8 KB more of a thread. The permission is the
// process's and ends with it.
var tilesPermitted = sync.OnceValue(func() bool {
	const (
		requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM of arch_prctl
		tileData          = 18     // XFEATURE_XTILEDATA
	)
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
})
