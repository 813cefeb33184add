package cli

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// A service manager hears that the process is ready, that it lives, and that it
// stops (sd_notify(3)).
func TestSupervisor_ServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	heard := func() string {
		if err := socket.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 64)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	stopping, err := supervised(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := heard(); got != "READY=1" {
		t.Errorf("first %q", got)
	}
	if got := heard(); got != "WATCHDOG=1" {
		t.Errorf("then %q", got)
	}
	stopping()
	for got := heard(); got != "STOPPING=1"; got = heard() {
		if got != "WATCHDOG=1" {
			t.Fatalf("in the end %q", got)
		}
	}
}

func TestSupervisor_None(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	stopping, err := supervised(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopping()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "absent"))
	if _, err := supervised(t.Context()); err == nil {
		t.Error("a socket that is not there is not an error")
	}
}
