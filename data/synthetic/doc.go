// Package synthetic makes federated datasets, client by client as they are
// needed: like those of the paper's tasks, and convex problems whose answers are
// known.
//
// A sample is a pure function of (seed, client, sample). A made set says that it
// is synthetic wherever it appears.
package synthetic
