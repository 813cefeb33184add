package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// A lease ends leaseFor after its holder renewed it last, unless the run's
// configuration says otherwise. The holder renews it renewals times meanwhile: a
// second coordinator knows after two of them that the first lives, and goes on when
// the lease of a dead one has ended.
const (
	leaseFor       = 5 * time.Second
	renewals       = 5
	renewalAttempt = time.Second
)

// lease is the right to drive a run, of which a run has one on a server: an entry
// in a bucket of its own whose every change names the revision that it replaces.
// The server deletes the entry when it has not been renewed for leaseFor; who has
// waited so long by its own clock replaces the entry. The bucket lives in memory: a
// server that forgets gives the lease to whoever asks first, its holder more likely
// than not.
type lease struct {
	conn  *Conn
	js    jetstream.JetStream
	run   string
	store jetstream.KeyValueConfig
	kv    jetstream.KeyValue // nil: it is not known to be there

	me       string // unique, then words for people
	revision uint64 // the entry's; 0: it is not known to be there
	renewed  atomic.Pointer[time.Time]
}

// errNotHeld is of what may be done only by the holder of the lease, while it does
// not know whether it still is.
const errNotHeld = natsconn.TransientError("the lease of the run has to be renewed first")

// heldError is of a lease that somebody else has.
type heldError struct {
	holder   string
	revision uint64
}

func (e *heldError) Error() string { return e.holder + " has the lease" }

// acquireLease waits until the lease of a run is this coordinator's, at most as long as
// a dead one's lasts. It is refused where another coordinator lives.
func (c *Conn) acquireLease(
	ctx context.Context,
	js jetstream.JetStream,
	run string,
	config *bus.CoordinatorConfig,
) (*lease, error) {
	machine, _ := os.Hostname() // for people alone
	l := &lease{
		conn: c,
		js:   js,
		run:  run,
		me:   fmt.Sprintf("%s process %d on %s", rand.Text(), os.Getpid(), machine),
		store: jetstream.KeyValueConfig{
			Bucket:      subject.LeaseBucket(run),
			Description: "who drives the run",
			TTL:         config.Lease,
			Storage:     jetstream.MemoryStorage,
			Replicas:    config.Replicas,
		},
	}
	var last *heldError
	var lastChange time.Time // when it was
	renewed := 0             // times since the first; what a coordinator sent before it died may still arrive
	for {
		err := c.Do(ctx, "give the lease of run "+run, natsconn.RequestTimeout, l.renew)
		var held *heldError
		switch {
		case errors.Is(
			err,
			jetstream.ErrJetStreamNotEnabled,
		), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, fmt.Errorf("bus: the server has no JetStream, which runs need: start it with nats-server -js, and allow it for the account (%s)", c.Address())
		case !errors.As(err, &held):
			return l, err
		case last == nil:
			last, lastChange = held, time.Now()
			c.Notice(bus.Notice{
				Subject: run, State: bus.WaitingForLease,
				Text: fmt.Sprintf(
					"Waiting for the lease of run %s, which %s has, to end: at most %v.",
					run,
					held.holder,
					config.Lease,
				),
			})
		case held.revision != last.revision:
			last, lastChange, renewed = held, time.Now(), renewed+1
			if renewed > 1 {
				return nil, fmt.Errorf(
					"bus: run %s has a coordinator on this server already (%s): let it end, or choose another name",
					run,
					held.holder,
				)
			}
		case time.Since(lastChange) > config.Lease: // the server's clock was set back, so to it the entry is young
			l.revision = held.revision // the next attempt replaces the entry, unless it has been renewed
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(config.Lease / (4 * renewals)):
		}
	}
}

// renew takes the lease, or holds it for longer, in one attempt. An error that
// passes may be followed by another attempt; *heldBy says that it is another's.
func (l *lease) renew(ctx context.Context) (err error) {
	if l.kv == nil {
		if l.kv, err = l.js.CreateOrUpdateKeyValue(ctx, l.store); err != nil {
			return err
		}
	}
	requested := time.Now()
	revision, err := l.kv.Update(ctx, leaseKey, []byte(l.me), l.revision)
	switch {
	case err == nil:
		l.revision = revision
		l.renewed.Store(&requested)
		return nil
	case !wrongRevision(err):
		// the bucket may be gone; of one that is not, nobody answers where somebody listens to everything
		l.kv = nil
		l.revision = 0
		return err
	}
	entry, err := l.kv.Get(ctx, leaseKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // it has ended
		l.revision = 0
		return errNotHeld
	case err != nil:
		return err
	case string(entry.Value()) == l.me: // an answer was lost
		l.revision = entry.Revision()
		return errNotHeld
	}
	_, holder, _ := strings.Cut(string(entry.Value()), " ")
	return &heldError{bus.ValidText(holder), entry.Revision()}
}

// leaseKey is the bucket's only key.
const leaseKey = "coordinator"

// wrongRevision tells that another change came before.
func wrongRevision(err error) bool {
	var api *jetstream.APIError
	codes := []jetstream.ErrorCode{jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant}
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && slices.Contains(codes, api.ErrorCode)
}

// check returns an error that passes unless the lease is held now. It looks at both
// clocks: the monotonic one stands while the machine sleeps, and the other may be
// set.
func (l *lease) check() error {
	now := time.Now()
	renewed := l.renewed.Load()
	if renewed == nil || now.Sub(*renewed) >= l.store.TTL || now.Round(0).Sub(renewed.Round(0)) >= l.store.TTL {
		return errNotHeld
	}
	return nil
}

// renewUntil renews the lease until ctx ends. lost is told when another coordinator has
// it, lapsed when it is held again after it had ended: another may have had it.
func (l *lease) renewUntil(ctx context.Context, taken, lapsed func(error)) {
	for range bus.Ticks(ctx, l.store.TTL/renewals) {
		ended := false
		err := l.conn.Do(ctx, "renew the lease of run "+l.run, renewalAttempt, func(ctx context.Context) error {
			ended = ended || l.check() != nil
			return l.renew(ctx)
		})
		var held *heldError
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &held):
			l.renewed.Store(nil)
			taken(fmt.Errorf(
				"bus: run %s: another coordinator has taken the run over (%s), this one stops",
				l.run,
				held.holder,
			))
			return
		case err != nil:
			taken(err)
			return
		case ended:
			lapsed(fmt.Errorf("bus: the lease of run %s had ended and is held again: %w", l.run, bus.ErrInterrupted))
		}
	}
}

// release removes the bucket, and with it the entry.
func (l *lease) release(ctx context.Context) error {
	if l.check() != nil {
		return nil // it ends by itself, or is another's
	}
	l.renewed.Store(nil)
	return l.conn.remove(ctx, "give the lease of run "+l.run+" back", func(ctx context.Context) error {
		return l.js.DeleteKeyValue(ctx, l.store.Bucket)
	})
}
