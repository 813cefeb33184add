package natsbus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"fedpace/bus/internal/subject"
)

// A server whose clock is set back keeps the lease of a dead coordinator as long as the
// clock needs to catch up. Here it keeps it for an hour: the next coordinator goes on
// when the lease has ended by its own clock.
func TestLease_ServerClockStands(t *testing.T) {
	opened, js := orphaned(t, 2*time.Second)
	if _, err := js.UpdateKeyValue(t.Context(), jetstream.KeyValueConfig{
		Bucket: subject.LeaseBucket("r"), TTL: time.Hour, Storage: jetstream.MemoryStorage, Replicas: 1,
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-opened:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it waits for the server")
	}
}
