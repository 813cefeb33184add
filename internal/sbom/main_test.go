package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// What a program is made of is what go version -m says of it, each time in the same bytes.
func TestABinaryIsDescribed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "program")
	if err := os.Symlink(self, binary); err != nil {
		t.Skip(err)
	}
	var first []byte
	for range 2 {
		if err := describe(binary); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(binary + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, text) {
			t.Error("two lists of one binary differ")
		}
		first = text
	}
	var said struct {
		BOMFormat, SpecVersion string
		Components             []struct {
			Name, Version, PURL string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(first)).Decode(&said); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, c := range said.Components {
		has[c.Name] = c.Version
		if c.PURL != "pkg:golang/"+c.Name+"@"+c.Version || c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%+v", c)
		}
	}
	if said.BOMFormat != "CycloneDX" || len(has) != len(info.Deps)+1 || has["std"] == "" {
		t.Errorf("%s with %d components, want %d", said.BOMFormat, len(has), len(info.Deps)+1)
	}
	for _, d := range info.Deps {
		if has[d.Path] != d.Version {
			t.Errorf("%s is %q, want %s", d.Path, has[d.Path], d.Version)
		}
	}
	if err := describe("main.go"); err == nil {
		t.Error("a text is taken for a binary")
	}
}
