// Package archtest holds the architecture: its tests fail on an import that
// breaks the direction of docs/design.md and on a package without its
// description in doc.go.
//
// The rules are a table (rules.go); the checker (check.go) works on a plain
// list of packages, so that its own tests can give it violations. It uses only
// the standard library's parser and knows nothing of what the packages do.
package archtest
