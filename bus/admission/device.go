package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"fedpace/bus/quota"
	"fedpace/internal/connlimit"
)

// device is one with credentials. Its connections share its quota.
type device struct {
	quota    *quota.Device
	messages *rate.Limiter
	bytes    *rate.Limiter
	room     chan struct{} // has a token when a request may be taken
	sent     atomic.Int64  // to it

	mu         sync.Mutex
	open       map[*connlimit.Conn]bool
	expelled   bool
	unanswered []string   // reply subjects of requests without an answer, the oldest first
	requests   int        // so far
	replies    [32]string // the last ones
}

func newDevice(q *quota.Device) *device {
	return &device{
		quota:    q,
		messages: rate.NewLimiter(rate.Limit(q.Messages), messageBurst),
		bytes:    rate.NewLimiter(byteRate, byteBurst),
		room:     make(chan struct{}, 1),
		open:     map[*connlimit.Conn]bool{},
	}
}

// enter takes a connection of the device if it may have one more. A reason is returned
// if it may not.
func (d *device) enter(c *connlimit.Conn) (reason Reason, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.expelled:
		return Expelled, false
	case len(d.open) >= d.quota.Connections:
		return TooMany, false
	}
	d.open[c] = true
	return 0, true
}

// spend waits until the server may have one more line of the device, with a message
// perhaps.
func (d *device) spend(ctx context.Context, m message) error {
	if err := d.messages.Wait(ctx); err != nil {
		return err
	}
	if err := d.bytes.WaitN(ctx, min(m.size, byteBurst)); err != nil || m.reply == "" {
		return err
	}
	return d.awaitRequest(ctx, m.reply)
}

// awaitRequest waits until the server may have one more request of the device, whose answers go to
// reply. The oldest is waited for no more when another has waited long: some have no
// answer.
func (d *device) awaitRequest(ctx context.Context, reply string) error {
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for patient := true; ; {
		if ok, err := d.takeRequest(reply, patient); ok || err != nil {
			return err
		}
		select {
		case <-d.room:
		case <-late.C:
			patient = false
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errRepeated refuses requests whose answers could not be told apart: each subscription
// of each connection of a device gets one.
var errRepeated = errors.New("admission: two requests with one reply subject")

// takeRequest says whether a request is taken.
func (d *device) takeRequest(reply string, patient bool) (ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case slices.Contains(d.replies[:], reply):
		return false, errRepeated
	case len(d.unanswered) < requests:
	case patient:
		return false, nil
	default:
		d.unanswered = d.unanswered[1:]
	}
	d.unanswered = append(d.unanswered, reply)
	d.replies[d.requests%len(d.replies)] = reply
	d.requests++
	d.wake()
	return true, nil
}

// answered says that the server has sent the device a message. Only the first copy of an
// answer counts.
func (d *device) answered(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.unanswered, subject); i >= 0 {
		d.unanswered = slices.Delete(d.unanswered, i, i+1)
		d.wake()
	}
}

// wake lets a request go on that waits, if there is room for it. With the lock held.
func (d *device) wake() {
	if len(d.unanswered) < requests {
		select {
		case d.room <- struct{}{}:
		default:
		}
	}
}

func (d *device) leave(c *connlimit.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}
