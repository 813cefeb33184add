package natsbus_test

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"fedpace/bus"
	"fedpace/bus/natsbus"
	"fedpace/bus/natsconn"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// newCluster starts servers with these names that form a cluster.
func newCluster(t *testing.T, names ...string) map[string]*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range names {
		address := testport.Held(t)
		routes = append(routes, &url.URL{Scheme: "nats", Host: address})
		ports = append(ports, int(netip.MustParseAddrPort(address).Port()))
	}
	servers := map[string]*server.Server{}
	for i, name := range names {
		s, err := server.NewServer(&server.Options{
			ServerName: name,
			Host:       "127.0.0.1",
			Port:       server.RANDOM_PORT,
			Cluster:    server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
			Routes:     routes,
			JetStream:  true,
			StoreDir:   t.TempDir(),
			NoSigs:     true,
			NoLog:      true,
		})
		if err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers[name] = s
	}
	return servers
}

// connectTo connects to all servers of a cluster.
func connectTo(t *testing.T, servers map[string]*server.Server) *natsbus.Conn {
	t.Helper()
	var urls []string
	for _, s := range servers {
		if !s.ReadyForConnections(patience) {
			t.Fatal("a server of the cluster is not ready")
		}
		urls = append(urls, s.ClientURL())
	}
	slices.Sort(urls)
	c, err := natsbus.Connect(t.Context(), natsconn.Config{URL: strings.Join(urls, ",")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestOpenCoordinator_CopiesFitServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		servers []string
		want    int
	}{
		"three servers": {[]string{"a", "b", "c"}, 3},
		"two servers":   {[]string{"a", "b"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connectTo(t, newCluster(t, test.servers...))
			c, err := conn.OpenCoordinator(t.Context(), "r", bus.CoordinatorConfig{Kernel: "go"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			if n, err := natsbus.Copies(t.Context(), c); err != nil || n != test.want {
				t.Errorf("%d copies (%v), want %d", n, err, test.want)
			}
		})
	}
	t.Run("no cluster", func(t *testing.T) {
		t.Parallel()
		c := newPlace(t, true).Coordinator(t, "r")
		if n, err := natsbus.Copies(t.Context(), c); err != nil || n != 1 {
			t.Errorf("%d copies (%v), want 1", n, err)
		}
	})
}

// With two copies on three servers, the loss of one server leaves streams without a majority of their
// copies, while the cluster has one.
func TestStreams_WithoutLeaderAreMadeAgain(t *testing.T) {
	slow.Test(t, "servers of a cluster take long to agree that one is gone")
	defer natsbus.ShortenElections(time.Second)()
	servers := newCluster(t, "a", "b", "c")
	conn := connectTo(t, servers)
	config := bus.CoordinatorConfig{Kernel: "go", Replicas: 2, PublishModels: true}
	c, err := conn.OpenCoordinator(t.Context(), "r", config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	digest := bus.DigestOf(model)
	if err := c.PutModel(t.Context(), digest, model); err != nil {
		t.Fatal(err)
	}
	job := someJob(1, digest, len(model))
	if err := c.SendJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	peers, err := natsbus.JobsPeers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	servers[peers[0]].Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for {
		_, err := c.TakeSum(ctx)
		if !errors.Is(err, bus.ErrInterrupted) {
			t.Fatalf("got %v, want ErrInterrupted once the streams are there again", err)
		}
		if err := c.SendJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		left, err := natsbus.JobsPeers(t.Context(), c)
		if err == nil && !slices.Contains(left, peers[0]) {
			break
		}
	}
	h, err := conn.OpenHost(t.Context(), "r", bus.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	x, err := h.NextJob(t.Context(), "go")
	if err != nil {
		t.Fatal(err)
	}
	if x.Job().Job != 1 {
		t.Errorf("job %d, want 1", x.Job().Job)
	}
	if _, err := h.Model(t.Context(), digest); err != nil {
		t.Error(err)
	}
}
