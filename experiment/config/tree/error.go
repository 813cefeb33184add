package tree

import "fmt"

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
	case SetFlag:
		return e.Where + " " + e.Key + ": " + e.Problem
	}
	return e.Where + ": " + e.Key + ": " + e.Problem
}

// SetFlag is the place of a value that comes from the command line.
const SetFlag = "--set"

// Fail is an error about the value at a path.
func Fail(n *Node, path, format string, args ...any) error {
	return &KeyError{Where: n.Where, Key: path, Problem: fmt.Sprintf(format, args...)}
}
