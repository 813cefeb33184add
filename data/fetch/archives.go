package fetch

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// Archive is a public file.
type Archive struct {
	// Name is what people call the archive, and the name that Find takes.
	Name string
	// About says in a few words what the archive holds and who made it.
	About string
	// File is the name of the file on disk, without a folder.
	File string
	// URLs are addresses of the same bytes, in the order in which they are tried.
	URLs []string
	// Size is the size in bytes; 0 where it is not published.
	Size int64
	// Sum is the checksum that the bytes must have.
	Sum Checksum
}

// Archives is what is publicly known, by name. A file enters it with a checksum that
// its publisher or several independent users state, or not at all.
var Archives = []Archive{
	{
		Name:  "cifar100",
		About: "CIFAR-100, binary version (A. Krizhevsky)",
		File:  "cifar-100-binary.tar.gz",
		URLs:  []string{"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"},
		Size:  168_513_733,
		Sum:   Checksum{"md5", "03b5dce01913d631647c71ecec9e9cb8"}, // as the publisher's page states it
	},
	{
		Name:  "nist-by-class",
		About: "NIST Special Database 19 by class: one of the two that LEAF makes FEMNIST from",
		File:  "by_class.zip",
		URLs:  []string{"https://s3.amazonaws.com/nist-srd/SD19/by_class.zip"},
		Sum:   Checksum{"md5", "79572b1694a8506f2b722c7be54130c4"},
	},
	{
		Name:  "nist-by-write",
		About: "NIST Special Database 19 by writer: the other one",
		File:  "by_write.zip",
		URLs:  []string{"https://s3.amazonaws.com/nist-srd/SD19/by_write.zip"},
		Sum:   Checksum{"md5", "a29f21babf83db0bb28a2f77b2b456cb"},
	},
	{
		Name:  "sent140",
		About: "Sentiment140, 1.6 million tweets (A. Go, R. Bhayani, L. Huang)",
		File:  "trainingandtestdata.zip",
		URLs:  []string{"https://cs.stanford.edu/people/alecmgo/trainingandtestdata.zip"},
		Size:  81_363_704,
		Sum:   Checksum{"sha256", "004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57"},
	},
	{
		Name:  "shakespeare",
		About: "the Complete Works of William Shakespeare (Project Gutenberg 100, January 1994)",
		File:  "1994-01-100.zip",
		URLs: []string{ // Project Gutenberg has moved it more than once
			"https://www.gutenberg.org/files/100/old/old/1994-01-100.zip",
			"https://www.gutenberg.org/files/100/old/1994-01-100.zip",
		},
		Size: 2_035_857,
		Sum:  Checksum{"sha256", "d3f05b8b7d57b5fea4e806d356c2c75e468f3d66e448eb2c4effd6c278f70d35"},
	},
}

// Find returns the archive of this name from a list. If there is none, the error lists the names.
func Find(list []Archive, name string) (Archive, error) {
	var names []string
	for _, a := range list {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Archive{}, fmt.Errorf("%.40q is no archive, want one of %s", name, strings.Join(names, ", "))
}

// Checksum is what a file's bytes must hash to. MD5, where a publisher states
// nothing better, finds every damage but no forgery.
type Checksum struct {
	// Algorithm is sha256 or md5.
	Algorithm string
	// Hex is the checksum in hexadecimal digits of either case.
	Hex string
}

// String returns the algorithm and the checksum in hexadecimal digits.
func (c Checksum) String() string { return c.Algorithm + " " + c.Hex }

// hash returns a new hash of the checksum's algorithm, to which no byte has been written.
func (c Checksum) hash() hash.Hash {
	if c.Algorithm == "md5" {
		return md5.New()
	}
	return sha256.New()
}

// check reads the file at path and compares it with the checksum that it should have. For another checksum
// the error is a reason with sum set, and its text ends with consequence, which says what happens to the
// file. A file that cannot be read is an error, too.
func check(ctx context.Context, want Checksum, path, consequence string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := want.hash()
	// Reading by the mebibyte lets a cancelled context end the check of a large file early.
	for err == nil {
		err = ctx.Err()
		if err == nil {
			_, err = io.CopyN(h, f, 1<<20)
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	got := Checksum{want.Algorithm, hex.EncodeToString(h.Sum(nil))}
	if !strings.EqualFold(got.Hex, want.Hex) {
		return reason{error: fmt.Errorf("%s has %s, want %s; %s", path, got, want.Hex, consequence), sum: true}
	}
	return nil
}
