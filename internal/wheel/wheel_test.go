package main

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPEP440(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.0":                  "1.2.0",
		"1.2":                     "1.2",
		"v1.2.0-dirty":            "1.2.0+dirty",
		"v1.2.0-7-g0a1b2c3":       "1.2.0.post7+g0a1b2c3",
		"v1.2.0-7-g0a1b2c3-dirty": "1.2.0.post7+g0a1b2c3.dirty",
		"5ad61a39":                "0.dev0+g5ad61a39",
		"5ad61a39-dirty":          "0.dev0+g5ad61a39.dirty",
		"development":             "0.dev0",
	} {
		if got := pep440(described); got != want {
			t.Errorf("%s: %s, want %s", described, got, want)
		}
	}
}

// A wheel holds the package, the program and what describes them, and is the same each time.
func TestBuild(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	dir := t.TempDir()
	binary := filepath.Join(dir, "fedpace-linux-arm64")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var made [2][]byte
	var path string
	for i := range made {
		b := builder{version: "1.0", python: "../../python", licence: "../../LICENSE", out: filepath.Join(dir, "dist")}
		var err error
		path, err = b.build(binary)
		if err != nil {
			t.Fatal(err)
		}
		made[i], err = os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "fedpace-1.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl"
	if filepath.Base(path) != want || !bytes.Equal(made[0], made[1]) {
		t.Errorf("%s, the same bytes: %v", path, bytes.Equal(made[0], made[1]))
	}
	z, err := zip.NewReader(bytes.NewReader(made[0]), int64(len(made[0])))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]os.FileMode{}
	for _, f := range z.File {
		names[f.Name] = f.Mode()
	}
	for name, mode := range map[string]os.FileMode{
		"fedpace/policy.py":                0o644,
		"fedpace/__main__.py":              0o644,
		"fedpace-1.0.data/scripts/fedpace": 0o755,
		"fedpace-1.0.dist-info/METADATA":   0o644,
		"fedpace-1.0.dist-info/RECORD":     0o644,
	} {
		if names[name] != mode {
			t.Errorf("%s has the mode %v, want %v", name, names[name], mode)
		}
	}
	if last := z.File[len(z.File)-1].Name; !strings.HasSuffix(last, "/RECORD") {
		t.Errorf("%s is the last entry", last)
	}
	b := builder{version: "1.0", python: "../../python", licence: "../../LICENSE", out: dir}
	if _, err := b.build(filepath.Join(dir, "fedpace-plan9-amd64")); err == nil {
		t.Error("a wheel of a platform without tags")
	}
}
