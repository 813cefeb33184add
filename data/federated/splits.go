package federated

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The words by which a column or the name of a file says to which part rows belong.
var (
	TrainWords   = []string{"train", "training"}
	HeldOutWords = []string{
		"test", "testing", "eval", "evaluation", "holdout", "heldout", "val", "valid", "validation", "dev",
	}
)

// unlabelledWords name a part of a set whose samples have no label, as the Hub's IMDB has one.
var unlabelledWords = []string{"unsupervised", "unlabeled", "unlabelled"}

// filesWithoutPart lists the base names of those files whose name says that their samples have no label, such as
// unsupervised.parquet: they can neither be trained on nor be held out. It returns nil unless the name of another
// file says that it is for training, since such words may mean something else where no name speaks of parts.
func filesWithoutPart(files []string) (without []string) {
	hasTrain := false
	for _, file := range files {
		for _, word := range nameWords(file) {
			hasTrain = hasTrain || slices.Contains(TrainWords, word)
			if slices.Contains(unlabelledWords, word) {
				without = append(without, filepath.Base(file))
			}
		}
	}
	if !hasTrain {
		return nil
	}
	return without
}

// PartOf reports whether a word, in whatever case, names the rows to train on or those that are held out.
// Both are false for any other word.
func PartOf(word string) (trains, heldOut bool) {
	word = strings.ToLower(word)
	for _, separator := range []string{"_", "-", " "} {
		word = strings.Replace(word, "held"+separator+"out", "heldout", 1)
		word = strings.Replace(word, "hold"+separator+"out", "holdout", 1)
	}
	return slices.Contains(TrainWords, word), slices.Contains(HeldOutWords, word)
}

// IsValidation reports whether a word for a part that is held out means validation, as distinct from a test.
func IsValidation(word string) bool {
	word = strings.ToLower(word)
	return strings.HasPrefix(word, "val") || word == "dev"
}

// heldOutFirstWord matches a word that, as the first of a file's name, says that all of the file is held out,
// whatever other files are called: test and valid with their endings, and val.
var heldOutFirstWord = regexp.MustCompile(`^(?:val|(?:test|valid|validation)(?:s|ing|set|data|file)?)$`)

// heldOutAnyWord matches a word that, anywhere in a file's name, says that the file is held out if another file's
// name says that it trains: a word of heldOutFirstWord, or test with a letter, as in CoNLL's eng.testa.
var heldOutAnyWord = regexp.MustCompile(`^(?:val|(?:test|valid|validation)(?:s|ing|set|data|file|[a-z])?)$`)

// HeldOutFiles reports for each file of a folder whether, by its name, all of its samples are held out. They
// are if the first word of the name is test, valid, val or the like. If the name of another file has a word
// for training (train.csv), a later word for a held-out part counts as well, as in mnist_test.csv, and so do
// dev, eval and a first word that only begins with test or valid. Where names differ in nothing else, as
// mnisttrain.csv and mnisttest.csv do, the words need not stand alone. A single file is never held out.
func HeldOutFiles(files []string) []bool {
	heldOut := make([]bool, len(files))
	if len(files) < 2 {
		return heldOut
	}
	hasWord := func(file string, words []string) bool {
		return slices.ContainsFunc(nameWords(file), func(word string) bool { return slices.Contains(words, word) })
	}
	hasTrain := slices.ContainsFunc(files, func(file string) bool { return hasWord(file, TrainWords) })
	lower := make(map[string]bool, len(files))
	for _, file := range files {
		lower[strings.ToLower(filepath.Base(file))] = true
	}
	for i, file := range files {
		if hasTrainingTwin(file, lower) {
			heldOut[i] = true
			continue
		}
		words := nameWords(file)
		if len(words) == 0 {
			continue
		}
		heldOut[i] = heldOutFirstWord.MatchString(words[0])
		// Beside a file that is called so for training, more names count.
		if hasTrain && !hasWord(file, TrainWords) {
			beginsSo := strings.HasPrefix(words[0], "test") || strings.HasPrefix(words[0], "valid")
			hasHeldOutWord := hasWord(file, HeldOutWords) || slices.ContainsFunc(words, heldOutAnyWord.MatchString)
			heldOut[i] = heldOut[i] || beginsSo || hasHeldOutWord
		}
	}
	return heldOut
}

// hasTrainingTwin reports whether a file's name is that of another file, with a word to hold out in place of
// the one for training. names has those of all files in lower case.
func hasTrainingTwin(file string, names map[string]bool) bool {
	name := strings.ToLower(filepath.Base(file))
	for _, heldOut := range HeldOutWords {
		before, behind, found := strings.Cut(name, heldOut)
		if found && slices.ContainsFunc(TrainWords, func(train string) bool { return names[before+train+behind] }) {
			return true
		}
	}
	return false
}

// UnusedParts lists the names of files that have a word for a part that is held out, but are read with
// the training files: names that look like a split and are not used as one. heldOut says of each file
// whether its samples are held out.
func UnusedParts(files []string, heldOut []bool) (unused []string) {
	for i, file := range files {
		isNamed := slices.ContainsFunc(nameWords(file), func(word string) bool {
			return slices.Contains(HeldOutWords, word)
		})
		if isNamed && !heldOut[i] {
			unused = append(unused, filepath.Base(file))
		}
	}
	return unused
}

// UnnamedParts lists the names of files that train though their names do not say so, beside files whose
// names say that they train or are held out. heldOut says of each file whether its samples are held out.
func UnnamedParts(files []string, heldOut []bool) (unnamed []string) {
	hasTrain := false
	for i, file := range files {
		isTrain := slices.ContainsFunc(nameWords(file), func(word string) bool {
			return slices.Contains(TrainWords, word) || strings.HasPrefix(word, "train")
		})
		hasTrain = hasTrain || isTrain
		if !isTrain && !heldOut[i] {
			unnamed = append(unnamed, filepath.Base(file))
		}
	}
	if !hasTrain || !slices.Contains(heldOut, true) {
		return nil
	}
	return unnamed
}

// nameWords returns the runs of letters in a file's name, in lower case. "Held out" and "hold out" are one word.
func nameWords(file string) (words []string) {
	name := strings.ToLower(filepath.Base(file))
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
		last := len(words) - 1
		if word == "out" && last >= 0 && (words[last] == "held" || words[last] == "hold") {
			words[last] += word
			continue
		}
		words = append(words, word)
	}
	return words
}
