package data

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/actors/data/federated"
	"fedpace/actors/learn"
)

// The bytes of a prepared set's samples lie in its file where the set says, so that
// another process can map them.
func TestPreparedBytesLieInTheirFile(t *testing.T) {
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
	if err := writePrepared(path, "key", set); err != nil {
		t.Fatal(err)
	}
	read, err := readPrepared(path, "key")
	if err != nil {
		t.Fatal(err)
	}
	numbered, made, err := federated.Number(read)
	if err != nil || made {
		t.Fatal(made, err)
	}
	rows := numbered.(*federated.Grouped).Rows.(*federated.ByteRows)
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
