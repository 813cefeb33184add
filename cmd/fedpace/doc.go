// Command fedpace runs federated learning on a simulated clock.
//
// The command line parses, calls package experiment and prints: what a person
// should know goes to standard output, progress and errors to standard error.
// It decides nothing about a run that a user of the library would miss.
//
// It exits with 0 on success, 1 on failure, 2 on wrong usage, and 130 when a
// run was interrupted, which then has stopped cleanly and kept what is done.
package main
