package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite_WholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	for _, text := range []string{"first", "2nd"} {
		if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("the file holds %q (%v), want %q", got, err, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v (%v), want 0644", info.Mode(), err)
	}
	full := errors.New("disk full")
	err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, "half"); return errors.Join(err, full) })
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "2nd" {
		t.Errorf("after an error the file holds %q (%v), want %q", got, err, "2nd")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%d files (%v), want 1: nothing temporary stays", len(entries), err)
	}
	if err := Write(filepath.Join(dir, "none", "a"), func(io.Writer) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v for a folder that does not exist, want %v", err, os.ErrNotExist)
	}
}

// An error names the file that was asked for, not the temporary one.
func TestWrite_ErrorsNameFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	closed := func(w io.Writer) error {
		_ = w.(unnamed).f.Close()
		_, err := io.WriteString(w, "a")
		return err
	}
	for _, err := range []error{
		Write(path, closed), Write(filepath.Join(path, "b"), closed),
		Write(filepath.Dir(path), func(io.Writer) error { return nil }), // a folder, which no file replaces
	} {
		if err == nil || strings.Count(err.Error(), "/"+filepath.Base(filepath.Dir(path))) != 1 {
			t.Errorf("%v", err)
		}
	}
}

func TestLeftovers_KnownByName(t *testing.T) {
	for name, want := range map[string]string{
		".a.txt.123": "a.txt", ".a.txt.12x": "", "a.txt.123": "", ".a.": "", "..1": "", ".123": "", "": "",
	} {
		if got, ok := Leftover(name); got != want || ok != (want != "") {
			t.Errorf("Leftover(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
}
