package plugins

import "fedpace/actors/fleet"

func init() {
	fleet.Availabilities.Register("shifts", "clients take turns by number", Shifts{})
}

// Shifts makes clients available in turn: of two shifts the clients 0, 2, 4, ...
// are there in the first period, 1, 3, 5, ... in the second, and so on.
type Shifts struct {
	Shifts  int     `key:"shifts" default:"2" range:"[2,1000]" help:"groups of clients"`
	Seconds float64 `key:"seconds" range:"[1,1e8]" unit:"seconds" help:"length of a shift"`
}

// Presence prepares the model; it reads no file.
func (s Shifts) Presence(*fleet.Files) (fleet.Presence, error) {
	return shifts{int64(s.Shifts), int64(s.Seconds * 1e9)}, nil
}

type shifts struct{ groups, length int64 }

// Present reports whether it is the client's shift at t, in nanoseconds.
func (s shifts) Present(_ uint64, client int, t int64) bool {
	shift := t / s.length % s.groups
	return shift == int64(client)%s.groups
}

// Change returns the next time after t, in nanoseconds, at which Present gives another result than at t.
func (s shifts) Change(seed uint64, client int, t int64) int64 {
	now := s.Present(seed, client, t)
	shiftStart := (t/s.length + 1) * s.length
	// There are two shifts at least, so every client comes or goes in one of the next ones.
	for s.Present(seed, client, shiftStart) == now {
		shiftStart += s.length
	}
	return shiftStart
}
