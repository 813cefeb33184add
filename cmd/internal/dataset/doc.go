// Package dataset has fedpace init and the commands of fedpace data, which look at federated data,
// prepare and partition it, propose how a table is read, and fetch public archives.
package dataset
