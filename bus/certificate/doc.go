// Package certificate makes what the servers of one deployment prove themselves by: a
// certificate authority of their own, which devices and hosts are given, and
// certificates that it signs.
//
// They live in a folder beside the keys of package auth. Whoever can read the
// authority's key there can pass for a server.
package certificate
