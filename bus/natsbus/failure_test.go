package natsbus_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fedpace/bus/bustest/conformance"
	"fedpace/bus/natsbus"
)

func TestPlan_Invalid(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.Coordinator(t, "r")
		conn := p.bare(t)
		defer conn.Close()
		if err := conn.Publish("fedpace.r.client.17.plan", []byte("\x08\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")); err != nil {
			t.Fatal(err)
		}
		err := conformance.PlanFailure(t, c)
		if want := "plan: download_ns is -1, want 0 to"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "client 17") {
			t.Errorf("got %v, want %q of client 17", err, want)
		}
	})
}

func TestCoordinator_SlowConsumer(t *testing.T) {
	places(t, func(t *testing.T, p *place) {
		c := p.Coordinator(t, "r")
		conn := p.bare(t)
		defer conn.Close()
		release := natsbus.HoldPlans(c, 10) // at most ten may wait
		for i := range 1000 {
			if err := conn.Publish(fmt.Sprintf("fedpace.r.client.%d.plan", i), []byte{0x08, 0x01}); err != nil {
				t.Fatal(err)
			}
		}
		<-natsbus.Broken(c)
		release()
		err := conformance.PlanFailure(t, c)
		for _, want := range []string{"slow consumer", "messages dropped", "fedpace.r.client.*.plan"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %v", want, err)
			}
		}
		if _, sumErr := c.TakeSum(t.Context()); sumErr == nil || sumErr.Error() != err.Error() {
			t.Errorf("TakeSum says %v, want the same", sumErr)
		}
	})
}

func TestCoordinator_EmbeddedServerEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	c, h := p.Coordinator(t, "r"), p.Host(t, "r")
	time.AfterFunc(50*time.Millisecond, p.server.Close)
	if _, err := h.NextJob(t.Context(), "go"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("NextJob: %v", err)
	}
	if err := conformance.PlanFailure(t, c); !strings.Contains(err.Error(), "connection closed") {
		t.Errorf("TakePlans: %v", err)
	}
	if <-h.Done(); h.Err() == nil { // who waits for a job may be told first
		t.Error("the host does not know why")
	}
}
