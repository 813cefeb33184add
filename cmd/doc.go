// Package cmd is the command line of fedpace: [Main] is the whole program. A
// binary of one's own imports this package and its plug-ins and calls Main.
//
// The command line parses, calls package experiment and prints: results go to
// standard output, progress and errors to standard error. It decides nothing about
// a run that a user of the library would miss.
//
// It exits with 0 on success, 1 on failure, 2 on wrong usage, 3 and 4 where a run missed what was
// expected or its target, and 130 when it was interrupted and has stopped cleanly.
package cmd
