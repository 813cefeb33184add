package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// period in microseconds in which a limited processor's share is handed out.
const period = 100_000

// limit is a control group whose processes share a part of a processor.
type limit struct{ dir string }

// newLimit makes a group, by version 2 of Linux's control groups or by version 1.
func newLimit(name string, processors float64) (*limit, error) {
	quota := int(processors * period)
	for _, v := range []struct {
		root     string
		settings [][2]string
	}{
		{"/sys/fs/cgroup", [][2]string{{"cpu.max", fmt.Sprintf("%d %d", quota, period)}}},
		{"/sys/fs/cgroup/cpu", [][2]string{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", strconv.Itoa(quota)}}},
	} {
		l := &limit{filepath.Join(v.root, fmt.Sprintf("fedpace-%d-%s", os.Getpid(), name))}
		if _, err := os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil || os.Mkdir(l.dir, 0o755) != nil {
			continue
		}
		var err error
		for _, s := range v.settings {
			err = errors.Join(err, l.write(s[0], s[1]))
		}
		if err == nil {
			return l, nil
		}
		l.remove()
	}
	return nil, errors.New("no control group can be made here")
}

func (l *limit) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(l.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// add puts a process into the group.
func (l *limit) add(pid int) error { return l.write("cgroup.procs", strconv.Itoa(pid)) }

func (l *limit) remove() { _ = os.Remove(l.dir) } // a group that is not empty stays, and limits nobody new
