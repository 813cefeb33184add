package testport

import (
	"fmt"
	"syscall"
	"testing"
)

// Held returns an address of this machine, 127.0.0.1:port, on which a server can
// listen, close and listen again until the test ends.
//
// A socket that is bound and does not listen holds the port: Linux gives a bound
// port to no other socket that asks for any port, neither to listen nor to
// connect, while a server that asks for this very port gets it, since both allow
// the address's reuse (as package net does for every listener).
func Held(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}
