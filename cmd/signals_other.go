//go:build !unix

package cmd

import "os"

// checkpointSignals returns a nil channel, which never receives: this system has no SIGUSR1.
func checkpointSignals() (requests <-chan os.Signal, stop func()) { return nil, func() {} }
