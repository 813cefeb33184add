package plugins

import (
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"fedpace/data/federated"
	"fedpace/learn"
)

func init() {
	federated.Readers.Register("points", "CSV with the columns client, label, x, y", Points{})
}

// Points reads points of a plane, each with a client and a label.
type Points struct{}

// Recognises looks at the first 16 bytes.
func (Points) Recognises(s *federated.Source) federated.Match {
	if strings.HasPrefix(s.Head, "client,label,x,y") {
		return federated.ByContent
	}
	return federated.NoMatch
}

// Open reads the file. Four fifths of a client's points are for training.
func (Points) Open(s *federated.Source, o federated.Options) (federated.Set, error) {
	digest := sha256.New()
	fmt.Fprint(digest, o.Seed) // the split depends on it
	lines, err := csv.NewReader(io.TeeReader(s.File, digest)).ReadAll()
	if err != nil {
		return nil, err
	}
	var names []string
	samples := map[string][]int32{} // by client the indices of its samples
	set := federated.Grouped{}
	rows := &federated.FloatRows{Width: 2}
	for i, line := range lines[1:] {
		var label uint8
		var x, y float32
		if _, err := fmt.Sscan(strings.Join(line[1:], " "), &label, &x, &y); err != nil || label > 1 {
			return nil, fmt.Errorf("line %d: want a client, a label 0 or 1 and two numbers", i+2)
		}
		if samples[line[0]] == nil {
			names = append(names, line[0])
		}
		samples[line[0]] = append(samples[line[0]], int32(i))
		set.Labels = append(set.Labels, int32(label))
		rows.Values = append(rows.Values, x, y)
	}
	var g federated.Grouping
	for c, name := range names {
		train, held := federated.Split(o.Seed, c, samples[name])
		g.Add(name, train, held)
	}
	set.Rows = rows
	set.About = federated.Info{
		Name:    "points",
		Digest:  fmt.Sprintf("%x", digest.Sum(nil)),
		Samples: learn.Samples{Features: 2, Classes: 2},
	}
	return g.Set(set)
}
