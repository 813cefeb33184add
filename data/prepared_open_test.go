package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/data/datatest"
	"fedpace/data/federated"
	"fedpace/data/table"
	"fedpace/internal/testkit/slow"
)

// A prepared file can be opened without its source and is the same set.
func TestPrepared_Opens(t *testing.T) {
	slow.NotUnderRace(t)
	for name, path := range sources(t) {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "set")
			made, _, err := OpenPrepared(nil, path, file, federated.Options{Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			again := mustOpen(t, file, federated.Options{Seed: 4}) // the seed of its split is the file's
			datatest.SameSets(t, made, again)
			a, err := federated.Describe(t.Context(), mustOpen(t, path, federated.Options{Seed: 3}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := federated.Describe(t.Context(), again)
			if err != nil {
				t.Fatal(err)
			}
			if b.Memory < a.Memory/2 || b.Memory == 0 {
				t.Errorf("%d bytes prepared, %d as read", b.Memory, a.Memory)
			}
			if !IsPrepared(file) || IsPrepared(path) || IsPrepared(filepath.Join(file, "none")) {
				t.Error("prepared files are not told from others")
			}
		})
	}
}

// Sentences with a label are prepared, too, also when they are dealt to clients that are made.
func TestPrepared_Sentences(t *testing.T) {
	r, dir := table.Table{Text: "said", Window: 8, Label: "mood"}, t.TempDir()
	path := datatest.Put(t, dir, "own.csv", []byte("said,mood\n"+strings.Repeat("schöne Grüße,gut\nnie wieder,schlecht\n", 20)))
	opt := federated.Options{Partition: federated.Partition{Kind: "iid", Clients: 4}, Seed: 3}
	made, _, err := OpenPrepared(r, path, filepath.Join(dir, "set"), opt)
	if err != nil {
		t.Fatal(err)
	}
	datatest.SameSets(t, made, mustOpen(t, filepath.Join(dir, "set"), federated.Options{}))
	if _, err := OpenWith(r, filepath.Join(dir, "set"), federated.Options{}); err == nil || !strings.Contains(err.Error(), "is a prepared file, which is read without a mapping") {
		t.Error(err)
	}
}

// Numbers of a prepared file lie in the file, which cannot be written to: another scale leaves them as they are.
func TestPrepared_AdoptsScale(t *testing.T) {
	mapping := table.Table{Features: []string{"a", "b"}, Label: "y", Scale: "standard"}
	dir := t.TempDir()
	path := datatest.Put(t, dir, "own.csv", []byte("a,b,y\n"+strings.Repeat("1,10,no\n3,30,yes\n2,60,no\n", 10)))
	cache := filepath.Join(dir, "set")
	if _, _, err := OpenPrepared(mapping, path, cache, federated.Options{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	prepared := mustOpen(t, cache, federated.Options{})
	inMemory := mustOpenWith(t, mapping, path)
	scale := prepared.Info().Schema
	scale.Mean = []float64{0, 1}
	scale.Deviation = []float64{2, 4}
	for _, set := range []federated.Set{prepared, inMemory} {
		if err := set.(interface{ Adopt(federated.Schema) error }).Adopt(scale); err != nil {
			t.Fatal(err)
		}
	}
	if !datatest.Same(datatest.All(t, prepared, 0), datatest.All(t, inMemory, 0)) {
		t.Error("a prepared file has other samples in the other scale")
	}
	datatest.SameSets(t, mustOpen(t, cache, federated.Options{}), mustOpenWith(t, mapping, path))
}

// mustOpenWith opens the table at path by its mapping.
func mustOpenWith(t *testing.T, mapping table.Table, path string) federated.Set {
	t.Helper()
	set, err := OpenWith(mapping, path, federated.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// What a prepared file cannot give is refused in words.
func TestPrepared_Refuses(t *testing.T) {
	dir := t.TempDir()
	path := datatest.Put(t, dir, "f.parquet", datatest.Parquet(t, datatest.RawImages([]string{"b", "a"}, 9)))
	file := filepath.Join(dir, "set")
	s, _, err := OpenPrepared(nil, path, file, federated.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	good[len(good)/2] ^= 1
	damaged := datatest.Put(t, dir, "damaged", good)
	for _, c := range []struct {
		path string
		opt  federated.Options
		want string
	}{
		{file, federated.Options{Task: "sent140"}, "found femnist"},
		{file, federated.Options{Partition: federated.Partition{Kind: "iid", Clients: 2}}, "a prepared file holds its clients"},
		{damaged, federated.Options{}, "prepare it again"},
		{datatest.Put(t, dir, "short", good[:40]), federated.Options{}, "prepare it again"},
	} {
		if s, err := Open(c.path, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %v; want %s", s, err, c.want)
		}
	}
}
