package memlimit

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// heapShare is the part of the limit that the Go runtime may use. The rest is for memory that it does
// not count, such as mapped files and the stacks of C libraries.
const heapShare = 0.9

// noLimit is the limit of a process that has none.
const noLimit = math.MaxInt64

// Set sets the runtime's soft memory limit to a share of the control group's. It does nothing if the
// environment variable GOMEMLIMIT is set, or if there is no control group with a limit.
func Set() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := cgroupLimit(os.DirFS("/"))
	if limit < noLimit {
		debug.SetMemoryLimit(int64(heapShare * float64(limit)))
	}
}

// cgroupLimit returns the smallest memory limit in bytes of the process's control group and of the
// groups around it, noLimit if none has one. root is the root of the file system. It reads version 2
// of control groups, and version 1 where that is mounted instead.
func cgroupLimit(root fs.FS) int64 {
	limit := min(
		readLimit(root, "sys/fs/cgroup/memory.max"),
		readLimit(root, "sys/fs/cgroup/memory/memory.limit_in_bytes"),
	)
	// Outside a container the limit stands in the group's own folder, or above it.
	for group := ownGroup(root); group != "" && group != "." && group != "/"; group = path.Dir(group) {
		limit = min(limit, readLimit(root, path.Join("sys/fs/cgroup", group, "memory.max")))
	}
	return limit
}

// ownGroup returns the path of the process's control group of version 2 below the mount of all groups,
// "" if there is none.
func ownGroup(root fs.FS) string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(line, "0::/"); ok {
			return path.Clean(strings.TrimSpace(group))
		}
	}
	return ""
}

// readLimit returns the number in a file, noLimit if the file is not there or says max.
func readLimit(root fs.FS, file string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return noLimit
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 {
		return noLimit
	}
	return limit
}
