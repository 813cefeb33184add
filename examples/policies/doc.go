// Package policies tests the policies in Python of this folder: each equals a component of
// fedpace in Go. docs/policies.md says how policies are written.
package policies
