// Package archtest holds the architecture: its tests fail on an import that
// docs/design.md does not allow, on a package without its description in doc.go,
// and on a program that links what it must not.
//
// Who may import whom is a table (table_test.go), as in Go's own
// go/build/deps_test.go. The checker (check_test.go) works on a plain list of
// packages, so that its own tests can give it violations. The package has no code
// but its tests and knows nothing of what the packages do.
package archtest
