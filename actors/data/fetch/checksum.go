package fetch

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// Checksum is what a file's bytes must hash to. MD5, where a publisher states
// nothing better, finds every damage but no forgery.
type Checksum struct {
	Algorithm string // sha256 or md5
	Hex       string
}

// SHA256 is a checksum given in hexadecimal.
func SHA256(hex string) Checksum { return Checksum{"sha256", hex} }

// MD5 is a checksum given in hexadecimal.
func MD5(hex string) Checksum { return Checksum{"md5", hex} }

func (c Checksum) String() string { return c.Algorithm + " " + c.Hex }

func (c Checksum) hash() (hash.Hash, error) {
	make, ok := map[string]func() hash.Hash{"sha256": sha256.New, "md5": md5.New}[c.Algorithm]
	if !ok {
		return nil, fmt.Errorf("checksum %q, want sha256 or md5", c.Algorithm)
	}
	h := make()
	if b, err := hex.DecodeString(c.Hex); err != nil || len(b) != h.Size() {
		return nil, fmt.Errorf("%s %q, want %d hexadecimal digits", c.Algorithm, c.Hex, 2*h.Size())
	}
	return h, nil
}

// wrongSumError is a file that is not what its publisher says.
type wrongSumError struct{ error }

// check compares a file with its checksum. Its error for a wrong one ends with
// what happens then.
func check(ctx context.Context, want Checksum, path, then string) error {
	h, err := want.hash()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(h, f, 1<<20)
		}
	}
	if err != io.EOF {
		return err
	}
	if got := (Checksum{want.Algorithm, hex.EncodeToString(h.Sum(nil))}); !strings.EqualFold(got.Hex, want.Hex) {
		return wrongSumError{fmt.Errorf("%s has %s, want %s; %s", path, got, want.Hex, then)}
	}
	return nil
}
