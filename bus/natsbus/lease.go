package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
)

// These are the times of a lease.
const (
	// defaultLease is how long a lease lasts after it was renewed, unless the run's
	// configuration says otherwise.
	defaultLease = 5 * time.Second
	// renewalsPerLease is how often the holder renews the lease within that time. A second
	// coordinator that has seen two renewals knows that the first is alive.
	renewalsPerLease = 5
	// renewalAttempt bounds one attempt to renew the lease.
	renewalAttempt = time.Second
)

// noRevision is the revision of an entry that is not known to exist.
const noRevision = 0

// lease is the right to drive a run on a server, which one coordinator has at a time.
//
// It is an entry in a key-value bucket of its own. Every change of the entry names the revision
// that it replaces, and the server refuses a change that names another one: so two coordinators
// cannot both hold the lease. The server deletes an entry that was not renewed for the lease's
// duration (the bucket's TTL). A coordinator that has seen no renewal for that long by its own
// clock may replace the entry, too.
//
// The bucket lives in memory. A server that has lost it gives the lease to the first coordinator
// that asks, which is most likely its holder.
type lease struct {
	conn         *Conn
	js           jetstream.JetStream
	run          string
	bucketConfig jetstream.KeyValueConfig
	// kv is the bucket. It is nil while the bucket is not known to exist.
	kv jetstream.KeyValue

	// leaderless watches the bucket's stream.
	leaderless *leaderlessWatch
	// bucketMade is when the server made the bucket, in hundredths of a second since 1970.
	bucketMade uint64
	// copies is the number of copies of a new bucket: bucketConfig.Replicas at first, and 1 after a bucket without
	// a leader was deleted.
	copies int
	// bucketChanged is when the bucket was last deleted or given more copies, or when that was last tried; zero
	// before.
	bucketChanged time.Time

	// fence is the coordinator's token.
	fence fence

	// lastFailure is why the last renewal failed; nil after one that succeeded.
	lastFailure atomic.Pointer[error]
	// entryValue is the entry's value: a random token, then words for people.
	entryValue string
	// revision is the entry's last known revision, or noRevision.
	revision uint64
	// renewed is when the last successful renewal was requested; nil before the lease was acquired and after it was
	// lost or released.
	renewed atomic.Pointer[time.Time]
}

// errNotHeld is the error of every action that only the holder of the lease may take, while this
// coordinator does not know whether it still holds the lease. It is transient: the lease may be
// renewed yet.
const errNotHeld = natsconn.TransientError("the lease of the run has to be renewed first")

// heldError reports that another coordinator has the lease.
type heldError struct {
	// holder names the other coordinator by its process and machine.
	holder string
	// revision is that of the entry. It grows while the holder renews.
	revision uint64
}

// Error names the holder of the lease.
func (e *heldError) Error() string { return e.holder + " has the lease" }

// acquireLease waits until this coordinator has the lease of a run, for as long as the lease of a dead
// coordinator may last. It returns an error when another coordinator is seen to renew the lease.
func (c *Conn) acquireLease(
	ctx context.Context,
	js jetstream.JetStream,
	leaderless *leaderlessWatch,
	run string,
	config *bus.CoordinatorConfig,
) (*lease, error) {
	l := c.newLease(js, leaderless, run, config)
	rival := rivalWatch{lease: config.Lease}
	for {
		err := c.Do(ctx, "give the lease of run "+run, natsconn.RequestTimeout, l.renew)
		if jetStreamDisabled(err) {
			return nil, fmt.Errorf("bus: the server has no JetStream, which runs need: start it with nats-server "+
				"-js, and allow it for the account (%s)", c.Address())
		}
		var held *heldError
		// The lease is acquired, or the attempt has failed for good.
		if !errors.As(err, &held) {
			return l, err
		}
		// The user learns of the wait when the rival is seen for the first time.
		if rival.last == nil {
			c.Notice(waitingForLease(run, held, config.Lease))
		}
		switch rival.observe(held, time.Now()) {
		case rivalAlive:
			return nil, fmt.Errorf(
				"bus: run %s has a coordinator on this server already (%s): let it end, or choose another name",
				run,
				held.holder,
			)
		// The next attempt replaces the entry, unless the rival renews it before.
		case rivalSilent:
			l.revision = held.revision
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(config.Lease / (4 * renewalsPerLease)):
		}
	}
}

// newLease prepares the lease of run for this process, which does not have it yet. config says how
// long a lease lasts without a renewal and how many servers hold it.
func (c *Conn) newLease(
	js jetstream.JetStream,
	leaderless *leaderlessWatch,
	run string,
	config *bus.CoordinatorConfig,
) *lease {
	// Only people read the name of the machine, so it may be empty.
	machine, _ := os.Hostname()
	return &lease{
		conn:       c,
		js:         js,
		run:        run,
		entryValue: fmt.Sprintf("%s process %d on %s", rand.Text(), os.Getpid(), machine),
		bucketConfig: jetstream.KeyValueConfig{
			Bucket:      subject.LeaseBucket(run),
			Description: "who drives the run",
			TTL:         config.Lease,
			Storage:     jetstream.MemoryStorage,
			Replicas:    config.Replicas,
		},
		leaderless: leaderless,
		copies:     config.Replicas,
	}
}

// jetStreamDisabled reports whether an error says that the server, or the account, has no JetStream
// at all.
func jetStreamDisabled(err error) bool {
	return errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// waitingForLease returns the notice that a coordinator waits for another one's lease of a run to
// end, which takes at most the given duration.
func waitingForLease(run string, held *heldError, duration time.Duration) bus.Notice {
	return bus.Notice{
		Subject: run,
		State:   bus.WaitingForLease,
		Text: fmt.Sprintf(
			"Waiting for the lease of run %s, which %s has, to end: at most %v.",
			run,
			held.holder,
			duration,
		),
	}
}

// rivalState is what is known of another coordinator that has the lease.
type rivalState int

// These are the states of another holder of the lease.
const (
	// rivalUnknown says that the rival has not been watched for long enough.
	rivalUnknown rivalState = iota
	// rivalAlive says that the rival renews the lease.
	rivalAlive
	// rivalSilent says that the rival has not renewed the lease for the lease's duration.
	rivalSilent
)

// rivalWatch finds out whether another holder of the lease is alive, from the entry as it is seen
// from time to time.
type rivalWatch struct {
	// lease is how long a lease lasts.
	lease time.Duration
	// last is the entry as it was last seen; nil if it was not seen yet.
	last *heldError
	// since is when the entry's present revision was first seen.
	since time.Time
	// renewals counts the changes of the revision so far.
	renewals int
}

// observe takes the entry of the lease as an attempt to get the lease has found it at the time now, and returns
// what is then known of its holder. held is the error of that attempt. One change of the revision does not prove that
// the holder is alive: a renewal that a coordinator sent before it died may still arrive. The second change does. An
// entry that stays unchanged for the lease's duration should have been deleted by the server; it was not if the
// server's clock was set back.
func (w *rivalWatch) observe(held *heldError, now time.Time) rivalState {
	switch {
	case w.last == nil:
		w.last = held
		w.since = now
	case held.revision != w.last.revision:
		w.last = held
		w.since = now
		w.renewals++
		if w.renewals > 1 {
			return rivalAlive
		}
	case now.Sub(w.since) > w.lease:
		return rivalSilent
	}
	return rivalUnknown
}

// renew acquires the lease or prolongs it, in one attempt, and notes why it failed. After a transient
// error another attempt may follow; a *heldError says that another coordinator has the lease.
func (l *lease) renew(ctx context.Context) error {
	started := time.Now()
	err := l.tryRenew(ctx)
	if err == nil {
		l.lastFailure.Store(nil)
		l.leaderless.answered(l.stream())
		return nil
	}
	l.lastFailure.Store(&err)
	var held *heldError
	if errors.As(err, &held) {
		return err
	}
	if !l.leaderless.isOverdue(l.stream(), started, err) {
		return err
	}
	// A bucket without a leader is deleted, and made again by the next attempt. Its lease has ended by then, since
	// no coordinator could renew it, and all coordinators see the new bucket. A deletion without an answer may
	// have succeeded, so the next attempt makes the bucket in any case.
	l.kv = nil
	l.revision = noRevision
	l.copies = 1
	l.bucketChanged = time.Now()
	deletion := l.leaderless.deleteStream(ctx, l.stream(), l.stream())
	// Only the failure to delete the bucket may be one for good.
	if deletion != nil {
		return deletion
	}
	return err
}

// stream returns the name of the stream in which JetStream stores the bucket.
func (l *lease) stream() string { return "KV_" + l.bucketConfig.Bucket }

// tryRenew makes one attempt to acquire or prolong the lease. It makes the bucket first if that is not
// known to exist. If the entry has another revision, the error is that of readEntry.
func (l *lease) tryRenew(ctx context.Context) (err error) {
	if l.kv == nil {
		l.kv, err = l.makeBucket(ctx, l.copies)
		if err != nil {
			return err
		}
	}
	// The lease counts from the request, not from its answer: the server may have taken it at once.
	requested := time.Now()
	revision, err := l.kv.Update(ctx, leaseKey, []byte(l.entryValue), l.revision)
	if err == nil {
		// The entry was made, or taken from a rival that was silent: another coordinator may have had it.
		if l.revision == noRevision || l.fence.token.Load() == noFence {
			l.fence.take(l.bucketMade + revision)
		}
		l.revision = revision
		l.renewed.Store(&requested)
		return nil
	}
	if !wrongRevision(err) {
		// The bucket may be gone, so the next attempt makes it again. The server does not always report that:
		// if a client subscribes to every subject, a request to a bucket that is gone just has no answer.
		l.kv = nil
		l.revision = noRevision
		return err
	}
	return l.readEntry(ctx)
}

// makeBucket makes the bucket with a number of copies, or gives an existing one that number; fewer if the cluster
// has too few servers. It notes in bucketMade when the bucket was made. kv is nil if there is an error.
func (l *lease) makeBucket(ctx context.Context, copies int) (kv jetstream.KeyValue, err error) {
	err = withCopies(copies, func(copies int) error {
		config := l.bucketConfig
		config.Replicas = copies
		kv, err = l.js.CreateOrUpdateKeyValue(ctx, config)
		return err
	})
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, err
	}
	// The time is the base of fencing tokens: those of a new bucket are above all of the old one.
	if bucket, ok := status.(*jetstream.KeyValueBucketStatus); ok {
		l.bucketMade = fenceTime(bucket.StreamInfo().Created)
	}
	return kv, nil
}

// raiseCopies gives a bucket that was made again with fewer copies all of them, once raiseAfter has passed since it
// was last changed. If the cluster cannot do that yet, a call after another raiseAfter tries again; the bucket works
// as it is.
func (l *lease) raiseCopies(ctx context.Context) {
	if l.copies >= l.bucketConfig.Replicas || time.Since(l.bucketChanged) < raiseAfter {
		return
	}
	l.bucketChanged = time.Now()
	attempt, cancel := l.conn.Attempt(ctx, renewalAttempt)
	defer cancel()
	if _, err := l.makeBucket(attempt, l.bucketConfig.Replicas); err == nil {
		l.copies = l.bucketConfig.Replicas
	}
}

// readEntry finds out why the server refused a renewal. It notes the entry's revision, by which the next
// attempt may succeed, and returns errNotHeld; or a *heldError if the entry is another coordinator's.
func (l *lease) readEntry(ctx context.Context) error {
	entry, err := l.kv.Get(ctx, leaseKey)
	// The lease has ended, so the next attempt makes the entry.
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		l.revision = noRevision
		return errNotHeld
	}
	if err != nil {
		return err
	}
	if held := l.heldBy(entry); held != nil {
		return held
	}
	// An earlier renewal succeeded whose answer was lost.
	l.revision = entry.Revision()
	return errNotHeld
}

// heldBy returns the error that another coordinator has the lease, or nil if the entry is this
// coordinator's.
func (l *lease) heldBy(entry jetstream.KeyValueEntry) *heldError {
	if string(entry.Value()) == l.entryValue {
		return nil
	}
	_, holder, _ := strings.Cut(string(entry.Value()), " ")
	return &heldError{holder: bus.ValidText(holder), revision: entry.Revision()}
}

// askHolder asks the server who has the lease. It returns a *heldError if that is another coordinator, nil if the
// lease is this coordinator's, and any other error if that is not known. Unlike renew it changes nothing, so it may
// be called beside renewals.
func (l *lease) askHolder(ctx context.Context) error {
	kv, err := l.js.KeyValue(ctx, l.bucketConfig.Bucket)
	if err != nil {
		return err
	}
	entry, err := kv.Get(ctx, leaseKey)
	if err != nil {
		return err
	}
	if held := l.heldBy(entry); held != nil {
		return held
	}
	return nil
}

// takenOver returns the error of a coordinator that has lost its run to the holder of the lease.
func (l *lease) takenOver(held *heldError) error {
	return fmt.Errorf(
		"bus: run %s: another coordinator has taken the run over (%s), this one stops",
		l.run,
		held.holder,
	)
}

// leaseKey is the only key of the lease's bucket.
const leaseKey = "coordinator"

// wrongRevision reports whether the server refused a change because it named another revision than
// the entry's: the entry was changed before, by a rival or by an own request whose answer was lost.
func wrongRevision(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	return api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}

// checkHeld returns nil if the lease is held now, as far as this process knows, or else an error that wraps
// errNotHeld and the reason why the last renewal failed. The time since that renewal must be short by two clocks: the
// monotonic one stands still while the machine sleeps, and the wall clock may be set.
func (l *lease) checkHeld() error {
	renewed := l.renewed.Load()
	if renewed == nil {
		return l.notHeld()
	}
	// Round(0) drops the monotonic reading, so that the wall clocks are compared.
	now := time.Now()
	byMonotonicClock := now.Sub(*renewed)
	byWallClock := now.Round(0).Sub(renewed.Round(0))
	if byMonotonicClock >= l.bucketConfig.TTL || byWallClock >= l.bucketConfig.TTL {
		return l.notHeld()
	}
	return nil
}

// notHeld returns errNotHeld, with the reason why the lease could not be renewed if one is known: the
// user has to learn, for example, that the server has no memory left.
func (l *lease) notHeld() error {
	failure := l.lastFailure.Load()
	if failure == nil || errors.Is(*failure, errNotHeld) {
		return errNotHeld
	}
	return fmt.Errorf("%w: %w", errNotHeld, *failure)
}

// renewUntil renews the lease until ctx ends. It calls onTaken with the error for the run, and returns, when another
// coordinator has the lease or the server refuses for good. It calls onLapsed, and continues, when another
// coordinator may have had the lease meanwhile, so that messages may be lost: the lease is held again after it had
// ended, or hosts have seen a higher fencing token than this coordinator's.
func (l *lease) renewUntil(ctx context.Context, onTaken, onLapsed func(error)) {
	for range bus.Ticks(ctx, l.bucketConfig.TTL/renewalsPerLease) {
		ended := false
		err := l.conn.Do(ctx, "renew the lease of run "+l.run, renewalAttempt, func(ctx context.Context) error {
			// Several attempts may be made; the lease may have ended before any of them.
			ended = ended || l.checkHeld() != nil
			return l.renew(ctx)
		})
		var held *heldError
		switch {
		case ctx.Err() != nil:
			return
		// From now on this coordinator may change nothing of the run.
		case errors.As(err, &held):
			l.renewed.Store(nil)
			onTaken(l.takenOver(held))
			return
		case err != nil:
			onTaken(err)
			return
		case ended:
			onLapsed(fmt.Errorf("bus: the lease of run %s had ended and is held again: %w", l.run, bus.ErrInterrupted))
		// The token was below one that hosts have reported, and is above it now.
		case l.fence.raiseAboveHeard():
			onLapsed(fmt.Errorf(
				"bus: run %s has had a coordinator with a higher token, which is gone: %w",
				l.run,
				bus.ErrInterrupted,
			))
		// In calm times the lease's bucket gets back the copies that it has lost with a server.
		default:
			l.raiseCopies(ctx)
		}
	}
}

// release ends the lease by deleting its bucket, so that another coordinator need not wait. A lease
// that is not held ends by itself, or is another coordinator's.
func (l *lease) release(ctx context.Context) error {
	if l.checkHeld() != nil {
		return nil
	}
	l.renewed.Store(nil)
	return l.conn.atClose(ctx, "give the lease of run "+l.run+" back", func(ctx context.Context) error {
		return l.js.DeleteKeyValue(ctx, l.bucketConfig.Bucket)
	})
}
