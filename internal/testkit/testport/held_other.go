//go:build !linux

package testport

import (
	"net"
	"testing"
)

// Held returns an address of this machine, 127.0.0.1:port, that was free a moment
// ago: other systems than Linux let nobody listen on a port that another socket
// holds.
func Held(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
