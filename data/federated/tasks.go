package federated

import (
	"fmt"

	"fedpace/learn"
)

// What the readers of a task's real set say of it.
var (
	FEMNISTInfo = Info{Samples: learn.Samples{
		Input:    learn.Dense,
		Features: FEMNISTPixels,
		Classes:  FEMNISTClasses,
		Image:    [3]int{1, 28, 28},
	}}
	CIFARInfo = Info{Samples: learn.Samples{
		Input:    learn.Dense,
		Features: CIFARPixels,
		Classes:  CIFARClasses,
		Image:    [3]int{3, 32, 32},
	}}
	Sent140Info     = Info{Samples: learn.Samples{Input: learn.Sparse, Features: Sent140Words, Classes: 2}}
	ShakespeareInfo = Info{Samples: learn.Samples{
		Input:      learn.Tokens,
		Features:   ShakespeareWindow,
		Classes:    len(ShakespeareCharacters),
		Vocabulary: len(ShakespeareCharacters),
	}}
)

// FEMNIST's images are bytes.
const (
	FEMNISTSide    = 28
	FEMNISTPixels  = FEMNISTSide * FEMNISTSide
	FEMNISTClasses = 62
)

// Sent140Words is the number of different words in the vocabulary of Sentiment140.
const Sent140Words = 5000

// CIFAR-100's binary layout: coarse label, fine label, then 32x32 bytes of
// each colour.
const (
	CIFARSide    = 32
	CIFARPlane   = CIFARSide * CIFARSide
	CIFARPixels  = 3 * CIFARPlane
	CIFARRecord  = 2 + CIFARPixels
	CIFARClasses = 100
	CIFARCoarse  = 20
	// MaxCIFAR bounds the images of one file; the real file has 50,000.
	MaxCIFAR = 1 << 20
)

// Shakespeare's windows and vocabulary, in index order (paper/NOTES, "Data").
const (
	ShakespeareWindow     = 80
	ShakespeareCharacters = " !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
)

// ShakespeareIndex gives a character's place in the vocabulary, 0xff where it has none.
var ShakespeareIndex = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(ShakespeareCharacters) {
		t[ShakespeareCharacters[i]] = uint8(i)
	}
	return t
}()

// AppendCharacters appends the n characters of a text to dst as their places in Shakespeare's
// vocabulary. It returns an error if the text has another length or a character outside the
// vocabulary.
func AppendCharacters(dst []uint8, text string, n int) ([]uint8, error) {
	if len(text) != n {
		return nil, fmt.Errorf("a string of %d characters, want %d", len(text), n)
	}
	for position, c := range []byte(text) {
		i := ShakespeareIndex[c]
		if i == 0xff {
			return nil, fmt.Errorf(
				"character %q at place %d is not in the vocabulary of %d",
				c,
				position,
				len(ShakespeareCharacters),
			)
		}
		dst = append(dst, i)
	}
	return dst, nil
}
