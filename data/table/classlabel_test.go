package table_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/data"
	"fedpace/data/datatest"
	"fedpace/data/federated"
	. "fedpace/data/table"
)

// hubNote is what Hugging Face's datasets 5.2 notes in a Parquet file for two columns.
const hubNote = `{"info": {"features": {"label": {"names": ["cat", "dog", "eel"], "_type": "ClassLabel"}, ` +
	`"client": {"dtype": "string", "_type": "Value"}}}}`

// TestClassLabel_NamesOfMetadata has labels as numbers, of which the metadata knows the names, also
// that of a class that no row has.
func TestClassLabel_NamesOfMetadata(t *testing.T) {
	type row struct {
		Client string  `parquet:"client"`
		X      float32 `parquet:"x"`
		Label  int64   `parquet:"label"`
	}
	rows := func(labels ...int64) string {
		var list []row
		for i := range 20 {
			list = append(list, row{"a", float32(i), labels[i%len(labels)]})
		}
		return string(datatest.Parquet(t, list, parquet.KeyValueMetadata("huggingface", hubNote)))
	}
	mapping := Table{Client: "client", Features: []string{"x"}, Label: "label"}
	s := mustOpenMapped(t, rows(0, 2), "own.parquet", mapping)
	if info := s.Info(); info.Classes != 3 || !slices.Equal(info.Labels, []string{"cat", "dog", "eel"}) {
		t.Errorf("%d classes %q", info.Classes, info.Labels)
	}
	b := everything(t, s)
	for i, x := range b.X {
		if want := int32(x) % 2 * 2; b.Labels[i] != want {
			t.Errorf("row %v is of class %d, want %d", x, b.Labels[i], want)
		}
	}
	p, err := Propose(datatest.Put(t, t.TempDir(), "own.parquet", []byte(rows(0, 2))), "")
	if err != nil || p.Table.Label != "label" || p.Table.Classes != nil || !strings.Contains(p.YAML(""), "3 classes that the file's metadata names (cat, dog, eel)") {
		t.Errorf("%+v, %v", p, err)
	}
	// The mapping's names go before.
	named := mapping
	named.Classes = []string{"2", "0"}
	if s := mustOpenMapped(t, rows(0, 2), "own.parquet", named); !slices.Equal(s.Info().Labels, []string{"2", "0"}) {
		t.Errorf("%q", s.Info().Labels)
	}
	// -1 is a sample without a label, as in test sets whose labels are secret.
	if _, err := openMapped(t, rows(0, -1), "own.parquet", mapping); err == nil || !strings.Contains(err.Error(), "no value") {
		t.Error(err)
	}
	drop := mapping
	drop.Missing = "drop"
	if s := mustOpenMapped(t, rows(0, 1, -1, 2), "own.parquet", drop); s.Samples(0)+s.HeldOut() != 15 {
		t.Errorf("%d and %d samples, want 15 of 20", s.Samples(0), s.HeldOut())
	}
	p, err = Propose(datatest.Put(t, t.TempDir(), "own.parquet", []byte(rows(0, 1, -1, 2))), "")
	if err != nil || p.Table.Missing != "drop" || !strings.Contains(p.YAML(""), "column label lacks a value in 5 of 20 rows") {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := openMapped(t, rows(0, 3), "own.parquet", mapping); err == nil || !strings.Contains(err.Error(), "label 3 is outside the 3 classes that the file's metadata names") {
		t.Error(err)
	}
}

// TestClassLabel_TextBeyondNames has labels that are text: "7" is no class of three either.
func TestClassLabel_TextBeyondNames(t *testing.T) {
	type row struct {
		Client string  `parquet:"client"`
		X      float32 `parquet:"x"`
		Label  string  `parquet:"label"`
	}
	var list []row
	for i := range 20 {
		list = append(list, row{"a", float32(i), []string{"0", "7"}[i%2]})
	}
	file := string(datatest.Parquet(t, list, parquet.KeyValueMetadata("huggingface", hubNote)))
	mapping := Table{Client: "client", Features: []string{"x"}, Label: "label"}
	_, err := openMapped(t, file, "own.parquet", mapping)
	if err == nil || !strings.Contains(err.Error(), "labels from 0 to 7 are outside the 3 classes") {
		t.Error(err)
	}
}

// TestClassLabel_OtherMetadata has metadata that name no classes of the label: its numbers are the classes.
func TestClassLabel_OtherMetadata(t *testing.T) {
	type row struct {
		X     float32 `parquet:"x"`
		Label int64   `parquet:"label"`
	}
	for name, note := range map[string]string{
		"no JSON":        "x",
		"another column": strings.ReplaceAll(hubNote, `"label"`, `"other"`),
		"no ClassLabel":  strings.ReplaceAll(hubNote, "ClassLabel", "Value"),
		"one name twice": strings.ReplaceAll(hubNote, "dog", "cat"),
		"no names":       `{"info": {"features": {"label": {"names": [], "_type": "ClassLabel"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var list []row
			for i := range 20 {
				list = append(list, row{float32(i), int64(i % 2)})
			}
			file := string(datatest.Parquet(t, list, parquet.KeyValueMetadata("huggingface", note)))
			s := mustOpenMapped(t, file, "own.parquet", Table{Features: []string{"x"}, Label: "label"})
			if info := s.Info(); info.Classes != 2 || info.Labels != nil {
				t.Errorf("%d classes %q", info.Classes, info.Labels)
			}
		})
	}
}

// TestClassLabel_FilesDisagree has two files whose metadata name classes: the same ones, more in one of them, or
// others by the same numbers, of which the rows would be mixed up.
func TestClassLabel_FilesDisagree(t *testing.T) {
	type row struct {
		Client string  `parquet:"client"`
		X      float32 `parquet:"x"`
		Label  int64   `parquet:"label"`
	}
	file := func(names string) string {
		var list []row
		for i := range 20 {
			list = append(list, row{"a", float32(i), int64(i % 2)})
		}
		note := strings.ReplaceAll(hubNote, `"cat", "dog", "eel"`, names)
		return string(datatest.Parquet(t, list, parquet.KeyValueMetadata("huggingface", note)))
	}
	mapping := Table{Client: "client", Features: []string{"x"}, Label: "label"}
	named := mapping
	named.Classes = []string{"0", "1"}
	for second, want := range map[string]string{
		`"cat", "dog", "eel"`:          "",
		`"cat", "dog", "eel", "fox"`:   "",
		`"cat", "dog"`:                 "",
		`"dog", "cat", "eel"`:          `column label: class 0 is "cat" in a.parquet and "dog" in test_b.parquet`,
		`"cat", "dog", "frog", "newt"`: `column label: class 2 is "eel" in a.parquet and "frog" in test_b.parquet`,
	} {
		dir := folderOf(t, map[string]string{"a.parquet": file(`"cat", "dog", "eel"`), "test_b.parquet": file(second)})
		s, err := data.OpenWith(mapping, dir, federated.Options{})
		if want == "" {
			if err != nil || s.Info().Labels[2] != "eel" {
				t.Errorf("%s: %v", second, err)
			}
			continue
		}
		_, namedErr := data.OpenWith(named, dir, federated.Options{})
		_, proposeErr := Propose(dir, "")
		for _, err := range []error{err, namedErr, proposeErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", second, err, want)
			}
		}
	}
}

// TestImage_NamedByBytes reads an Image of Hugging Face, a group of bytes and a path, by either name.
func TestImage_NamedByBytes(t *testing.T) {
	type image struct {
		Bytes []byte `parquet:"bytes,optional"`
		Path  string `parquet:"path,optional"`
	}
	type row struct {
		Img   image `parquet:"img,optional"`
		Label int64 `parquet:"label"`
	}
	var list []row
	for i := range 10 {
		list = append(list, row{image{[]byte{byte(i), 255}, "x"}, int64(i % 2)})
	}
	file := string(datatest.Parquet(t, list))
	for _, name := range []string{"img", "img.bytes"} {
		s := mustOpenMapped(t, file, "own.parquet", Table{Features: []string{name}, Label: "label"})
		if b := everything(t, s); s.Info().Features != 2 || b.X[1] != 1 {
			t.Errorf("%s: %v", name, b.X)
		}
	}
}
