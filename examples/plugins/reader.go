package plugins

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"fedpace/actors/data"
	"fedpace/actors/learn"
)

func init() { data.Readers.Register("points", "CSV with the columns client, label, x, y", Points{}) }

// Points reads points of a plane, each with a label. A client's last is held out.
type Points struct{}

// Recognises looks at the first 16 bytes.
func (Points) Recognises(s *data.Source) data.Match {
	if strings.HasPrefix(s.Head, "client,label,x,y") {
		return data.ByContent
	}
	return data.NoMatch
}

// Open reads the file.
func (Points) Open(s *data.Source, _ data.Options) (data.Set, error) {
	digest := sha256.New()
	rows, err := csv.NewReader(io.TeeReader(s.File, digest)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	set, number := &points{}, map[string]int{}
	for i, row := range rows[1:] {
		var p point
		if _, err := fmt.Sscan(strings.Join(row[1:], " "), &p.label, &p.x, &p.y); err != nil || p.label > 1 {
			return nil, fmt.Errorf("%s:%d: want a client, a label 0 or 1 and two numbers", s.Path, i+2)
		}
		c, known := number[row[0]]
		if !known {
			c, number[row[0]] = len(set.names), len(set.names)
			set.names, set.own = append(set.names, row[0]), append(set.own, nil)
		}
		set.own[c] = append(set.own[c], p)
	}
	for c, list := range set.own {
		if last := len(list) - 1; last > 0 {
			set.own[c], set.held = list[:last], append(set.held, list[last])
		}
	}
	set.info = data.Info{Name: "points", Digest: fmt.Sprintf("%x", digest.Sum(nil)), Features: 2, Classes: 2}
	return set, nil
}

type point struct {
	label uint8
	x, y  float32
}

type points struct {
	info  data.Info
	names []string
	own   [][]point // by client
	held  []point
}

func (s *points) Info() data.Info     { return s.info }
func (s *points) Clients() int        { return len(s.names) }
func (s *points) Client(c int) string { return s.names[c] }
func (s *points) Samples(c int) int   { return len(s.own[c]) }
func (s *points) HeldOut() int        { return len(s.held) }
func (s *points) Close() error        { return nil }

// Batch appends training samples of a client.
func (s *points) Batch(to *learn.Batch, c int, samples []int32) error {
	for _, i := range samples {
		s.own[c][i].appendTo(to)
	}
	return nil
}

// HeldOutBatch appends held-out samples.
func (s *points) HeldOutBatch(to *learn.Batch, from, n int) error {
	for _, p := range s.held[from : from+n] {
		p.appendTo(to)
	}
	return nil
}

func (p point) appendTo(to *learn.Batch) {
	to.N, to.Labels, to.X = to.N+1, append(to.Labels, int32(p.label)), append(to.X, p.x, p.y)
}
