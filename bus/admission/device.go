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

// device is a device that has shown its credentials. All its connections share its quota.
type device struct {
	quota *quota.Device
	// messages limits the messages of the device in a second, and bytes their size.
	messages *rate.Limiter
	bytes    *rate.Limiter
	// room receives a value when another request of the device may be taken.
	room chan struct{}
	// sent counts the bytes that were sent to the device.
	sent atomic.Int64

	mu sync.Mutex
	// open are the device's connections.
	open map[*connlimit.Conn]bool
	// expelled says that the device is excluded: its connections are refused.
	expelled bool
	// unanswered are the reply subjects of requests without an answer, the oldest first.
	unanswered []string
	// requests is how many requests the device has made.
	requests int
	// replies is a ring of the reply subjects of the last requests.
	replies [32]string
}

// newDevice makes the record of a device without connections. Its limits are those of quota q, and
// its rates begin with a full burst.
func newDevice(q *quota.Device) *device {
	return &device{
		quota:    q,
		messages: rate.NewLimiter(rate.Limit(q.Messages), messageBurst),
		bytes:    rate.NewLimiter(byteRate, byteBurst),
		room:     make(chan struct{}, 1),
		open:     map[*connlimit.Conn]bool{},
	}
}

// enter admits a connection of the device and counts it. ok is false, and reason says why, if the
// connection is refused: the device is expelled or has too many connections. A connection that was
// admitted must leave at its end.
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

// awaitRates waits until the device's rates allow one more line to the server, and the message m that follows it. A
// message that wants an answer also waits for its turn among the requests.
func (d *device) awaitRates(ctx context.Context, m message) error {
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
	// A request that replaces the oldest one is taken in any case, so the next attempt is the last.
	for replacesOldest := false; ; {
		if ok, err := d.takeRequest(reply, replacesOldest); ok || err != nil {
			return err
		}
		select {
		case <-d.room:
		case <-late.C:
			replacesOldest = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errRepeated refuses a request with the reply subject of one of the last requests. The server sends a copy
// of each answer to every subscription of the device, and a late copy of the first answer would count as the
// answer to the second request.
var errRepeated = errors.New("admission: two requests with one reply subject")

// takeRequest counts a request as under way, which is answered on the subject reply. If maxUnanswered requests
// are under way already, it returns false or, with replacesOldest, counts the oldest of them as answered. A
// reply subject of one of the last requests is an error, errRepeated.
func (d *device) takeRequest(reply string, replacesOldest bool) (ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	isFull := len(d.unanswered) >= maxUnanswered
	switch {
	case slices.Contains(d.replies[:], reply):
		return false, errRepeated
	case isFull && !replacesOldest:
		return false, nil
	case isFull:
		d.unanswered = d.unanswered[1:]
	}
	d.unanswered = append(d.unanswered, reply)
	d.replies[d.requests%len(d.replies)] = reply
	d.requests++
	d.wakeRequest()
	return true, nil
}

// answered notes that the server has sent the device a message on a subject. If a request waits for an
// answer there, it is answered; further copies change nothing.
func (d *device) answered(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.unanswered, subject); i >= 0 {
		d.unanswered = slices.Delete(d.unanswered, i, i+1)
		d.wakeRequest()
	}
}

// wakeRequest lets a waiting request continue if there is room for it. It never blocks. The caller holds the lock.
func (d *device) wakeRequest() {
	if len(d.unanswered) < maxUnanswered {
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
