package natsbus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// HoldPlans keeps the plans' subscription from its work until release and lets
// at most limit messages wait for it.
func HoldPlans(coordinator bus.Coordinator, limit int) (release func()) {
	c := coordinator.(*Coordinator)
	for _, s := range c.subs {
		if strings.HasSuffix(s.Subject, subject.Plan) {
			if err := s.SetPendingLimits(limit, natsconn.PendingBytes); err != nil {
				panic(err)
			}
		}
	}
	held, free := make(chan struct{}), make(chan struct{})
	c.plans.Put(bus.ClientPlan{Plan: new(bus.Plan)}) // Holds looks at this one, with the mailbox locked
	go c.plans.Holds(func(bus.ClientPlan) bool { close(held); <-free; return true })
	<-held
	return func() { close(free) }
}

// Broken is closed when the coordinator's connection has failed.
func Broken(c bus.Coordinator) <-chan struct{} { return c.(*Coordinator).conn.Life().Done() }

// Settled waits until what the coordinator has sent, and what the server had for the host, is there.
func Settled(ctx context.Context, c bus.Coordinator, h bus.Host) error {
	return errors.Join(c.(*Coordinator).conn.Settled(ctx), h.(*Host).conn.Settled(ctx))
}

// message is one without a way to reply.
func message(b []byte) *nats.Msg { return &nats.Msg{Data: b} }

// Sealed puts the digest of whatever bytes behind them.
func Sealed(b []byte) []byte {
	m := new(bus.Sum)
	m.ProtoReflect().SetUnknown(b)
	b, err := bus.MarshalSealed(m)
	if err != nil {
		panic(err)
	}
	return b
}

// Await has a host wait so long for a model that is not there.
func Await(h bus.Host, lag time.Duration) { h.(*Host).models.lag = lag }

// LimitCache limits the models that a host keeps.
func LimitCache(h bus.Host, bytes int64) {
	h.(*Host).models.limit = func(int64) int64 { return bytes }
}

// CacheLimit is how many bytes of models a host keeps, by the bytes of the newest.
var CacheLimit = cacheLimit

// ShortenElections has streams without a leader deleted after so long.
func ShortenElections(patience time.Duration) (restore func()) {
	before := electionPatience
	electionPatience = patience
	return func() { electionPatience = before }
}

// Copies is how many servers hold the run's jobs, as its stream is configured.
func Copies(ctx context.Context, coordinator bus.Coordinator) (int, error) {
	c := coordinator.(*Coordinator)
	s, err := c.js.Stream(ctx, subject.JobsStream(c.run))
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().Config.Replicas, nil
}

// JobsPeers are the names of the servers that hold the run's jobs.
func JobsPeers(ctx context.Context, coordinator bus.Coordinator) ([]string, error) {
	c := coordinator.(*Coordinator)
	s, err := c.js.Stream(ctx, subject.JobsStream(c.run))
	if err != nil {
		return nil, err
	}
	cluster := s.CachedInfo().Cluster
	peers := []string{cluster.Leader}
	for _, r := range cluster.Replicas {
		peers = append(peers, r.Name)
	}
	return peers, nil
}

// Token is the coordinator's fencing token.
func Token(coordinator bus.Coordinator) uint64 {
	return coordinator.(*Coordinator).lease.fence.token.Load()
}

// Stamp is that of the run's configuration.
func Stamp(coordinator bus.Coordinator) uint64 { return coordinator.(*Coordinator).hosts.Info.Stamp }
