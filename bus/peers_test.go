package bus_test

import (
	"strings"
	"testing"

	"fedpace/bus"
	"fedpace/bus/bustest/conformance"
)

// No client takes part in a round without a step, so none needs a weight for it
// (findings/nvflare-no-steps-is-one-step.sh): a task of no local steps is refused.
func TestPeers_NoTaskWithoutSteps(t *testing.T) {
	job := conformance.Job(1, bus.DigestOf([]float32{1}), 1)
	if err := job.Validate(); err != nil {
		t.Fatal(err)
	}
	job.Clients[0].LocalSteps = 0
	if err := job.Validate(); err == nil || !strings.Contains(err.Error(), "clients.local_steps is 0") {
		t.Errorf("%v", err)
	}
}
