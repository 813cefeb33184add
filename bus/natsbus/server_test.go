package natsbus_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
)

func TestTheEmbeddedServerOpensNoPortUnlessAsked(t *testing.T) {
	before := listeners(t)
	silent, err := embedded.Start(t.Context(), embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if url := silent.URL(); url != "" {
		t.Errorf("it listens on %s", url)
	}
	if after := listeners(t); after > before {
		t.Errorf("this process listens on %d sockets, before on %d", after, before)
	}
	open, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(open.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// listeners counts this process's listening sockets (Linux).
func listeners(t *testing.T) int {
	t.Helper()
	n := 0
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Skipf("no %s to see the sockets in", table)
		}
		for _, line := range strings.Split(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil && inodes[target] {
			n++
		}
	}
	return n
}

func TestServersStartAndStopWithoutATrace(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cycle := func() {
		s, err := embedded.Start(context.Background(), embedded.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		conn, err := natsbus.Connect(context.Background(), natsbus.ConnConfig{Server: s})
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

func TestServersInOneProcessAreApart(t *testing.T) {
	a, b := newPlace(t, false), newPlace(t, false)
	ca, cb := a.coordinator(t, "r"), b.coordinator(t, "r") // one name, two servers
	ha := a.host(t, "r")
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

func TestAServerThatCannotListenSaysWhy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for listen, want := range map[string]string{
		l.Addr().String():  "address already in use",
		"127.0.0.1":        "want host:port",
		"127.0.0.1:banana": `port "banana" is not 0 to 65535`,
		"127.0.0.1:70000":  `port "70000" is not 0 to 65535`,
	} {
		s, err := embedded.Start(t.Context(), embedded.Config{Listen: listen, Open: true})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), listen) {
			t.Errorf("%s: got %v, want %q", listen, err, want)
		}
	}
}

func TestConnectingNowhereSaysWhere(t *testing.T) {
	for want, c := range map[string]natsbus.ConnConfig{
		"neither a server in this process nor a URL": {},
		"nats://127.0.0.1:1":                         {URL: "nats://127.0.0.1:1"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if conn, err := natsbus.Connect(ctx, c); err == nil {
			conn.Close()
			t.Errorf("%+v connects", c)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		cancel()
	}
}

// A server that is not there is waited for as long as a lost connection, and what is
// waited for is said at once.
func TestAServerThatStaysAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	said := make(lines, 10)
	config := natsbus.ConnConfig{URL: "nats://a:secret@127.0.0.1:1", Await: true, Patience: 300 * time.Millisecond, Notice: said.add}
	conn, err := natsbus.Connect(t.Context(), config)
	if err == nil {
		conn.Close()
	}
	if want := "bus: connect to nats://127.0.0.1:1: no server answers there"; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want %q", err, want)
	}
	said.until(t, "No server answers at nats://127.0.0.1:1; trying again for at most 300ms.")
}
