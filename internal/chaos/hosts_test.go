//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// patience bounds every run here: they take seconds, on a machine that is busy
// with others perhaps.
const patience = 3 * time.Minute

// course is a kind of run, with the result of one that nobody disturbs. Runs are
// paced, so that they take seconds without taking the machine.
type course struct {
	name string
	args []string
	pace int

	once sync.Once
	want result
}

// small is what the courses share: a model whose sums travel in two chunks, and
// the times of FEMNIST's.
var small = []string{
	"--set", "task=custom", "--set", "compute.seconds_per_step=0.017", "--set", "network.download_mbps=20", "--set", "network.upload_mbps=5",
	"--set", "model={mlp: [2, 256, 256, 2]}", "--set", "network.model_megabits=6.71", "--set", "batch=4", "--set", "schedule.eta0=0.001",
	"--set", "clients=30", "--set", "cohort=8", "--set", "schedule.k0=2", "--set", "schedule.k=fixed",
	"--set", "evaluate.every=5", "--set", "nats.ack_seconds=1", "--set", "checkpoint.seconds=0.3",
}

var courses = []*course{
	{name: "all", pace: 5, args: []string{"--set", "stop.rounds=10"}},
	{name: "deadline", pace: 5, args: []string{
		"--set", "stop.rounds=10", "--set", "close.rule=deadline", "--set", "close.seconds=1.8", "--set", "compute.std=0.02",
	}},
	{name: "buffered", pace: 5, args: []string{
		"--set", "stop.rounds=20", "--set", "close.rule=buffered", "--set", "close.n=4", "--set", "close.staleness_limit=8", "--set", "compute.std=0.02",
	}},
	{name: "scaffold", pace: 5, args: []string{"--set", "stop.rounds=8", "--set", "aggregate.algorithm=scaffold"}},
	// What language models over slow links add: kept moments, outer Nesterov, fragments, fewer bits,
	// K that rises or is each client's own; with clients that are not asked, unequal K and late updates.
	{name: "diloco", pace: 5, args: []string{
		"--set", "stop.rounds=10", "--set", "local={optimizer: adamw, keep: true}", "--set", "compress=four_bit", "--set", "compute.std=0.02",
		"--set", "aggregate={algorithm: fedavgm, server_rate: 0.7, momentum: 0.9, nesterov: true, weights: taken}",
		"--set", "schedule.k={rule: quadratic, alpha: 0.002}", "--set", "schedule.eta={rule: cosine, to: 1e-4, rounds: 10}",
		"--set", "select=fit", "--set", "close={rule: deadline, seconds: 1.8}",
	}},
	{name: "streaming", pace: 5, args: []string{
		"--set", "stop.rounds=10", "--set", "local={optimizer: adamw, keep: true}", "--set", "compress={method: four_bit, format: int4}",
		"--set", "aggregate={algorithm: streaming, fragments: 3, overlap: 1, mix: 0.3}", "--set", "schedule.k0=3",
	}},
	{name: "sparseloco", pace: 5, args: []string{
		"--set", "stop.rounds=10", "--set", "local={optimizer: adamw, keep: true}", "--set", "compress={method: sparseloco, share: 0.05, chunk: 1024}",
		"--set", "clients=12", "--set", "close={rule: quorum, n: 7, seconds: 1.8, m: 5}", "--set", "compute.std=0.02",
	}},
	{name: "frozen-late", pace: 5, args: []string{
		"--set", "stop.rounds=20", "--set", "model=[dense: {width: 256, frozen: true}, relu, dense: {width: 256}, relu, dense]", "--set", "compress=four_bit",
		"--set", "aggregate={algorithm: fedavgm, server_rate: 0.7, momentum: 0.9, nesterov: true}",
		"--set", "close={rule: buffered, n: 4, staleness_limit: 8}", "--set", "compute.std=0.02",
	}},
}

func (c *course) flags(out string, more ...string) []string {
	args := append([]string{"--out", out, "--set", "data=" + data, "--set", "name=" + filepath.Base(filepath.Dir(out)) + "-" + c.name}, small...)
	return append(append(args, c.args...), more...)
}

// undisturbed is the course's result in one process.
func (c *course) undisturbed(t *testing.T) result {
	t.Helper()
	c.once.Do(func() {
		out := filepath.Join(t.TempDir(), "run")
		fedpace(t, append([]string{"run"}, c.flags(out)...)...).finish(patience)
		c.want = resultOf(t, out)
	})
	t.Logf("%s: %+v", c.name, c.want)
	if !c.want.Completed || c.want.Model == "" {
		t.Fatalf("the undisturbed run came to %+v", c.want)
	}
	return c.want
}

// coordinate starts the course's coordinator.
func (c *course) coordinate(t *testing.T, url, out string, more ...string) *process {
	t.Helper()
	args := append([]string{"coordinator", "--nats", url, "--set", "pace=" + strconv.Itoa(c.pace)}, c.flags(out, more...)...)
	return fedpace(t, args...)
}

func TestHosts_AnyNumber(t *testing.T) {
	t.Parallel()
	c := courses[0]
	want := c.undisturbed(t)
	counts := []int{2}
	if slow.On() {
		counts = []int{1, 2, 4}
	}
	for _, n := range counts {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := newServer(t, serverOptions{})
			out := filepath.Join(t.TempDir(), "run")
			// Some hosts are there before the coordinator, some come after it.
			for range n / 2 {
				host(t, s.url())
			}
			p := c.coordinate(t, s.url(), out, "--set", "pace=0")
			for range n - n/2 {
				host(t, s.url(), "--once")
			}
			p.finish(patience)
			resultOf(t, out).equals(t, want, fmt.Sprint(n, " hosts"))
		})
	}
	t.Run("its own host over an external server", func(t *testing.T) {
		t.Parallel()
		s := newServer(t, serverOptions{})
		out := filepath.Join(t.TempDir(), "run")
		host(t, s.url(), "--once") // helps, if there is anything left
		fedpace(t, append([]string{"run"}, c.flags(out, "--set", "nats.url="+s.url())...)...).finish(patience)
		resultOf(t, out).equals(t, want, "run --set nats.url")
	})
}

func TestKill9_HostsAndServers(t *testing.T) {
	trials, kills, some := 1, 2, courses[1:3]
	if slow.On() {
		trials, kills, some = 9, 3, courses // 216 in all
	}
	for _, c := range some {
		c.undisturbed(t)
	}
	for trial := range trials {
		for _, c := range some {
			t.Run(fmt.Sprint(c.name, trial), func(t *testing.T) {
				t.Parallel()
				c.disturbed(t, rand.New(rand.NewPCG(uint64(trial), 7)), kills)
			})
		}
	}
}

// disturbed plays the course while hosts and the server die.
func (c *course) disturbed(t *testing.T, draws *rand.Rand, kills int) {
	s := newServer(t, serverOptions{})
	w := watch(t, s)
	out := filepath.Join(t.TempDir(), "run")
	hosts := []*process{host(t, s.url()), host(t, s.url())}
	p := c.coordinate(t, s.url(), out)
	p.until("is there with 1 trainer", patience)
	for range kills {
		w.tasks(draws.IntN(25), p)
		if !p.running() {
			break
		}
		switch draws.IntN(4) {
		case 0:
			s.kill()
			outage(time.Duration(draws.Int64N(int64(300 * time.Millisecond))))
			s.start()
		case 1: // and what it had on disk
			s.kill()
			s.forget()
			s.start()
		default:
			i := draws.IntN(2)
			hosts[i].kill()
			hosts[i] = host(t, s.url())
		}
	}
	p.finish(patience)
	resultOf(t, out).equals(t, c.undisturbed(t), "disturbed")
}
