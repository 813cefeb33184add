package fetch

import (
	"context"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/realdata"
)

// The list is in order, and every file in it can be checked.
func TestArchives(t *testing.T) {
	var before string
	for _, a := range Archives {
		if a.Name <= before {
			t.Errorf("%s after %s", a.Name, before)
		}
		before = a.Name
		if a.About == "" || len(a.URLs) == 0 || a.Size < 0 {
			t.Errorf("%+v", a)
		}
		h := a.Sum.hash()
		if b, err := hex.DecodeString(a.Sum.Hex); err != nil || len(b) != h.Size() || strings.ToLower(a.Sum.Hex) != a.Sum.Hex || a.Sum.Algorithm != "md5" && a.Sum.Algorithm != "sha256" {
			t.Errorf("%s: %s", a.Name, a.Sum)
		}
		for _, u := range a.URLs {
			parsed, err := url.Parse(u)
			if err != nil || parsed.Scheme != "https" || path.Base(parsed.Path) != a.File {
				t.Errorf("%s: %s is not %s over https, %v", a.Name, u, a.File, err)
			}
		}
		if found, err := Find(Archives, a.Name); err != nil || found.File != a.File {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
	_, err := Find(Archives, "cifar")
	want := `"cifar" is no archive, want one of cifar100, nist-by-class, nist-by-write, sent140, shakespeare`
	if err == nil || err.Error() != want {
		t.Errorf(" got %v\nwant %s", err, want)
	}
}

// The text that is here is the one that the list speaks of.
func TestArchives_Shakespeare(t *testing.T) {
	a, err := Find(Archives, "shakespeare")
	if err != nil {
		t.Fatal(err)
	}
	name := realdata.Path(t, "shakespeare/"+a.File)
	stat, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if stat.Size() != a.Size {
		t.Errorf("%d bytes, want %d", stat.Size(), a.Size)
	}
	if err := check(t.Context(), a.Sum, name, ""); err != nil {
		t.Error(err)
	}
}

func TestChecksums(t *testing.T) {
	name := filepath.Join(t.TempDir(), "abc")
	write(t, name, []byte("abc"))
	// FIPS 180-4's example; RFC 1321, section A.5.
	for _, sum := range []Checksum{
		{"sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"md5", "900150983cd24fb0d6963f7d28e17f72"},
		{"md5", "900150983CD24FB0D6963F7D28E17F72"},
	} {
		if err := check(t.Context(), sum, name, ""); err != nil {
			t.Error(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := check(ended, Checksum{"md5", "900150983cd24fb0d6963f7d28e17f72"}, name, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
