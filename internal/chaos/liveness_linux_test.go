package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// These choose what TestCluster_Liveness plays.
var (
	trials   = flag.Uint64("trials", 1, "how many trials of each fault to play")
	progress = flag.String("progress", "", "a file with the number of the next trial: trials are played from it on, and "+
		"it is written if all pass")
)

// fault disturbs a deployment. order is a permutation of the servers' numbers by the trial's seed. The function
// returns after the last disturbance, and what must be undone by then is.
type fault struct {
	name string
	play func(d *deployment, order []int)
	// flags are further settings of the run.
	flags []string
}

// clusterFaults leave a majority of the servers with their disks, and a host, able to reach each other and the
// coordinator.
var clusterFaults = []fault{
	{name: "kill", play: func(d *deployment, order []int) { d.stop(order[0]) }},
	{name: "kill and back", play: func(d *deployment, order []int) {
		d.stop(order[0])
		outage(time.Second)
		d.start(order[0])
	}},
	{name: "kill two, one back", play: func(d *deployment, order []int) {
		d.stop(order[0])
		outage(3 * time.Second)
		d.stop(order[1])
		outage(time.Second)
		d.start(order[1])
	}},
	{name: "kill two at once, one back", play: func(d *deployment, order []int) {
		d.stop(order[0])
		d.stop(order[1])
		outage(time.Second)
		d.start(order[1])
	}},
	{name: "kill all, two back", play: func(d *deployment, order []int) {
		for _, number := range order {
			d.stop(number)
		}
		outage(time.Second)
		d.start(order[0])
		d.start(order[1])
	}},
	{name: "kill two and the coordinator, one back and resumed", play: func(d *deployment, order []int) {
		d.stop(order[0])
		d.stop(order[1])
		d.run.kill()
		outage(time.Second)
		d.start(order[1])
		d.resume()
	}},
	{name: "one copy, its server killed", flags: []string{"--set", "nats.replicas=1"}, play: func(d *deployment, order []int) {
		d.stop(order[0])
	}},
	{name: "kill and wipe", play: func(d *deployment, order []int) {
		d.stop(order[0])
		d.wipe(order[0])
		d.start(order[0])
	}},
	{name: "full disk", play: func(d *deployment, order []int) { d.fill(order[0]) }},
	{name: "full disk, another killed and back", play: func(d *deployment, order []int) {
		d.fill(order[0])
		outage(3 * time.Second)
		d.stop(order[1])
		outage(time.Second)
		d.start(order[1])
	}},
	{name: "unplugged", play: func(d *deployment, order []int) { d.unplug(order[0]) }},
	{name: "unplugged and back", play: func(d *deployment, order []int) {
		d.unplug(order[0])
		outage(15 * time.Second)
		d.plug(order[0])
	}},
	{name: "servers parted", play: func(d *deployment, order []int) {
		for _, other := range order[1:] {
			d.mute(order[0], other)
			d.mute(other, order[0])
		}
	}},
	{name: "one way between servers", play: func(d *deployment, order []int) {
		for _, other := range order[1:] {
			d.mute(order[0], other)
		}
	}},
	{name: "one way to the coordinator", play: func(d *deployment, order []int) { d.mute(order[0], coordinatorMachine) }},
	{name: "one way from the coordinator", play: func(d *deployment, order []int) { d.mute(coordinatorMachine, order[0]) }},
	{name: "a host unplugged", play: func(d *deployment, _ []int) { d.unplug(hostMachine) }},
	{name: "lame duck", play: func(d *deployment, order []int) { d.signal(order[0], syscall.SIGUSR2) }},
	{name: "rolling restart", play: func(d *deployment, order []int) {
		for _, number := range order {
			d.signal(number, syscall.SIGTERM)
			<-d.nodes[number-1].done
			d.start(number)
			outage(2 * time.Second)
		}
	}},
	{name: "stopped and continued", play: func(d *deployment, order []int) {
		d.signal(order[0], syscall.SIGSTOP)
		outage(12 * time.Second)
		d.signal(order[0], syscall.SIGCONT)
	}},
}

// liveness are the longest times that were measured, by fault, for the summary at the end.
type liveness struct {
	mu      sync.Mutex
	longest map[string]time.Duration
	played  int
}

// note takes the time of one trial.
func (l *liveness) note(name string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest[name] = max(l.longest[name], took)
	l.played++
}

// A cluster that keeps a majority of its servers, and a host, has the run go on by itself. How long that takes
// is reported, and asserted in the simulated network alone; what must hold here is that the run ends with the
// bits of an undisturbed one.
func TestCluster_Liveness(t *testing.T) {
	skipUnlessLong(t)
	c := courses[0]
	want := c.undisturbed(t)
	first := slow.NextSeed(t, *progress)
	measured := &liveness{longest: map[string]time.Duration{}}
	t.Run("faults", func(t *testing.T) {
		for _, f := range clusterFaults {
			for trial := first; trial < first+*trials; trial++ {
				t.Run(fmt.Sprintf("%s/%d", f.name, trial), func(t *testing.T) {
					t.Parallel()
					took := playFault(t, c, want, f, trial)
					measured.note(f.name, took)
				})
			}
		}
	})
	for _, f := range clusterFaults {
		if longest, ok := measured.longest[f.name]; ok {
			t.Logf("%-40s next round after at most %5.1f s", f.name, longest.Seconds())
		}
	}
	slow.SetNextSeed(t, *progress, first+*trials)
	t.Logf("%d trials", measured.played)
}

// playFault plays one fault against a run, by a seed, and returns how long after the last disturbance the next
// whole round has ended. The run must come to the result want.
func playFault(t *testing.T, c *course, want result, f fault, seed uint64) time.Duration {
	t.Helper()
	draws := rand.New(rand.NewPCG(seed, 65))
	d := newDeployment(t)
	d.begin(c, 2+draws.IntN(3), append([]string{"--set", "pace=1"}, f.flags...)...)
	order := draws.Perm(servers)
	for i := range order {
		order[i]++
	}
	t.Logf("servers in the order %v, after %d rounds", order, d.rounds())
	f.play(d, order)
	last := time.Now()
	// The round that is under way may be almost over, so the next whole one is waited for.
	d.awaitRounds(d.rounds() + 2)
	took := time.Since(last)
	t.Logf("%s: the next round ended %.1f s after the last fault", f.name, took.Seconds())
	d.run.finish(patience)
	resultOf(t, d.out).equals(t, want, f.name)
	return took
}

// awaitRounds waits until the run has reported that many rounds, or has ended well.
func (d *deployment) awaitRounds(n int) {
	d.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.After(patience); d.rounds() < n; {
		select {
		case <-d.run.done:
			if d.run.cmd.ProcessState.ExitCode() == 0 {
				return
			}
			lines := strings.Split(strings.TrimSpace(d.run.said()), "\n")
			d.t.Fatalf("the run ended before round %d: %s", n, lines[len(lines)-1])
		case <-end:
			d.t.Fatalf("the run has not come to round %d within %v", n, patience)
		case <-look.C:
		}
	}
}
