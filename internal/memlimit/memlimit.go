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
	limit := int64(noLimit)
	for _, v := range []struct{ prefix, mount, file string }{
		{"0::", "sys/fs/cgroup", "memory.max"},
		{":memory:", "sys/fs/cgroup/memory", "memory.limit_in_bytes"},
	} {
		// In a container the limit stands at the mount, outside in the group's own folder, or above it.
		for group := ownGroup(root, v.prefix); ; group = path.Dir(group) {
			limit = min(limit, readLimit(root, path.Join(v.mount, group, v.file)))
			if group == "." {
				break
			}
		}
	}
	return limit
}

// ownGroup returns the path of the process's control group relative to the mount of its hierarchy; "." for
// the mount itself, or if there is no group. prefix identifies the hierarchy: it is the text before the
// path in the hierarchy's line of /proc/self/cgroup.
func ownGroup(root fs.FS, prefix string) string {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "."
	}
	for line := range strings.Lines(string(text)) {
		if _, group, ok := strings.Cut(line, prefix); ok {
			return path.Join(".", path.Clean("/" + strings.TrimSpace(group))[1:])
		}
	}
	return "."
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
