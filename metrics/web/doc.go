// Package web serves the pages of a run over HTTP: its live page, its metrics.
//
// The server ([Serve]) answers GET and HEAD alone, under hosts that are its own,
// with limits on everything that a client may take. Nothing can be written to
// it, whatever pages it serves.
//
// The package knows no page and nothing of runs.
package web
