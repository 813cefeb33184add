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
	var h hash.Hash
	switch c.Algorithm {
	case "sha256":
		h = sha256.New()
	case "md5":
		h = md5.New()
	default:
		return nil, fmt.Errorf("checksum %q, want sha256 or md5", c.Algorithm)
	}
	if b, err := hex.DecodeString(c.Hex); err != nil || len(b) != h.Size() {
		return nil, fmt.Errorf("%s %q, want %d hexadecimal digits", c.Algorithm, c.Hex, 2*h.Size())
	}
	return h, nil
}

// of is the same checksum of what is in a file.
func (c Checksum) of(ctx context.Context, name string) (Checksum, error) {
	h, err := c.hash()
	if err != nil {
		return c, err
	}
	f, err := os.Open(name)
	if err != nil {
		return c, err
	}
	defer f.Close()
	buffer := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		n, err := f.Read(buffer)
		h.Write(buffer[:n])
		if err == io.EOF {
			return Checksum{c.Algorithm, hex.EncodeToString(h.Sum(nil))}, nil
		}
		if err != nil {
			return c, err
		}
	}
}
