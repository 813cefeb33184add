package fleet

import "fedpace/registry"

// Availability says when clients can be chosen: a deterministic function of
// (seed, client, virtual time), evaluated where somebody looks.
type Availability interface {
	// Presence prepares the model; nil: every client is always there.
	Presence(files *Files) (Presence, error)
}

// Availabilities are the models that a configuration can name.
var Availabilities = registry.New[Availability]("model of availability", "model")

// Presence is an availability model ready for use, from any goroutine. Times are
// nanoseconds of virtual time.
type Presence interface {
	// Present reports whether the client is there at t.
	Present(seed uint64, client int, t int64) bool
	// Change is the first time after t at which At differs, or at which the search
	// for it gave up; [Never] where it does not differ again.
	Change(seed uint64, client int, t int64) int64
}

// maxLook bounds how many periods, points or days ahead one search looks.
const maxLook = 4096

func init() { Availabilities.Register("always", "every client is there at any time", Always{}) }

// Always is the availability of clients that are never absent.
type Always struct{}

func (Always) Presence(*Files) (Presence, error) { return nil, nil }
