// Command wheel makes Python wheels of the program: each holds the binary of one platform as the
// script fedpace, and the package fedpace of the folder python. It needs no Python.
//
//	go run ./internal/wheel -version 1.0.0 -out dist dist/fedpace-linux-amd64 ...
//
// A binary's name ends with its platform. The version is that of git describe. One commit makes one
// set of bits: the times in the archive are SOURCE_DATE_EPOCH's.
package main
