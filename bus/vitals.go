package bus

import (
	"slices"

	"github.com/nats-io/nats.go"
)

// Vitals tell how the coordinator's end of a run keeps up. Their methods may be
// called at any time, also after Close.
type Vitals struct {
	c    *Coordinator
	subs []*nats.Subscription
}

// Vitals are those of an open coordinator; take them before Close.
func (c *Coordinator) Vitals() Vitals { return Vitals{c, slices.Clone(c.subs)} }

// Pending is the number of messages that have come and are not taken yet.
func (v Vitals) Pending() int {
	n := v.c.plans.pending() + v.c.sums.inbox.pending()
	for _, s := range v.subs {
		if messages, _, err := s.Pending(); err == nil { // fails where it has ended: nothing waits
			n += messages
		}
	}
	return n
}

// Dropped is the number of messages that were lost because the coordinator was
// too slow. The run fails by the first.
func (v Vitals) Dropped() int64 {
	n := int64(0)
	for _, s := range v.subs {
		if dropped, err := s.Dropped(); err == nil {
			n += int64(dropped)
		}
	}
	return n
}

// Ignored is [Coordinator.Ignored].
func (v Vitals) Ignored() int64 { return v.c.Ignored() }

func (b *inbox[T]) pending() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}
