//go:build unix

package cmd

import (
	"math"
	"strings"
	"testing"

	"fedpace/bus"
	"fedpace/coordinator/round"
)

// A device adds the run's local noise to what it sends, and none that anybody could foretell: of
// two devices that shorten their updates to next to nothing, what is left is noise of the
// deviation that was asked for. One of a protocol that does not know of noise is refused.
func TestDevices_LocalNoise(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 1, 1, "devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 30}\nprivacy: {local: {clip: 0.01, noise_multiplier: 100}}\n")
	old := s.raw("pi2")
	reply := old.ask(old.subject("join"), &bus.Join{Name: "of before", Kernel: "go", Samples: 9, Protocol: bus.ProtocolSchema})
	if want := "join: protocol is 3, want at least 4 for the run's local noise: update the device"; reply.Status != bus.Refused || !strings.Contains(reply.Reason, want) {
		t.Errorf("a device of before is answered %v", reply)
	}
	s.actor("pi1")
	s.actor("pi2")
	summary := s.end()
	if !summary.Completed || summary.Outcomes[round.Accepted] != 4 || summary.LocalNoise == nil {
		t.Fatalf("outcomes %v:\n%v", summary.Outcomes, s.lines)
	}
	said := answersOf(t, s.path("run"))
	if len(said) != 2 {
		t.Fatalf("%d answers", len(said))
	}
	// Both started from one model, so that the difference has twice the variance of either.
	square, n := 0.0, float64(len(said[0].Values))
	for i, x := range said[0].Values {
		d := float64(x) - float64(said[1].Values[i])
		square += d * d
	}
	if got := math.Sqrt(square / n / 2); math.Abs(got-1) > 0.01 {
		t.Errorf("the noise has deviation %g, want 1", got)
	}
}
