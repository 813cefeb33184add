//go:build unix

package cmd

import (
	"os"
	"strings"
	"testing"
)

// A device that stops, and one whose data do not fit, say so: the run tells why they left, and waits
// for neither for the five minutes of a device that falls silent. A replay comes to the same.
func TestDevices_ReasonsToLeave(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, 2, 60, "devices: {names: [pi, unfit], liveness_seconds: 300, keep_updates: true}\npace: 30\n")
	own := s.path("own.csv")
	putFile(t, own, []byte("x,label\n1,a\n2,b\n3,a\n"))
	pi, _ := s.actor("pi")
	// A device that is stopped before it has joined has nothing to leave.
	s.lines.await(t, "Device pi has joined")
	c := fedpace(t, "actor", "--nats", s.url, "--client", "unfit", "--creds", s.creds("unfit"), "--data", own)
	said := s.listen(c)
	s.lines.await(t, "Device unfit has joined")
	said.await(t, "fedpace: data")
	s.lines.await(t, "Device unfit leaves: data: .*own.csv")
	if err := pi.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	s.lines.await(t, "Device pi leaves: it was stopped")
	summary := s.end()
	if summary.VirtualSeconds > 299 {
		t.Errorf("the run took %g s of the clock: it waited for who had left", summary.VirtualSeconds)
	}
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	if again := s.summary("again"); again.Fingerprint != summary.Fingerprint || strings.Contains(s.lines.String(), "is lost") {
		t.Errorf("a replay comes to %s, the run came to %s\n%s", again.Fingerprint, summary.Fingerprint, s.lines)
	}
}
