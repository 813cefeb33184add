//go:build !unix

package cmd

import "os"

// checkpointSignals has no signal to offer here.
func checkpointSignals() (wishes <-chan os.Signal, stop func()) { return nil, func() {} }
