package data

import (
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/registry"
)

// TestInputsOf_Changes changes what a prepared file is made of: the options, the mapping, a file's content,
// its name, and the number of files. That each option counts is a promise of [registry.SettingsOf].
func TestInputsOf_Changes(t *testing.T) {
	dir := t.TempDir()
	datatest.Put(t, dir, "own.csv", []byte("c,x,y\na,1,0\n"))
	made := func(r federated.Reader, opt federated.Options) *registry.Inputs {
		found, err := inputsOf(r, dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	mapping := table.Table{Client: "c", Label: "y"}
	opt := federated.Options{Seed: 3, Partition: federated.Partition{Kind: "iid", Clients: 5}}
	begun := made(mapping, opt)
	if err := checkInputs(begun, made(mapping, opt)); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
	watched := opt
	watched.Reading = new(federated.Reading)
	if err := checkInputs(begun, made(mapping, watched)); err != nil {
		t.Errorf("only the progress is watched: %v", err)
	}
	expect := func(want string, now *registry.Inputs) {
		t.Helper()
		err := checkInputs(begun, now)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	nine := opt
	nine.Partition.Clients = 9
	expect("Clients:5", made(mapping, nine))
	expect("Clients:9", made(mapping, nine))
	expect("no mapping now", made(nil, opt))
	other := mapping
	other.Label = "x"
	expect("mapping was", made(other, opt))
	begun, earlier := new(registry.Inputs), begun
	expect("an earlier version made it", earlier)
	begun = earlier
	datatest.Put(t, dir, "own.csv", []byte("c,x,y\na,2,0\n"))
	expect("sources have changed", made(mapping, opt))
	datatest.Put(t, dir, "own.csv", []byte("c,x,y\na,1,0\n"))
	datatest.Put(t, dir, filepath.Join("more", "own.csv"), []byte("c,x,y\na,1,0\n"))
	expect("sources have changed", made(mapping, opt))
}
