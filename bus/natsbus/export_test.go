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

// HoldPlans stops the work of the subscription to plans until release is called. At most limit messages may wait for
// it.
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

// Broken returns a channel that is closed when the coordinator's connection has failed.
func Broken(c bus.Coordinator) <-chan struct{} { return c.(*Coordinator).conn.Life().Done() }

// Settled waits until the server has what the coordinator has sent, and the host what the server had for it.
func Settled(ctx context.Context, c bus.Coordinator, h bus.Host) error {
	return errors.Join(c.(*Coordinator).conn.Settled(ctx), h.(*Host).conn.Settled(ctx))
}

// message returns a message without a subject for an answer.
func message(b []byte) *nats.Msg { return &nats.Msg{Data: b} }

// Sealed returns bytes b, whatever they are, followed by the digest that seals them.
func Sealed(b []byte) []byte {
	m := new(bus.Sum)
	m.ProtoReflect().SetUnknown(b)
	b, err := bus.MarshalSealed(m)
	if err != nil {
		panic(err)
	}
	return b
}

// Await sets how long a host waits for a model that the server does not have.
func Await(h bus.Host, lag time.Duration) { h.(*Host).models.retryFor = lag }

// LimitCache sets how many bytes of models a host keeps.
func LimitCache(h bus.Host, bytes int64) {
	h.(*Host).models.limit = func(int64) int64 { return bytes }
}

// CacheLimit is how many bytes of models a host keeps, by the bytes of the newest.
var CacheLimit = cacheLimit

// ShortenElections has streams deleted that have had no leader for this long.
func ShortenElections(patience time.Duration) (restore func()) {
	before := electionPatience
	electionPatience = patience
	return func() { electionPatience = before }
}

// Copies returns how many servers hold the run's jobs, as the stream is configured.
func Copies(ctx context.Context, coordinator bus.Coordinator) (int, error) {
	c := coordinator.(*Coordinator)
	s, err := c.js.Stream(ctx, subject.JobsStream(c.run))
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().Config.Replicas, nil
}

// JobsPeers returns the names of the servers that hold the run's jobs.
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

// Token returns the coordinator's fencing token.
func Token(coordinator bus.Coordinator) uint64 {
	return coordinator.(*Coordinator).lease.fence.token.Load()
}

// Stamp returns the stamp of the run's configuration.
func Stamp(coordinator bus.Coordinator) uint64 { return coordinator.(*Coordinator).hosts.Info.Stamp }

// TokenOf is the token of a holder that took its lease at this revision, in a bucket that was made then.
func TokenOf(made time.Time, revision uint64) uint64 { return newFence(fenceTime(made) + revision) }
