package simulation

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"fedpace/coordinator"
	"fedpace/experiment/folder"
	"fedpace/internal/keyed"
	"fedpace/metrics"
)

// The outputs of a run.
const (
	rowsFile = "rows"
	saidFile = "said"
)

// results is the folder that an attempt of a coordinator fills: the rows of its
// rounds, what devices said, and checkpoints.
type results struct {
	disk  *disk
	store *folder.Store
	rows  metrics.File
	last  checkpoint // that was written, or gone on from
}

// checkpoint is what one holds.
type checkpoint struct {
	Number  int // of the run's checkpoints
	Outputs []folder.FileDigest
	State   *coordinator.State
}

// openResults opens a folder as a process finds it. There must be a checkpoint no
// older than the last that was said to be written, and the newest must be whole
// together with the outputs that it goes on from.
func (c *cluster) openResults(p *part, d *disk, o *outcome, said *record) (*results, error) {
	r := &results{disk: d, store: folder.OnDisk(c.mount(p, d), "")}
	for _, name := range folder.Checkpoints {
		err := r.store.ReadCheckpoint(name, func(in *folder.Payload) error { return gob.NewDecoder(in).Decode(&r.last) })
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = r.store.Check(r.last.Outputs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %d of which were written, cannot be used: %w", name, d.reported, err)
		}
		break
	}
	if r.last.Number < d.reported {
		return nil, fmt.Errorf("checkpoint %d was written, and %d is the newest that is there", d.reported, r.last.Number)
	}
	var err error
	r.rows, err = r.store.Append(rowsFile)
	if err != nil {
		return nil, err
	}
	said.to, err = r.store.Append(saidFile)
	if err != nil {
		return nil, err
	}
	o.Rows = r.lines()
	return r, said.read(bytes.NewReader(d.content(saidFile)))
}

// lines are the rows that are there.
func (r *results) lines() []string {
	return slices.Collect(strings.Lines(string(r.disk.content(rowsFile))))
}

// save writes a checkpoint.
func (r *results) save(s *coordinator.State) error {
	next := checkpoint{Number: r.last.Number + 1, State: s}
	err := r.store.Checkpoint(true, func(w io.Writer, outputs []folder.FileDigest) error {
		next.Outputs = outputs
		return gob.NewEncoder(w).Encode(next)
	})
	if err != nil {
		return err
	}
	r.disk.report(next.Number)
	next.State = nil
	r.last = next
	return nil
}

// mount gives a disk to a coordinator's process. Each thing that is to be on the disk
// takes a while, in which the process may crash; before some, it does.
func (c *cluster) mount(p *part, d *disk) *mounted {
	n, attempt := uint64(0), c.attempt(p)
	return &mounted{
		disk: d,
		alive: func() error {
			if p.crashed.Load() {
				return errors.New("the process has crashed")
			}
			return nil
		},
		wait: func() {
			n++
			h := keyed.Hash(c.seed, ofDisk, attempt, n)
			time.Sleep(time.Duration(h % uint64(200*time.Millisecond)))
			if keyed.Float64(keyed.Nth(h, 1)) < c.power && c.newest(p) && time.Since(epoch) < calmAfter {
				c.inflict(fault{kind: crash, part: -1, long: time.Second})
			}
		},
	}
}

// afterCrash is what a crash of the coordinator leaves of its disk. In one of four
// only the process ends, and the system writes all that it was given.
func (c *cluster) afterCrash(p *part) *disk {
	d, r := c.saved(), keyed.New(c.seed, ofPower, c.attempt(p))
	if r.IntN(4) > 0 {
		if d.reported > 0 && d.busy() {
			c.cuts++
		}
		d.cutPower(r)
	}
	return d
}
