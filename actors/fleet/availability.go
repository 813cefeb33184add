package fleet

import "fedpace/registry"

// Availability is a configured model of when clients are available. Whether a client is available
// at a virtual time is a deterministic function of (seed, client, time), so it is evaluated only
// when asked for and nothing is stored by client.
type Availability interface {
	// Presence prepares the model for use and reads the files that it names. A nil Presence means that
	// every client is always available. Files is nil when the configuration is only checked.
	Presence(files *Files) (Presence, error)
}

// Availabilities are the models that a configuration can name by the key model.
var Availabilities = registry.New[Availability]("model of availability", "model")

// Presence is an availability model ready for use. It is read-only and may be called from any
// goroutine. Times are nanoseconds of virtual time, client is the number by which the client draws.
type Presence interface {
	// Present reports whether the client is available at time t.
	Present(seed uint64, client int, t int64) bool
	// Change returns the first time after t at which Present gives another answer. A search that looks
	// too far ahead (see maxLook) returns the time that it has reached, up to which nothing changes.
	// The result is [Never] if the answer does not change any more.
	Change(seed uint64, client int, t int64) int64
}

// maxLook bounds how many periods, points of a process or days ahead one search for a change looks.
const maxLook = 4096

// init registers the model under the name by which a configuration chooses it.
func init() { Availabilities.Register("always", "at any time", Always{}) }

// Always is the availability of clients that are never absent.
type Always struct{}

// Presence returns nil: no client is ever absent.
func (Always) Presence(*Files) (Presence, error) { return nil, nil }
