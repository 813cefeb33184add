// Command fedpace runs federated learning on a simulated clock. Package cmd is its
// command line; docs/extending.md shows a binary with plug-ins of one's own.
package main
