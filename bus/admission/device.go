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

// device is a device with credentials. All its connections share its quota.
type device struct {
	quota    *quota.Device
	messages *rate.Limiter
	bytes    *rate.Limiter
	room     chan struct{} // receives when another request may be taken
	sent     atomic.Int64  // bytes sent to the device

	mu         sync.Mutex
	open       map[*connlimit.Conn]bool
	expelled   bool
	unanswered []string   // reply subjects of requests without an answer, the oldest first
	requests   int        // how many it has made
	replies    [32]string // the reply subjects of the last ones
}

// newDevice makes a device without connections.
func newDevice(q *quota.Device) *device {
	return &device{
		quota:    q,
		messages: rate.NewLimiter(rate.Limit(q.Messages), messageBurst),
		bytes:    rate.NewLimiter(byteRate, byteBurst),
		room:     make(chan struct{}, 1),
		open:     map[*connlimit.Conn]bool{},
	}
}

// enter admits a connection of the device, or returns the reason why not.
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

// spend waits until the device's rates allow one more line to the server, and the message m with it.
func (d *device) spend(ctx context.Context, m message) error {
	if err := d.messages.Wait(ctx); err != nil {
		return err
	}
	if err := d.bytes.WaitN(ctx, min(m.size, byteBurst)); err != nil || m.reply == "" {
		return err
	}
	return d.awaitRequest(ctx, m.reply)
}

// awaitRequest waits until the server may get one more request of the device, whose answer goes to the
// subject reply. Some requests are never answered: after answerTime the oldest counts as answered.
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

// errRepeated refuses a second request with one reply subject. Every subscription of every connection of
// the device would get a copy of its answer, so that answers could not be told from requests.
var errRepeated = errors.New("admission: two requests with one reply subject")

// takeRequest takes a request if there is room for it. With patient false, the oldest request makes room.
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

// answered notes that the server has sent the device a message on a subject. If a request waits for an
// answer there, it is answered; further copies change nothing.
func (d *device) answered(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.unanswered, subject); i >= 0 {
		d.unanswered = slices.Delete(d.unanswered, i, i+1)
		d.wake()
	}
}

// wake lets a waiting request continue, if there is room for it. The caller holds the lock.
func (d *device) wake() {
	if len(d.unanswered) < requests {
		select {
		case d.room <- struct{}{}:
		default:
		}
	}
}

// leave notes that a connection of the device has ended.
func (d *device) leave(c *connlimit.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}
