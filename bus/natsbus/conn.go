package natsbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/internal/subject"
	"fedpace/bus/natsconn"
	"fedpace/internal/names"
)

// Conn is a connection with the ends of runs on it: a [bus.Transport]. Its methods may be called
// concurrently. A coordinator and a host may share one connection; two are faster.
type Conn struct {
	*natsconn.Conn
	store *Store
}

// Connect connects as [natsconn.Connect] does. Connections of one process to one server may share a
// store, through which the two ends of a run hand over models and sums without copies. With a nil
// store the connection has its own, so everything is copied.
func Connect(ctx context.Context, c natsconn.Config, store *Store) (*Conn, error) {
	conn, err := natsconn.Connect(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, cmp.Or(store, NewStore())}, nil
}

// WatchRuns calls fn with every run that a coordinator announces, about once a second for each,
// until stop is called. The calls are made one after the other, on a goroutine of the connection.
// Messages that no coordinator sends are ignored.
func (c *Conn) WatchRuns(ctx context.Context, fn func(*bus.Announcement)) (stop func(), err error) {
	sub, err := c.Listen(subject.Announce, "", func(m *nats.Msg) {
		// A device may name this subject as the one for the answer to a request of its own, and so have the server
		// send a message here.
		if natsconn.IsMisdirected(m) {
			return
		}
		a := new(bus.Announcement)
		// No coordinator sends such a message.
		if err := bus.Unmarshal(m.Data, a); err != nil {
			return
		}
		fn(a)
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, c.Settled(ctx)
}

// ErrNoRun is wrapped by AskRun's error when no coordinator of that name answers.
var ErrNoRun = errors.New("no coordinator of this run answers")

// AskRun asks a run's coordinator for the run's configuration and returns it. The request is repeated a
// few times if the answer arrives damaged. The error wraps [ErrNoRun] if no coordinator answers.
func (c *Conn) AskRun(ctx context.Context, run string) (info *bus.RunInfo, err error) {
	if err := names.CheckToken("run", run); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, natsconn.RequestTimeout)
	defer cancel()
	// Only a damaged answer is requested again.
	for range natsconn.MaxDamaged {
		info, err = c.askRun(ctx, run)
		if !errors.Is(err, bus.ErrDamaged) {
			break
		}
	}
	return info, err
}

// askRun asks a run's coordinator once for the run's configuration. The stamp of the answer is checked
// only if the coordinator has this program's protocol, since the stamp of another protocol may cover
// fields that this program does not know.
func (c *Conn) askRun(ctx context.Context, run string) (*bus.RunInfo, error) {
	m, err := c.NATS().RequestWithContext(ctx, subject.Info(run), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("bus: run %s: %w", run, ErrNoRun)
	}
	if err != nil {
		return nil, fmt.Errorf("bus: run %s: ask for its configuration: %w", run, err)
	}
	info := new(bus.RunInfo)
	err = bus.Unmarshal(m.Data, info)
	// An answer about another run is not taken for this one's.
	if err == nil && info.Run != run {
		err = fmt.Errorf("bus: asked about run %s, the answer is about %s", run, info.Run)
	}
	if err == nil && info.Protocol == bus.HostProtocol {
		err = info.CheckStamp()
	}
	if err != nil {
		return nil, fmt.Errorf("bus: run %s: its configuration: %w", run, err)
	}
	return info, nil
}

// publishEvery publishes message(false) at once and then at every interval, and message(true) when
// ctx ends, which is also when it returns. A nil message is not published.
func (c *Conn) publishEvery(
	ctx context.Context,
	every time.Duration,
	subject string,
	message func(last bool) bus.Message,
) {
	c.publish(subject, message(false))
	for range bus.Ticks(ctx, every) {
		c.publish(subject, message(false))
	}
	c.publish(subject, message(true))
}

// publish sends a message that has no answer, unless it is nil. Failures are left to the handlers of
// the connection.
func (c *Conn) publish(subject string, m bus.Message) {
	if m == nil {
		return
	}
	if b, err := bus.Marshal(nil, m); err == nil {
		_ = c.Publish(subject, b)
	}
}
