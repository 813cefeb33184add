package federated

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// The words by which a column or the name of a file says to which part rows belong.
var (
	TrainWords   = []string{"train", "training"}
	HeldOutWords = []string{"test", "testing", "val", "valid", "validation"}
)

// HeldOutFiles reports for each file of a folder whether its name holds out all of its samples. A
// name does so if it begins with test, with valid or with the word val. A name with a later word
// for a held-out part, as mnist_test.csv, does so if the name of another file has a word for
// training. A single file is never held out.
func HeldOutFiles(files []string) []bool {
	heldOut := make([]bool, len(files))
	if len(files) < 2 {
		return heldOut
	}
	hasWord := func(file string, words []string) bool {
		return slices.ContainsFunc(nameWords(file), func(word string) bool { return slices.Contains(words, word) })
	}
	hasTrain := slices.ContainsFunc(files, func(file string) bool { return hasWord(file, TrainWords) })
	for i, file := range files {
		words := nameWords(file)
		if len(words) == 0 {
			continue
		}
		// The first word of a name says more than the later ones.
		begins := words[0] == "val" || strings.HasPrefix(words[0], "test") || strings.HasPrefix(words[0], "valid")
		isTrain := hasWord(file, TrainWords)
		heldOut[i] = begins || hasTrain && !isTrain && hasWord(file, HeldOutWords)
	}
	return heldOut
}

// UnusedParts lists the names of files that have a word for a part that is held out, but are read with
// the training files: names that look like a split and are not used as one. heldOut says of each file
// whether its samples are held out.
func UnusedParts(files []string, heldOut []bool) (unused []string) {
	for i, file := range files {
		isNamed := slices.ContainsFunc(nameWords(file), func(word string) bool { return slices.Contains(HeldOutWords, word) })
		if isNamed && !heldOut[i] {
			unused = append(unused, filepath.Base(file))
		}
	}
	return unused
}

// nameWords returns the runs of letters in a file's name, in lower case.
func nameWords(file string) []string {
	name := strings.ToLower(filepath.Base(file))
	return strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) })
}
