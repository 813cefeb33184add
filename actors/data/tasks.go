package data

import "fedpace/actors/learn"

// What the readers of a task's real set say of it.
var (
	imageInfo  = Info{Input: learn.Dense, Features: pixels, Classes: classes}
	sparseInfo = Info{Input: learn.Sparse, Features: vocabulary, Classes: 2}
	windowInfo = Info{Input: learn.Tokens, Features: window, Classes: len(characters)}
)

// Shakespeare's windows and vocabulary, in index order (paper/NOTES, "Data").
const (
	window     = 80
	characters = " !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
)

// indexOf gives a character's place in the vocabulary, 0xff where it has none.
var indexOf = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(characters) {
		t[characters[i]] = uint8(i)
	}
	return t
}()
