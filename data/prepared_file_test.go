package data

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/data/federated"
	"fedpace/learn"
	"fedpace/registry"
)

// The bytes of a prepared set's samples lie in its file where the set says, so that
// another process can map them.
func TestPrepared_BytesLieInFile(t *testing.T) {
	var g federated.Grouping
	g.Add("a", []int32{0, 1}, []int32{2})
	g.Add("b", []int32{3}, nil)
	set, err := g.Set(federated.Grouped{
		About:  federated.Info{Digest: "d", Samples: learn.Samples{Input: learn.Dense, Features: 3, Classes: 2}},
		Labels: []int32{0, 1, 1, 0},
		Rows:   &federated.ByteRows{Width: 3, Bytes: []byte("abcdefghijkl"), Coding: federated.Fraction},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "set.fedpace")
	if err := writePrepared(path, &registry.Inputs{Data: "made"}, set); err != nil {
		t.Fatal(err)
	}
	read, err := readPrepared(path, &registry.Inputs{Data: "made"})
	if err != nil {
		t.Fatal(err)
	}
	numbered, made := read.InMemory()
	if made {
		t.Error("a prepared set was made for this")
	}
	rows := numbered.Rows.(*federated.ByteRows)
	there := make([]byte, len(rows.Bytes))
	if _, err := rows.File.ReadAt(there, rows.Offset); err != nil || !bytes.Equal(there, []byte("abcdefghijkl")) {
		t.Errorf("the file has %q, %v", there, err)
	}
	if got := []int32{numbered.Row(0, 1), numbered.Row(1, 0), numbered.HeldOutRow(0)}; !slices.Equal(got, []int32{1, 3, 2}) {
		t.Errorf("rows %v", got)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.File.ReadAt(there, rows.Offset); err == nil {
		t.Error("a closed set keeps its file open")
	}
}

// A prepared file of another program whose numbers do not go together is damaged.
func TestPrepared_MismatchedMeanings(t *testing.T) {
	for name, change := range map[string]func(*federated.Grouped){
		"classes":   func(s *federated.Grouped) { s.About.Labels = []string{"a", "b", "c"} },
		"columns":   func(s *federated.Grouped) { s.About.Columns = []string{"a"} },
		"means":     func(s *federated.Grouped) { s.About.Mean, s.About.Deviation = []float64{1}, []float64{1} },
		"deviation": func(s *federated.Grouped) { s.About.Deviation = []float64{1, 1} },
		"alphabet":  func(s *federated.Grouped) { s.About.Alphabet = []string{"a"} },
		"no times":  func(s *federated.Grouped) { s.About.Arrival = &federated.Arrival{Column: "at", Speed: 1} },
		"a window": func(s *federated.Grouped) {
			s.Times = make([]float64, 4)
			s.About.Arrival = &federated.Arrival{Column: "at", Speed: 1, Window: -1}
		},
		"times": func(s *federated.Grouped) {
			s.Times = []float64{0, 1, math.NaN(), 2}
			s.About.Arrival = &federated.Arrival{Column: "at", Speed: 1}
		},
		"three times": func(s *federated.Grouped) {
			s.Times = make([]float64, 3)
			s.About.Arrival = &federated.Arrival{Column: "at", Speed: 1}
		},
		"targets": func(s *federated.Grouped) { // so many that their product with the samples is 4
			s.About.Classes, s.About.Targets, s.Labels, s.Targets = 0, math.MaxInt/2+2, nil, []float32{1, 2, 3, 4}
		},
	} {
		var g federated.Grouping
		g.Add("a", []int32{0, 1, 2}, []int32{3})
		set, err := g.Set(federated.Grouped{
			About:  federated.Info{Samples: learn.Samples{Input: learn.Dense, Features: 2, Classes: 2}},
			Labels: []int32{0, 1, 1, 0}, Rows: &federated.FloatRows{Width: 2, Values: make([]float32, 8)},
		})
		if err != nil {
			t.Fatal(err)
		}
		change(set)
		path := filepath.Join(t.TempDir(), "set.fedpace")
		if err := writePrepared(path, &registry.Inputs{Data: "made"}, set); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, federated.Options{}); err == nil || !strings.Contains(err.Error(), "damaged: ") {
			t.Errorf("%s: %v, want that it is damaged", name, err)
		}
	}
}
