// Package mailbox hands what arrives on one goroutine to another, in batches.
// It knows nothing of messages or connections.
package mailbox
