package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus/natsbus"
	"fedpace/internal/names"
)

// Connect is [natsbus.Connect] for a device, which may be there before its server: it
// tries until ctx ends or the server does not want it.
func Connect(ctx context.Context, c natsbus.ConnConfig) (*natsbus.Conn, error) {
	for attempt := 1; ; attempt++ {
		conn, err := natsbus.Connect(ctx, c)
		var network net.Error // of a name that cannot be looked up yet, say
		if err == nil || !errors.Is(err, nats.ErrNoServers) && !errors.Is(err, nats.ErrTimeout) && !errors.As(err, &network) {
			return conn, err
		}
		if attempt == 1 && c.Notice != nil {
			c.Notice(fmt.Sprintf("No server answers at %s; trying again.", names.Redacted(c.URL)))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(natsbus.Pause(attempt)):
		}
	}
}
