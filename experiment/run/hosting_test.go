package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedpace/bus"
	"fedpace/bus/embedded"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
)

// A host serves the runs of other versions with its protocol, and says so. It refuses
// those of another protocol in a line with both versions.
func TestHosts_OtherVersions(t *testing.T) {
	t.Parallel()
	own, later := fmt.Sprint(bus.HostProtocol), fmt.Sprint(bus.HostProtocol+1)
	for _, x := range []struct {
		name     string
		version  string // of the coordinator
		protocol uint32
		refused  bool
		want     string
	}{
		{"same", "v2", bus.HostProtocol, false, "Run r: here, answering tasks; it does not train."},
		{"fits", "v3", bus.HostProtocol, false, "Run r is coordinated by version v3. This host is version v2, which fits: both speak protocol " + own + "."},
		{"later", "v9", bus.HostProtocol + 1, true, "Run r is not served: it is coordinated by version v9 (protocol " + later + ") and this host is version v2 (protocol " + own + "), whose plans and sums may differ: update this host"},
		{"earlier", "v1", 0, true, "Run r is not served: it is coordinated by version v1 (protocol 0) and this host is version v2 (protocol " + own + "), whose plans and sums may differ: update the coordinator"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			server, err := embedded.Start(ctx, embedded.Config{Listen: "127.0.0.1:0", Open: true})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			conn, err := natsbus.Connect(ctx, natsconn.Config{URL: server.URL()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			p, err := prepare(training(t, "train=false"), false)
			if err != nil {
				t.Fatal(err)
			}
			info, err := p.Info(x.version)
			if err != nil {
				t.Fatal(err)
			}
			info.Protocol = x.protocol
			c, err := conn.OpenCoordinator(ctx, "r", bus.CoordinatorConfig{Info: info})
			if err != nil {
				t.Fatal(err)
			}
			said := make(chan string, 100)
			ended := make(chan error, 1)
			go func() {
				ended <- Host(ctx, HostOptions{
					Version: "v2", NATS: natsconn.Config{URL: server.URL()}, Run: "r", Workers: 1, Name: "h", Once: true,
					Notice: func(line string) { said <- line },
				})
			}()
			var lines []string
			has := func() bool {
				return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, x.want) })
			}
			for !has() {
				select {
				case line := <-said:
					lines = append(lines, line)
				case err := <-ended:
					for ended <- err; len(said) > 0; {
						lines = append(lines, <-said)
					}
					if !has() {
						t.Fatalf("the host ends with %v and has said %q, want %q", err, lines, x.want)
					}
				}
			}
			// The run ends while the host joins it, or a moment later.
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
			if err := <-ended; (err != nil) != x.refused {
				t.Errorf("the host ends with %v", err)
			}
		})
	}
}

// A run whose name another has on the server is refused, and its hosts have answered none of the
// other's tasks, whose seed is not theirs.
func TestHosts_RefusedRun(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	sets := []string{"name=r", "train=false", "stop.rounds=2000", "compute.std=0.01"}
	alone, shared := runtest.Small(t, sets...), runtest.Small(t, append(sets, "nats.url="+server.URL(), "pace=20")...)
	mustRun(t, alone, Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	refused := make(chan error, 1)
	var once sync.Once
	_, err = Run(ctx, shared, Options{Callbacks: Callbacks{Progress: func(p Progress) {
		if p.Round > 0 {
			once.Do(func() {
				go func() {
					defer stop()
					_, err := Run(t.Context(), runtest.Small(t, append(sets, "nats.url="+server.URL(), "seed=2")...), Options{})
					refused <- err
				}()
			})
		}
	}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "run r has a coordinator on this server already") {
		t.Errorf("the second ended with %v", err)
	}
	want, err := os.ReadFile(filepath.Join(alone.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(shared.Out, folder.RoundsFile)); err != nil || !bytes.HasPrefix(want, got) {
		t.Errorf("%v: the first run's rounds are others than those that it has alone:\n%s", err, got)
	}
}
