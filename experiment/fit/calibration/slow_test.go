package calibration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"fedpace/actors/calibrate"
	"fedpace/bus"
	"fedpace/bus/bustest/simbus"
)

// slowUploads is a network on which a part of an update takes longer than a task may stay unanswered.
type slowUploads struct {
	mu sync.Mutex
	// chunks counts the messages with the first and with the second part of an update of standardParams
	// values.
	chunks [2]int
}

func (n *slowUploads) Carry(_, _, kind string, deliver func()) {
	if !strings.Contains(kind, ".update.") {
		deliver()
		return
	}
	n.mu.Lock()
	for chunk := range n.chunks {
		// The kind ends with the size of the message. Smaller ones are of smaller models.
		if strings.Contains(kind, fmt.Sprintf(".update.%d of 524", chunk)) {
			n.chunks[chunk]++
		}
	}
	n.mu.Unlock()
	go func() {
		time.Sleep(2 * resendAfter)
		deliver()
	}()
}

// A device whose upload takes longer than a task may stay unanswered gets the task once, as in a run: a
// repeat would make it send a part of its update twice, and look slower than it is.
func TestServe_SlowUpload(t *testing.T) {
	t.Parallel()
	before := resendAfter
	resendAfter = 40 * time.Millisecond
	t.Cleanup(func() { resendAfter = before })
	network := &slowUploads{}
	l := &laboratory{T: t, bus: simbus.New(network)}
	var err error
	l.models, err = l.bus.Connect("coordinator").OpenCoordinator(t.Context(), laboratoryRun, bus.CoordinatorConfig{PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.models.Close(context.Background()) })
	var group errgroup.Group
	group.Go(func() (err error) {
		_, err = Serve(t.Context(), l.bus.Connect("gateway"), l.models, Config{
			Run:     laboratoryRun,
			Devices: []string{"pi"},
			Seconds: 0.1,
			Notice:  l.notice,
			Calls:   10 * time.Millisecond,
		})
		return err
	})
	group.Go(func() error {
		_, _, err := calibrate.MeasureNetwork(t.Context(), l.bus.Connect("pi"), calibrate.NetworkConfig{ID: "pi", Notice: l.notice, Begin: func(bus.Phase) {}})
		return err
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// Repeats of every task double the first parts. On a busy machine a few tasks are repeated, because
	// the device itself is late.
	first, second := network.chunks[0], network.chunks[1]
	if first == 0 || 2*first >= 3*second {
		t.Errorf("%d first and %d second parts of updates were sent, want about as many", first, second)
	}
}
