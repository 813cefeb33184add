package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervised tells the service manager, where one started this process, that
// it is ready, and then at half of the time that its watchdog waits that it
// still runs. The function that it returns says that the process stops, and
// ends the telling. Without a service manager nothing is said to anybody.
func supervised(ctx context.Context) (stopping func(), err error) {
	told, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	if err != nil {
		return nil, fmt.Errorf("the service manager cannot be told (NOTIFY_SOCKET): %w", err)
	}
	wait, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("the service manager's watchdog (WATCHDOG_USEC): %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	if told && wait > 0 {
		telling.Go(func() {
			tick := time.NewTicker(wait / 2)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) // missing one is what the watchdog looks for
				}
			}
		})
	}
	return func() {
		cancel()
		telling.Wait()
		_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) // the process ends anyway
	}, nil
}
