package natsbus_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
)

func TestStart_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cycle := func() {
		s, err := embedded.Start(context.Background(), embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		conn, err := natsbus.Connect(context.Background(), natsconn.Config{Server: s}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		c, err := conn.OpenCoordinator(context.Background(), "r", bus.CoordinatorConfig{Kernel: "go", PublishModels: true})
		if err != nil {
			t.Fatal(err)
		}
		h, err := conn.OpenHost(context.Background(), "r", bus.HostConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := h.ServeTasks(context.Background(), answerAtOnce); err != nil {
			t.Fatal(err)
		}
		if err := c.SendTask(1, someTask(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TakePlans(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	often := time.NewTicker(10 * time.Millisecond)
	defer often.Stop()
	cycle() // what NATS keeps for the whole process
	before := runtime.NumGoroutine()
	for same := 0; same < 20; same++ { // until the first cycle is over in the background, too
		<-often.C
		if now := runtime.NumGoroutine(); now != before {
			before, same = now, 0
		}
	}
	for range 5 {
		cycle()
	}
	after := runtime.NumGoroutine()
	for end := time.Now().Add(patience); after > before && time.Now().Before(end); after = runtime.NumGoroutine() {
		<-often.C
	}
	if after > before {
		b := make([]byte, 1<<20)
		t.Errorf("%d goroutines, before %d:\n%s", after, before, b[:runtime.Stack(b, true)])
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "fedpace") {
			t.Errorf("%s stays behind", e.Name())
		}
	}
}

func TestStart_TwoServers(t *testing.T) {
	t.Parallel()
	a, b := newPlace(t, false), newPlace(t, false)
	ca, cb := a.Coordinator(t, "r"), b.Coordinator(t, "r") // one name, two servers
	ha := a.Host(t, "r")
	if err := ha.ServeTasks(t.Context(), answerAtOnce); err != nil {
		t.Fatal(err)
	}
	for _, c := range []bus.Coordinator{ca, cb} {
		if err := c.SendTask(1, someTask(1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ca.TakePlans(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if plans, err := cb.TakePlans(ctx, nil); err == nil {
		t.Errorf("a host of another server answered: %v", plans)
	}
}
