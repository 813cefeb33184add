package config

import (
	"fmt"
	"strings"

	"fedpace/experiment/config/tree"
)

// KeyError says which key of a configuration is wrong, what it holds, and what
// would be right.
type KeyError = tree.KeyError

// notA says that a value is none of those known, and which it may have meant.
func notA(value, what string, known []string) string {
	article := "a"
	if strings.ContainsRune("aeiou", rune(what[0])) {
		article = "an"
	}
	s := fmt.Sprintf("%q is not %s %s", value, article, what)
	if near := nearest(value, known); near != "" {
		return s + fmt.Sprintf(" (did you mean %q?)", near)
	}
	return s + " (" + orList(known) + ")"
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

// nearest returns the known word that a mistyped one most likely meant, or ""
// when none is near. Ties go to the first.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, k := range known {
		d := editDistance(word, strings.ToLower(k))
		if d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance is the number of letters to insert, delete, replace or swap
// with their neighbour (optimal string alignment).
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // no key is as long, so nothing is near
	}
	var d [65][65]int // of the first letters of each
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			if i == 0 || j == 0 {
				d[i][j] = i + j
				continue
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+1)
			if a[i-1] == b[j-1] {
				d[i][j] = d[i-1][j-1]
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
