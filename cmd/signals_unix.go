//go:build unix

package cmd

import (
	"os"
	"os/signal"
	"syscall"
)

// checkpointSignals passes on SIGUSR1 as the wish for a checkpoint, until stop
// is called.
func checkpointSignals() (wishes <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1) // a second wish before the first is seen is the same
	signal.Notify(signals, syscall.SIGUSR1)
	return signals, func() { signal.Stop(signals) }
}
