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

// TestSource_SameForSeeds splits a table by two seeds: the sets differ, and come from the same source, as does a
// prepared file. Another content, mapping or partition is another source.
func TestSource_SameForSeeds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "own.csv")
	rows := "c,x,y\n" + strings.Repeat("a,1,0\nb,2,1\nb,3,0\na,5,1\n", 10)
	open := func(mapping table.Table, opt federated.Options) federated.Info {
		s, err := OpenWith(mapping, path, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Info()
	}
	mapping := table.Table{Client: "c", Features: []string{"x"}, Label: "y"}
	datatest.Put(t, dir, "own.csv", []byte(rows))
	first := open(mapping, federated.Options{Seed: 1})
	second := open(mapping, federated.Options{Seed: 2})
	if first.Source == "" || first.Source != second.Source || first.Digest == second.Digest {
		t.Errorf("sources %q and %q, digests %q and %q", first.Source, second.Source, first.Digest, second.Digest)
	}
	prepared, _, err := OpenPrepared(mapping, path, filepath.Join(dir, "own.fedpace"), federated.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer prepared.Close()
	if found := prepared.Info().Source; found != first.Source {
		t.Errorf("a prepared file has the source %q, want %q", found, first.Source)
	}
	others := map[string]string{}
	scaled := mapping
	scaled.Scale = "standard"
	others["mapping"] = open(scaled, federated.Options{Seed: 1}).Source
	dealt := federated.Options{Seed: 1, Partition: federated.Partition{Kind: "iid", Clients: 3}}
	others["partition"] = open(mapping, dealt).Source
	datatest.Put(t, dir, "own.csv", []byte(rows+"a,7,0\n"))
	others["content"] = open(mapping, federated.Options{Seed: 1}).Source
	for what, source := range others {
		if source == first.Source {
			t.Errorf("another %s has the same source", what)
		}
	}
}
