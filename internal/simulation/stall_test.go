package simulation

import (
	"fmt"
	"sync"
	"time"
)

// These are what the bound of a stall is counted in, as the parts of a simulated run have them.
const (
	lease     = 6 * time.Second
	heartbeat = 2 * time.Second
)

// stallBound is how long a run without devices may be without a further event, such as a plan or a sum that the
// coordinator takes, from the end of the last disturbance:
// the lease of a coordinator that is gone has to end and a host that is gone to be missed (3 heartbeats), and jobs that
// nobody holds any more are given out again (two leases). All that may have to be waited for twice: a second
// coordinator that was started beside the first may take the run over once more.
const stallBound = 2 * (3*lease + 3*heartbeat)

// stall watches how long a run makes no progress although nothing disturbs it.
type stall struct {
	mu sync.Mutex
	// bound is how long a stall may last; 0: nothing is asserted, as real devices take the time that they take.
	bound time.Duration
	// since is the end of the last disturbance, or the last progress after it.
	since time.Time
	// longest is the longest stall so far.
	longest time.Duration
	// faults counts the disturbances.
	faults int
}

// begin starts the watch of a scenario. Messages that are lost, late or held up disturb a run until they no longer
// fail.
func (s *stall) begin(x *scenario, now time.Time) {
	s.since = now
	if x.weather.loss > 0 || x.weather.late > 0 {
		s.since = now.Add(calmAfter)
	}
	if len(x.devices) == 0 {
		s.bound = stallBound
	}
}

// disturb notes a disturbance that lasts until a time.
func (s *stall) disturb(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults++
	if until.After(s.since) {
		s.since = until
	}
}

// progress notes that the coordinator has taken a step. It returns an error if that took longer than the bound.
func (s *stall) progress(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := now.Sub(s.since)
	if took <= 0 {
		return nil
	}
	s.longest = max(s.longest, took)
	s.since = now
	if s.bound > 0 && took > s.bound {
		return fmt.Errorf("nothing has happened for %v although nothing disturbed the run: more than %v", took, s.bound)
	}
	return nil
}
