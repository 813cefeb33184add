package config

import (
	"fmt"
	"strings"
)

// KeyError says which key of a configuration is wrong, what it holds, and what
// would be right.
type KeyError struct {
	Where   string   // "config.yaml:7", "--set", or empty when the value comes from neither
	Key     string   // e.g. "schedule.k"
	Problem string   // a sentence that names the value
	Others  []string // keys that the problem also concerns
}

// Error is one line: where, key, problem.
func (e *KeyError) Error() string {
	switch e.Where {
	case "":
		return e.Key + ": " + e.Problem
	case setFlag:
		return e.Where + " " + e.Key + ": " + e.Problem
	}
	return e.Where + ": " + e.Key + ": " + e.Problem
}

// setFlag is the place of a value that comes from the command line.
const setFlag = "--set"

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
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// doList joins names with their verb, as "first and buffered do".
func doList(names []string) string {
	if len(names) == 1 {
		return names[0] + " does"
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last] + " do"
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
	var rows [3][65]int
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
