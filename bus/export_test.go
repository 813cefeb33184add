package bus

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// Bare connects without anything of this package, in process.
func (s *Server) Bare() (*nats.Conn, error) { return nats.Connect("", nats.InProcessServer(s.server)) }

// HoldPlans keeps the plans' subscription from its work until release and lets
// at most limit messages wait for it.
func HoldPlans(c *Coordinator, limit int) (release func()) {
	for _, s := range c.subs {
		if strings.HasSuffix(s.Subject, verbPlan) {
			if err := s.SetPendingLimits(limit, pendingBytes); err != nil {
				panic(err)
			}
		}
	}
	c.plans.mu.Lock()
	return c.plans.mu.Unlock
}

// message is one without a way to reply.
func message(b []byte) *nats.Msg { return &nats.Msg{Data: b} }
