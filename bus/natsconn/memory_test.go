package natsconn

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A lack of JetStream's memory ends a run within a minute, other failures after the two that a server may stay away.
func TestRetry_MemoryIsFull(t *testing.T) {
	full := &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}
	for name, c := range map[string]struct {
		fails func(attempt int) error
		least time.Duration
		most  time.Duration
		want  string
	}{
		"full": {func(int) error { return full }, memoryPatience, memoryPatience + 2*lastPause, "give JetStream more memory"},
		"now and then": {
			func(attempt int) error {
				if attempt%9 == 0 {
					return context.DeadlineExceeded
				}
				return full
			}, reconnectFor, reconnectFor, "(tried for 2m0s)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &Conn{}
				conn.life, conn.end = context.WithCancelCause(t.Context())
				conn.session, conn.endSession = context.WithCancel(t.Context())
				began := time.Now()
				attempt := 0
				err := conn.Retry(t.Context(), Retry{Timeout: reconnectFor}, func(context.Context) error {
					attempt++
					return c.fails(attempt)
				})
				took := time.Since(began)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if took < c.least || took > c.most {
					t.Errorf("it ends after %v, want %v to %v", took, c.least, c.most)
				}
			})
		})
	}
}
