package testport

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A held port is given to nobody who asks for any port, to listen or to connect,
// and again and again to the server that asks for it.
func TestHeld_NotGivenToOthers(t *testing.T) {
	held := Held(t)
	if c, err := net.Dial("tcp", held); err == nil {
		c.Close()
		t.Fatal("a held port answers before a server listens")
	}
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	others := map[string]bool{target.Addr().String(): true}
	for range ports(t) / 60 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		others[l.Addr().String()] = true
		c, err := net.Dial("tcp", target.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		others[c.LocalAddr().String()] = true
	}
	if others[held] {
		t.Errorf("%s was given to another socket", held)
	}
	for range 3 {
		l, err := net.Listen("tcp", held)
		if err != nil {
			t.Fatal(err)
		}
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := net.Dial("tcp", held)
		if err != nil {
			t.Fatal(err)
		}
		// The server closes first, so that its side keeps the address a while.
		if s := <-accepted; s != nil {
			s.Close()
		}
		l.Close()
		c.Close()
	}
}

// ports is how many the system gives to those that ask for any.
func ports(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip(err)
	}
	var ends [2]int
	for i, field := range strings.Fields(string(text)) {
		ends[i], err = strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
	}
	return ends[1] - ends[0] + 1
}
