package connlimit

import (
	"net"
	"testing"
)

// fake is a connection from an address, which knows that it is closed.
type fake struct {
	net.Conn
	from   string
	closed bool
}

func (f *fake) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", f.from)
	return a
}

func (f *fake) Close() error { f.closed = true; return nil }

// Whoever opens connections without end closes the oldest of his own.
func TestLimit_GreatestAddressGivesWay(t *testing.T) {
	s := New(4, 2)
	honest := &fake{from: "10.0.0.1:1"}
	s.Add(honest)
	var silent []*fake
	for range 100 {
		f := &fake{from: "10.0.0.2:1"}
		silent = append(silent, f)
		s.Add(f)
	}
	if honest.closed {
		t.Error("the connection of another address is closed")
	}
	for i, f := range silent {
		if want := i < 97; f.closed != want {
			t.Errorf("connection %d of 100 is closed: %v, want %v", i, f.closed, want)
		}
	}
	if got, want := s.Counts(), (Counts{Waiting: 4, Evicted: 97}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// A connection of the same address comes through if it goes on at once.
func TestPlaces(t *testing.T) {
	s := New(1, 2)
	a, b, c := s.Add(&fake{from: "[2001:db8::1]:1"}), (*Conn)(nil), (*Conn)(nil)
	for range 2 { // a place is taken once
		if !a.Admit() {
			t.Fatal("the first is not admitted")
		}
	}
	b = s.Add(&fake{from: "[2001:db8::2]:1"})
	if !b.Admit() {
		t.Fatal("the second is not admitted")
	}
	c = s.Add(&fake{from: "[2001:db8::3]:1"})
	if c.Admit() {
		t.Error("there are three in two places")
	}
	a.Release()
	if got, want := s.Counts(), (Counts{Waiting: 2, Admitted: 1, Refused: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	if !c.Admit() {
		t.Error("a place that is free again is not given")
	}
	for _, x := range []*Conn{a, b, c, a} {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if a.Admit() {
		t.Error("a closed connection is admitted")
	}
	if got, want := s.Counts(), (Counts{Refused: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestOrigin(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3:4": "10.1.2.3/32", "[::ffff:10.1.2.3]:4": "10.1.2.3/32", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		if got := Origin((&fake{from: in}).RemoteAddr()).String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Origin(a.RemoteAddr()) != Origin(b.RemoteAddr()) {
		t.Error("connections within the process have different origins")
	}
}
