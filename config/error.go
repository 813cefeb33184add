package config

import (
	"fmt"
	"strings"

	"fedpace/config/tree"
	"fedpace/internal/names"
	"fedpace/registry"
)

// KeyError is an error about one key of a configuration. It says where the key stands, what it
// holds and what would be right.
type KeyError = tree.KeyError

// notA returns the problem of a value that is none of the candidates for this kind of word, such as
// "schedule". It proposes the candidate whose spelling is near, or lists all of them where none is.
func notA(value, kind string, candidates []string) string {
	article := "a"
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		article = "an"
	}
	s := fmt.Sprintf("%q is not %s %s", value, article, kind)
	// MLflow is asked for often and is no output: runs are imported there once they are finished.
	if kind == "output" && value == "mlflow" {
		return s + " (fedpace.to_mlflow of the Python package brings in a finished run: python/README.md)"
	}
	if near := names.Nearest(value, candidates); near != "" {
		return s + fmt.Sprintf(" (did you mean %q?)", near)
	}
	return s + " (" + orList(candidates) + ")"
}

// notEntry returns the problem of a name that is no entry of a plug point. It says what replaced an
// entry that was removed, or proposes a name as notA does.
func notEntry(name string, p *registry.Point) string {
	if instead, ok := p.Instead(name); ok {
		return fmt.Sprintf("%s %q was removed (%s)", p.Kind, name, instead)
	}
	return notA(name, p.Kind, p.Names())
}

// orList joins alternatives for a message, as in "a, b or c".
func orList(words []string) string { return listed(words, " or ") }

// doList joins names with their verb for a message, as in "first does" and "first and buffered do".
func doList(names []string) string {
	if len(names) == 1 {
		return names[0] + " does"
	}
	return listed(names, " and ") + " do"
}

// listed joins words by commas, and the last two by the text in lastSeparator, such as " or ". One word is
// returned as it is, and the text is empty without words.
func listed(words []string, lastSeparator string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + lastSeparator + words[last]
}
