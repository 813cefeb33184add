package embedded_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/bus/embedded"
)

func TestStart_NoPort(t *testing.T) {
	before := listeners(t)
	silent, err := embedded.Start(t.Context(), embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if url := silent.URL(); url != "" {
		t.Errorf("it listens on %s", url)
	}
	if after := listeners(t); after > before {
		t.Errorf("this process listens on %d sockets, before on %d", after, before)
	}
	open, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(open.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// listeners counts this process's listening sockets (Linux).
func listeners(t *testing.T) int {
	t.Helper()
	n := 0
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Skipf("no %s to see the sockets in", table)
		}
		for _, line := range strings.Split(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil && inodes[target] {
			n++
		}
	}
	return n
}

func TestStart_CannotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for listen, want := range map[string]string{
		l.Addr().String():  "address already in use",
		"127.0.0.1":        "(host:port): listen tcp: address 127.0.0.1: missing port",
		"127.0.0.1:banana": "unknown port",
		"127.0.0.1:70000":  "invalid port",
	} {
		s, err := embedded.Start(t.Context(), embedded.Config{Listen: listen, Open: true})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), listen) {
			t.Errorf("%s: got %v, want %q", listen, err, want)
		}
	}
}
