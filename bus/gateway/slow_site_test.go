package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
	"fedpace/internal/testkit/testserver"
	"fedpace/internal/testkit/throttle"
)

// slowSite is a run's gateway and the device pi behind a site's server, whose link to the run's server is slow. The
// site's server takes what the device sends at once, and answers its pings.
type slowSite struct {
	*testing.T
	hub, site string
	gateway   *gateway.Gateway
	device    *gateway.Device
}

// openSlowSite has pi join a run whose updates have this many parameters. download and upload are in Mbit/s.
func openSlowSite(t *testing.T, params int, download, upload float64) *slowSite {
	t.Helper()
	dir := t.TempDir()
	serve := func(name, text string) string {
		listen := testport.Held(t)
		file := filepath.Join(dir, name+".conf")
		text = fmt.Sprintf("listen: %q\nserver_name: %s\n%s", listen, name, text)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		testserver.Start(t, file)
		return "nats://" + listen
	}
	leafs := testport.Held(t)
	s := &slowSite{T: t}
	s.hub = serve("hub", fmt.Sprintf("leafnodes { listen: %q, compression: off }", leafs))
	proxy, err := throttle.Start(throttle.Config{Server: leafs, Download: download, Upload: upload})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s.site = serve("site", fmt.Sprintf("leafnodes { remotes: [ { url: \"nats://%s\", compression: off } ] }", proxy.Address()))
	s.gateway, err = gateway.Open(t.Context(), connectPatiently(s, s.hub), "r", gateway.Config{
		Devices: []string{"pi"},
		Welcome: &bus.Welcome{
			Clients:          1,
			Params:           uint32(params),
			HeartbeatSeconds: 2,
			Spec:             &bus.Spec{Model: "linear:2,2", Batch: 1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.gateway.Close() })
	s.device, err = gateway.OpenDevice(t.Context(), connectPatiently(s, s.site), gateway.DeviceConfig{
		ID:   "pi",
		Run:  "r",
		Join: &bus.Join{Name: "pi"},
		// No coordinator sends an unanswered task again.
		Patience: 10 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.device.Close() })
	return s
}

// connectPatiently connects as a device or a coordinator does that waits for its server for ever.
func connectPatiently(t testing.TB, url string) *natsconn.Conn {
	t.Helper()
	conn, err := natsconn.Connect(t.Context(), natsconn.Config{
		URL:      url,
		Patience: -1,
		Slow:     true,
		Notice:   func(n bus.Notice) { t.Log(n.Text) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// until takes events until one of this kind comes. A device that leaves fails the test.
func (s *slowSite) until(kind gateway.EventKind) {
	s.Helper()
	for {
		events, err := s.gateway.TakeEvents(s.Context(), nil)
		if err != nil {
			s.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == gateway.Departed {
				s.Fatalf("the device leaves: %s", e.Text)
			}
			if e.Kind == kind {
				return
			}
		}
	}
}

// A chunk of an update that is under way from a site for longer than answers usually take is neither lost nor is the
// device deaf: it stays in the run.
func TestSite_SlowUpload(t *testing.T) {
	slow.Test(t, "chunks take up to twenty seconds")
	const chunkMbit = bus.ChunkBytes * 8 / 1e6
	for _, seconds := range []float64{7, 10, 20} {
		for _, chunks := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d chunks of %v s", chunks, seconds), func(t *testing.T) {
				t.Parallel()
				params := chunks * bus.ChunkBytes / 4
				s := openSlowSite(t, params, 0, chunkMbit/seconds)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					for {
						task, err := s.device.Next(ctx)
						if err != nil {
							return
						}
						_ = s.device.Send(task.Context, task.Run, update(task, params))
					}
				}()
				s.until(gateway.Joined)
				for number := uint64(1); number <= 2; number++ {
					started := time.Now()
					if err := s.gateway.SendTask(0, deviceTask(number)); err != nil {
						t.Fatal(err)
					}
					s.until(gateway.Updated)
					t.Logf("update %d took %.1f s", number, time.Since(started).Seconds())
				}
			})
		}
	}
}

// An idle device whose link to the run is full with what others at the site get stays in the run, if a task of its own
// has shown before how slow the link is.
func TestSite_SlowDownload(t *testing.T) {
	slow.Test(t, "the link is full for a minute")
	const seconds = 10
	s := openSlowSite(t, bus.ChunkBytes/4, bus.ChunkBytes*8/1e6/seconds, 0)
	go func() {
		for {
			task, err := s.device.Next(t.Context())
			if err != nil {
				return
			}
			u := update(task, bus.ChunkBytes/4)
			u.DownloadNs = (seconds * time.Second).Nanoseconds()
			_ = s.device.Send(task.Context, task.Run, u)
		}
	}()
	s.until(gateway.Joined)
	if err := s.gateway.SendTask(0, deviceTask(1)); err != nil {
		t.Fatal(err)
	}
	s.until(gateway.Updated)
	s.gateway.DropTask(0)
	other, err := connectPatiently(s, s.site).NATS().SubscribeSync("other.model")
	if err != nil {
		t.Fatal(err)
	}
	hub := connectPatiently(s, s.hub).NATS()
	for range 5 {
		// The chunk is asked for when the one before is here, as devices do.
		for {
			if err := hub.Publish("other.model", make([]byte, bus.ChunkBytes)); err != nil {
				t.Fatal(err)
			}
			_, err := other.NextMsg(3 * seconds * time.Second)
			if err == nil {
				break
			}
			if !errors.Is(err, nats.ErrTimeout) {
				t.Fatal(err)
			}
		}
	}
	for _, seen := range s.gateway.Stats().Each {
		if seen.State != "present" {
			t.Errorf("device %s is %s", seen.Name, seen.State)
		}
	}
	if err := s.gateway.SendTask(0, deviceTask(2)); err != nil {
		t.Fatal(err)
	}
	s.until(gateway.Updated)
}
