package memlimit

import (
	"testing"
	"testing/fstest"
)

func TestCgroupLimit_Versions(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, test := range []struct {
		name string
		root fstest.MapFS
		want int64
	}{
		{"no groups", fstest.MapFS{}, noLimit},
		{"a container", fstest.MapFS{"sys/fs/cgroup/memory.max": file("314572800\n"), "proc/self/cgroup": file("0::/\n")}, 300 << 20},
		{"no limit", fstest.MapFS{"sys/fs/cgroup/memory.max": file("max\n")}, noLimit},
		{"version 1", fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1048576\n")}, 1 << 20},
		{"a service below a slice with less", fstest.MapFS{
			"proc/self/cgroup":                                   file("0::/lab.slice/fedpace.service\n"),
			"sys/fs/cgroup/lab.slice/memory.max":                 file("1000\n"),
			"sys/fs/cgroup/lab.slice/fedpace.service/memory.max": file("2000\n"),
		}, 1000},
		{"a service of version 1", fstest.MapFS{
			"proc/self/cgroup":                                       file("5:cpu,cpuacct:/x\n4:memory:/lab/fedpace\n0::/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":             file("9223372036854771712\n"),
			"sys/fs/cgroup/memory/lab/memory.limit_in_bytes":         file("4000\n"),
			"sys/fs/cgroup/memory/lab/fedpace/memory.limit_in_bytes": file("3000\n"),
		}, 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := cgroupLimit(test.root); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
