package gateway

import (
	"context"
	"fmt"
	"slices"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/internal/names"
)

// maxCallers bounds how many runs that call are told apart.
const maxCallers = 64

// Calls listens until ctx ends for runs that call a device which is not there, and
// tells each one's name and its coordinator's version once. It answers none. The error
// says that the device may not listen, or that the line was lost.
func Calls(ctx context.Context, line bus.Line, id string, called func(run, version string)) error {
	if err := names.CheckDevice(id); err != nil {
		return err
	}
	var runs []string
	sub, err := line.Subscribe(subject.Device("*", id, subject.Task), nil, func(m *bus.RawMessage) {
		run, ok := subject.RunOfTask(m.Subject, id)
		if !ok || m.Relayed || names.CheckToken("run", run) != nil || slices.Contains(runs, run) || len(runs) == maxCallers {
			return
		}
		t := new(bus.Task)
		if err := decodeDeviceTask(m.Data, t); err != nil {
			t.Version = "" // the call counts, whatever else it holds
		}
		runs = append(runs, run)
		called(run, t.Version)
	})
	if err == nil {
		if err = line.Settled(ctx); ctx.Err() != nil {
			err = nil
		}
	}
	if err == nil {
		select {
		case <-ctx.Done():
			err = sub.Unsubscribe()
		case <-line.Life().Done():
			err = line.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("bus: listen for device %s: %w", id, err)
	}
	return nil
}
