package simulation

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"fedpace/experiment/folder"
)

// disk is the machine's that a coordinator runs on. Programs see what was written
// last; a power cut keeps what was synced and, of the rest, what the seed draws: any
// of the changes of names since the folder was synced, and any of the blocks written
// since their file was.
type disk struct {
	mu       sync.Mutex
	names    map[string]*inode // as programs see them
	safe     map[string]*inode // as they were when the folder was synced
	changes  []change          // since then
	reported int               // number of the last checkpoint that was said to be written
}

// inode is a file, whatever its name.
type inode struct{ now, safe []byte }

// change is one of names: a file gets one, loses one, or both at once.
type change struct {
	file     *inode
	from, to string
}

func (c change) apply(names map[string]*inode) {
	if c.from != "" && names[c.from] == c.file {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.file
	}
}

func newDisk() *disk { return &disk{names: map[string]*inode{}, safe: map[string]*inode{}} }

// change changes names as programs see them.
func (d *disk) change(c change) {
	c.apply(d.names)
	d.changes = append(d.changes, c)
}

// clone is a disk of its own with the same on it.
func (d *disk) clone() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	copies := map[*inode]*inode{}
	of := func(f *inode) *inode {
		if copies[f] == nil {
			copies[f] = &inode{slices.Clone(f.now), slices.Clone(f.safe)}
		}
		return copies[f]
	}
	c := newDisk()
	c.reported = d.reported
	for name, f := range d.names {
		c.names[name] = of(f)
	}
	for name, f := range d.safe {
		c.safe[name] = of(f)
	}
	for _, x := range d.changes {
		c.changes = append(c.changes, change{of(x.file), x.from, x.to})
	}
	return c
}

// content is what a file holds.
func (d *disk) content(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.names[name].now)
}

// report notes that a checkpoint is said to be written.
func (d *disk) report(number int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reported = number
}

// busy reports whether names have changed that a power cut may change back.
func (d *disk) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.changes) > 0
}

// cutPower leaves of the disk what a power cut does.
func (d *disk) cutPower(r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := pick(r, 0, 0.5, 1)
	for _, c := range d.changes {
		if r.Float64() < keep {
			c.apply(d.safe)
		}
	}
	d.names, d.changes = maps.Clone(d.safe), nil
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		d.names[name].tear(r)
	}
}

// block is how many bytes of a file are written at once.
const block = 64

// tear leaves of a file what was synced, what was written since, or some of both:
// each block is of the one or the other, and zero where that has none.
func (f *inode) tear(r *rand.Rand) {
	keep := pick(r, 0, 0.5, 1)
	size := len(f.safe)
	switch keep {
	case 0.5:
		size = min(len(f.now), size) + r.IntN(max(len(f.now), size)-min(len(f.now), size)+1)
	case 1:
		size = len(f.now)
	}
	torn := make([]byte, size)
	for at := 0; at < size; at += block {
		from := f.safe
		if r.Float64() < keep {
			from = f.now
		}
		copy(torn[at:min(at+block, size)], from[min(at, len(from)):])
	}
	f.now, f.safe = torn, slices.Clone(torn)
}

// mounted is a disk as one process uses it. It implements [folder.Disk].
type mounted struct {
	*disk
	alive func() error // an error: the process has crashed
	wait  func()       // for the disk, before it has done something
}

// do does something on the disk, unless the process crashes before.
func (m *mounted) do(what func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.alive(); err != nil {
		return err
	}
	return what()
}

func (m *mounted) OpenFile(path string, flag int) (f folder.File, err error) {
	err = m.do(func() error {
		file := m.names[path]
		switch {
		case file == nil && flag&os.O_CREATE == 0:
			return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		case file == nil:
			file = &inode{}
			m.change(change{file: file, to: path})
		case flag&os.O_TRUNC != 0:
			file.now = nil
		}
		f = &opened{m: m, file: file}
		return nil
	})
	return f, err
}

func (m *mounted) Rename(from, to string) error {
	m.wait()
	return m.do(func() error {
		file := m.names[from]
		if file == nil {
			return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
		}
		m.change(change{file, from, to})
		return nil
	})
}

func (m *mounted) Remove(path string) error {
	return m.do(func() error {
		if m.names[path] == nil {
			return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
		}
		m.change(change{file: m.names[path], from: path})
		return nil
	})
}

func (m *mounted) SyncFolder(string) error {
	m.wait()
	return m.do(func() error {
		m.safe, m.changes = maps.Clone(m.names), nil
		return nil
	})
}

// opened is an open file.
type opened struct {
	m    *mounted
	file *inode
	at   int64
}

func (o *opened) Read(b []byte) (n int, err error) {
	err = o.m.do(func() error {
		if o.at >= int64(len(o.file.now)) {
			return io.EOF
		}
		n = copy(b, o.file.now[o.at:])
		o.at += int64(n)
		return nil
	})
	return n, err
}

func (o *opened) Write(b []byte) (int, error) {
	n, err := o.WriteAt(b, o.at)
	o.at += int64(n)
	return n, err
}

func (o *opened) WriteAt(b []byte, at int64) (int, error) {
	err := o.m.do(func() error {
		o.file.resize(max(int64(len(o.file.now)), at+int64(len(b))))
		copy(o.file.now[at:], b)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (o *opened) Truncate(size int64) error {
	return o.m.do(func() error {
		o.file.resize(size)
		return nil
	})
}

// resize cuts a file, or adds zeros to it.
func (f *inode) resize(size int64) {
	if old := int64(len(f.now)); size > old {
		f.now = append(f.now, make([]byte, size-old)...)
	} else {
		f.now = f.now[:size]
	}
}

func (o *opened) Sync() error {
	o.m.wait()
	return o.m.do(func() error {
		o.file.safe = slices.Clone(o.file.now)
		return nil
	})
}

func (o *opened) Seek(to int64, from int) (int64, error) {
	switch from {
	case io.SeekStart:
		o.at = to
	case io.SeekCurrent:
		o.at += to
	default:
		return 0, errors.ErrUnsupported
	}
	return o.at, nil
}

func (o *opened) Close() error { return nil }

func (o *opened) Stat() (fs.FileInfo, error) { return fileInfo{size: int64(len(o.file.now))}, nil }

// fileInfo is what is asked of a file.
type fileInfo struct {
	fs.FileInfo
	size int64
}

func (i fileInfo) Size() int64       { return i.size }
func (i fileInfo) Mode() fs.FileMode { return 0 }
