// Package source is what the readers of federated datasets share: what lies at a
// path, opened, listed and hashed, and images of PNG as bytes.
package source
