package natsbus

import (
	"slices"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
)

// stats are bus.Stats over NATS.
type stats struct {
	c    *Coordinator
	subs []*nats.Subscription
}

// Stats are those of an open coordinator; take them before Close.
func (c *Coordinator) Stats() bus.Stats { return stats{c, slices.Clone(c.subs)} }

// Pending is the number of messages that have come and are not taken yet.
func (v stats) Pending() int {
	n := v.c.plans.Pending() + v.c.sums.mailbox.Pending()
	for _, s := range v.subs {
		if messages, _, err := s.Pending(); err == nil { // fails where it has ended: nothing waits
			n += messages
		}
	}
	return n
}

// Dropped is the number of messages that were lost because the coordinator was
// too slow. The run fails by the first.
func (v stats) Dropped() int64 {
	n := int64(0)
	for _, s := range v.subs {
		if dropped, err := s.Dropped(); err == nil {
			n += int64(dropped)
		}
	}
	return n
}

// Ignored is [Coordinator.Ignored].
func (v stats) Ignored() int64 { return v.c.Ignored() }
