// Package externaltest is an external trainer in Go, which trains models of package
// learn: its steps have the bits of those that are taken without it. A test's binary
// becomes the trainer when it calls [Main] where [Started] says so. On request it makes
// the mistakes that a trainer can make.
package externaltest
