package natsbus_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/testport"
)

// A server that is started again with a max_payload that is too low for a run ends the run with what to do, also while
// the run publishes a model.
func TestCoordinator_PayloadLoweredByRestart(t *testing.T) {
	t.Parallel()
	address := netip.MustParseAddrPort(testport.Held(t))
	store := t.TempDir()
	start := func(maxPayload int32) *server.Server {
		t.Helper()
		s, err := server.NewServer(&server.Options{
			Host:       address.Addr().String(),
			Port:       int(address.Port()),
			MaxPayload: maxPayload,
			JetStream:  true,
			StoreDir:   store,
			NoSigs:     true,
			NoLog:      true,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(patience) {
			t.Fatal("the server does not get ready")
		}
		return s
	}
	s := start(1 << 20)
	conn, err := natsbus.Connect(t.Context(), natsconn.Config{URL: s.ClientURL()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	s.Shutdown()
	s.WaitForShutdown()
	start(1000)
	_, err = c.TakeSum(t.Context())
	for err != nil && strings.Contains(err.Error(), bus.ErrInterrupted.Error()) {
		_, err = c.TakeSum(t.Context())
	}
	if want := "takes messages of 1000 bytes, a run needs 16384: raise its max_payload"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the run ends with %v, want %q", err, want)
	}
	large := make([]float32, 1<<16)
	if err := c.PutModel(t.Context(), bus.DigestOf(large), large); err == nil {
		t.Error("a model is taken")
	}
}
