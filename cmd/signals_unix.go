//go:build unix

package cmd

import (
	"os"
	"os/signal"
	"syscall"
)

// checkpointSignals returns a channel that receives SIGUSR1, by which a user asks a run for a
// checkpoint. Call stop to end the subscription.
func checkpointSignals() (requests <-chan os.Signal, stop func()) {
	// The buffer of one keeps a request that comes early; a second one would ask for the same.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	return signals, func() { signal.Stop(signals) }
}
