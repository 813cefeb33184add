package config

import (
	"fmt"
	"strings"

	"fedpace/config/tree"
	"fedpace/internal/names"
	"fedpace/registry"
)

// KeyError says which key of a configuration is wrong, what it holds, and what
// would be right.
type KeyError = tree.KeyError

// notA says that a value is none of those known, and which it may have meant.
func notA(value, kind string, candidates []string) string {
	article := "a"
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		article = "an"
	}
	s := fmt.Sprintf("%q is not %s %s", value, article, kind)
	if kind == "output" && value == "mlflow" {
		return s + " (python/README.md shows how a finished run enters MLflow)"
	}
	if near := names.Nearest(value, candidates); near != "" {
		return s + fmt.Sprintf(" (did you mean %q?)", near)
	}
	return s + " (" + orList(candidates) + ")"
}

// notEntry says that a name is no entry of a plug point, and which it may have meant or what
// took the place of an entry that was removed.
func notEntry(name string, p *registry.Point) string {
	if instead, ok := p.Instead(name); ok {
		return fmt.Sprintf("%s %q was removed (%s)", p.Kind, name, instead)
	}
	return notA(name, p.Kind, p.Names())
}

// orList joins words as "a, b or c".
func orList(words []string) string { return listed(words, " or ") }

// doList joins names with their verb, as "first and buffered do".
func doList(names []string) string {
	if len(names) == 1 {
		return names[0] + " does"
	}
	return listed(names, " and ") + " do"
}

// listed joins words by commas, the last one by another text.
func listed(words []string, last string) string {
	n := max(0, len(words)-1)
	return strings.TrimPrefix(strings.Join(words[:n], ", ")+last+strings.Join(words[n:], ""), last)
}
