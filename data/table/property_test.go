package table_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
	"fedpace/internal/testkit/slow"
)

// drawnTable is a table as it lies in a folder, with what it means.
type drawnTable struct {
	// files has the content of each file by its path in the folder.
	files   map[string]string
	mapping Table
	options federated.Options
	// heldOut says of each row, by its feature, whether the table itself marks it as held out.
	heldOut map[float32]bool
	// marks says that the table marks rows at all.
	marks bool
}

// drawTable draws a table with the rows of some clients: how the client and the part of a row are told,
// which rows there are, how they are dealt to clients, and by which seed.
func drawTable(t *rapid.T) *drawnTable {
	d := &drawnTable{files: map[string]string{}, heldOut: map[float32]bool{}}
	d.mapping = Table{Features: []string{"x"}, Label: "y"}
	clientBy := rapid.SampledFrom([]string{"column", "folder", "file"}).Draw(t, "client by")
	partBy := rapid.SampledFrom([]string{"nothing", "column", "folder", "name"}).Draw(t, "part by")
	d.marks = partBy != "nothing"
	d.mapping.Client = map[string]string{"column": "client", "folder": "client", "file": "file"}[clientBy]
	if partBy == "column" {
		d.mapping.Split = "part"
	}
	words := rapid.SampledFrom([][2]string{{"train", "test"}, {"training", "validation"}, {"train", "val"}}).Draw(t, "words")
	id := 0
	for client := range rapid.IntRange(2, 3).Draw(t, "clients") {
		for part, word := range words {
			if partBy == "nothing" && part == 1 {
				continue
			}
			path := "rows_" + fmt.Sprint(client)
			if clientBy == "file" {
				path = rapid.SampledFrom([]string{"client_", "user_"}).Draw(t, "stem") + fmt.Sprint(client)
			}
			switch partBy {
			case "name":
				path += "_" + word
			case "column":
				path += "_" + string(rune('a'+part))
			}
			path += ".csv"
			if clientBy == "folder" {
				path = filepath.Join("client="+rapid.SampledFrom([]string{"a", "0"}).Draw(t, "folder")+fmt.Sprint(client), path)
			}
			if partBy == "folder" {
				path = filepath.Join(word, path)
			}
			text := "client_column,x,y,part\n"
			if clientBy == "column" {
				text = strings.Replace(text, "client_column", "client", 1)
			}
			for range rapid.IntRange(2, 4).Draw(t, "rows") {
				d.heldOut[float32(id)] = part == 1 && d.marks
				text += fmt.Sprintf("c%d,%d,%d,%s\n", client, id, rapid.IntRange(0, 2).Draw(t, "y"), word)
				id++
			}
			d.files[path] += text
		}
	}
	d.options.Seed = rapid.Uint64Range(1, 2).Draw(t, "seed")
	if kind := rapid.SampledFrom([]string{"", "iid", "dirichlet", "shards", "quantity"}).Draw(t, "partition"); kind != "" {
		d.options.Partition = federated.Partition{Kind: kind, Clients: rapid.IntRange(1, 2).Draw(t, "parts")}
	}
	return d
}

// open lays the table into a folder and opens it.
func (d *drawnTable) open(t *rapid.T, dir string) (federated.Set, error) {
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, content := range d.files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return data.OpenWith(d.mapping, dir, d.options)
}

// content is all that a set has, but for its digest and remarks, as text.
func content(t *testing.T, s federated.Set) string {
	t.Helper()
	text := fmt.Sprint(s.Clients(), s.Info().Labels, s.Info().Classes, "\n")
	for c := range s.Clients() {
		b := datatest.All(t, s, c)
		text += fmt.Sprint(s.Client(c), b.X, b.Labels, "\n")
	}
	b := datatest.HeldOut(t, s, 0, s.HeldOut())
	return text + fmt.Sprint(b.X, b.Labels)
}

// TestProperty_OneDigestIsOneSet draws two tables, the second often the first with something changed: a
// value, the name of a file or folder, the part that rows belong to, a partition or a seed. Two sets that
// differ in anything have two digests, and one table has one.
func TestProperty_OneDigestIsOneSet(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	byDigest := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		d := drawTable(rt)
		s, err := d.open(rt, filepath.Join(dir, "a"))
		if err != nil {
			rt.Skip(err) // such as a partition of fewer samples than clients
		}
		again, err := d.open(rt, filepath.Join(dir, "b"))
		if err != nil || again.Info().Digest != s.Info().Digest {
			rt.Fatalf("the same table elsewhere: %v", err)
		}
		remember := func(s federated.Set) {
			digest := s.Info().Digest
			text := content(t, s)
			if before, known := byDigest[digest]; known && before != text {
				rt.Fatalf("one digest of\n%s\nand\n%s", before, text)
			}
			byDigest[digest] = text
		}
		remember(s)
		remember(again)
		change := rapid.SampledFrom([]string{"value", "name", "seed", "clients", "label"}).Draw(rt, "change")
		path := rapid.SampledFrom(slices.Sorted(maps.Keys(d.files))).Draw(rt, "file")
		switch change {
		case "value":
			d.files[path] += "c0,777,1," + "train\n"
		case "label":
			d.files[path] = strings.Replace(d.files[path], ",1,", ",2,", 1)
		case "name":
			text := d.files[path]
			delete(d.files, path)
			d.files[strings.NewReplacer("client_", "client_9", "=a", "=b", "=0", "=00", "train", "training").Replace(path)] = text
		case "seed":
			d.options.Seed = 3 - d.options.Seed
		case "clients":
			d.options.Partition.Clients = 3 - d.options.Partition.Clients
		}
		if other, err := d.open(rt, filepath.Join(dir, "a")); err == nil {
			remember(other)
		}
	})
}

// TestProperty_NoHeldOutSampleTrains draws tables, each row with a feature of its own: what trains is not
// held out, and what the table marks as held out trains in no layout, however it is dealt.
func TestProperty_NoHeldOutSampleTrains(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		d := drawTable(rt)
		s, err := d.open(rt, filepath.Join(dir, "a"))
		if err != nil {
			rt.Skip(err)
		}
		trains := map[float32]bool{}
		for c := range s.Clients() {
			for _, x := range datatest.All(t, s, c).X {
				if trains[x] {
					rt.Fatalf("row %v is dealt twice", x)
				}
				trains[x] = true
				if d.heldOut[x] {
					rt.Fatalf("row %v is marked as held out and trains: %v", x, d.files)
				}
			}
		}
		for _, x := range datatest.HeldOut(t, s, 0, s.HeldOut()).X {
			if trains[x] {
				rt.Fatalf("row %v trains and is held out", x)
			}
			if d.marks && !d.heldOut[x] {
				rt.Fatalf("row %v is marked for training and is held out", x)
			}
		}
	})
}
