//go:build unix

package chaos

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// Three servers with three copies of everything: the run goes on without one of
// them, and with it again.
func TestCluster_LosesServer(t *testing.T) {
	slow.Test(t, "it runs three servers")
	t.Parallel()
	c := courses[0]
	want := c.undisturbed(t)
	inTime(t, func() bool { return c.losesServer(t, want) })
}

// losesServer plays the course on three servers of which one dies and comes back, and reports whether it was back
// before the run's end.
func (c *course) losesServer(t *testing.T, want result) bool {
	t.Helper()
	var routes []string
	var ports, clusterPorts [3]int
	for i := range 3 {
		ports[i], clusterPorts[i] = heldPort(t), heldPort(t)
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", clusterPorts[i]))
	}
	var servers [3]*natsServer
	var urls []string
	for i := range servers {
		servers[i] = newServer(t, serverOptions{Name: fmt.Sprint("s", i), Port: ports[i], ClusterPort: clusterPorts[i], Routes: routes})
		urls = append(urls, servers[i].url())
	}
	url := strings.Join(urls, ",")
	out := filepath.Join(t.TempDir(), "run")
	w := watch(t, servers[:]...)
	host(t, url)
	host(t, url)
	run := c.coordinate(t, url, out, "--set", "nats.replicas=3", "--set", "pace=3")
	run.until("is there with 1 trainer", patience)
	w.tasks(10, run)
	servers[1].kill()
	w.tasks(25, run) // three rounds with two of three servers
	servers[1].start()
	isBack := run.running()
	run.finish(patience)
	resultOf(t, out).equals(t, want, "a cluster that lost a server")
	return isBack
}
