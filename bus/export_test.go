package bus

import (
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Bare connects without anything of this package, in process.
func (s *Server) Bare() (*nats.Conn, error) { return nats.Connect("", nats.InProcessServer(s.server)) }

// HoldPlans keeps the plans' subscription from its work until release and lets
// at most limit messages wait for it.
func HoldPlans(c *NATSCoordinator, limit int) (release func()) {
	for _, s := range c.subs {
		if strings.HasSuffix(s.Subject, verbPlan) {
			if err := s.SetPendingLimits(limit, pendingBytes); err != nil {
				panic(err)
			}
		}
	}
	held, free := make(chan struct{}), make(chan struct{})
	c.plans.Put(ClientPlan{Plan: new(Plan)}) // Holds looks at this one, with the mailbox locked
	go c.plans.Holds(func(ClientPlan) bool { close(held); <-free; return true })
	<-held
	return func() { close(free) }
}

// Broken is closed when the coordinator's connection has failed.
func Broken(c *NATSCoordinator) <-chan struct{} { return c.conn.Broken() }

// message is one without a way to reply.
func message(b []byte) *nats.Msg { return &nats.Msg{Data: b} }

// BareInside is Bare as a user who may do everything in the runs' account.
func (s *Server) BareInside() (*nats.Conn, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	token, err := jwt.NewUserClaims(public).Encode(s.authority.runs)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", nats.InProcessServer(s.server), nats.UserJWT(func() (string, error) { return token, nil }, pair.Sign))
}
