// Package check reads the files of deploy/ as those do that they are for: strictly,
// into the types that Kubernetes and Compose publish, and with the NATS server's
// own parser.
package check
