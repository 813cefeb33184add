package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// stopSignals end a run cleanly. SIGHUP, which a terminal sends when it goes, is
// left alone where somebody (nohup) has it ignored.
func stopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}
