package chaos

import (
	"bytes"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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
	times = flag.String("times", "", "a file to which the times of trials are added, and whose times are in the table, too")
)

// fault disturbs a deployment. order is a permutation of the servers' numbers by the trial's seed. The function
// returns after the last disturbance, and what must be undone by then is.
type fault struct {
	name string
	play func(d *deployment, order []int)
	// flags are further settings of the run.
	flags []string
	// reason is what the error says with which the run may end instead of going on; empty if it must go on.
	reason string
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
	// Of the two that are up, one has the log of the cluster and the other an empty one, whose vote may not count.
	{name: "kill two, one back and wiped", reason: "the cluster has elected no leader for", play: func(d *deployment, order []int) {
		d.stop(order[0])
		outage(3 * time.Second)
		d.stop(order[1])
		d.wipe(order[1])
		d.start(order[1])
	}},
	{name: "kill and the coordinator, back and resumed", play: func(d *deployment, order []int) {
		d.stop(order[0])
		d.run.kill()
		outage(time.Second)
		d.start(order[0])
		d.resume()
	}},
	{name: "stopped", play: func(d *deployment, order []int) { d.signal(order[0], syscall.SIGSTOP) }},
	{name: "two unplugged, one back", play: func(d *deployment, order []int) {
		d.unplug(order[0])
		outage(3 * time.Second)
		d.unplug(order[1])
		outage(10 * time.Second)
		d.plug(order[1])
	}},
	{name: "unplugged and back, three times", play: func(d *deployment, order []int) {
		for range 3 {
			d.unplug(order[0])
			outage(3 * time.Second)
			d.plug(order[0])
			outage(2 * time.Second)
		}
	}},
	{name: "two servers parted from each other", play: func(d *deployment, order []int) {
		d.mute(order[0], order[1])
		d.mute(order[1], order[0])
	}},
	{name: "lame duck, another killed and back", play: func(d *deployment, order []int) {
		d.signal(order[0], syscall.SIGUSR2)
		outage(3 * time.Second)
		d.stop(order[1])
		outage(time.Second)
		d.start(order[1])
	}},
	{name: "leaders step down, three times", play: func(d *deployment, _ []int) {
		for range 3 {
			d.stepDown()
			outage(2 * time.Second)
		}
	}},
	{name: "kill, and leaders step down", play: func(d *deployment, order []int) {
		d.stop(order[0])
		outage(time.Second)
		d.stepDown()
	}},
}

// clusterCourse is the run that is disturbed: its rounds take 1.7 s each at pace 1, longer in all than any fault lasts.
var clusterCourse = &course{name: "cluster", args: []string{"--set", "stop.rounds=20"}}

// liveness has what was measured: how long after the last disturbance the next round ended.
type liveness struct {
	t testing.TB
	// path is the file to which measurements are added, of which each line is a fault's name, a seed and seconds with
	// commas between them; empty if they are only held here.
	path string

	mu sync.Mutex
	// took are the times of all trials, by fault.
	took map[string][]time.Duration
}

// newLiveness reads what was measured before, if there is a file with it.
func newLiveness(t testing.TB, path string) *liveness {
	t.Helper()
	l := &liveness{t: t, path: path, took: map[string][]time.Duration{}}
	if path == "" {
		return l
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		seconds, err := strconv.ParseFloat(row[len(row)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		l.took[row[0]] = append(l.took[row[0]], time.Duration(seconds*float64(time.Second)))
	}
	return l
}

// note takes the time of one trial.
func (l *liveness) note(name string, seed uint64, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[name] = append(l.took[name], took)
	if l.path == "" {
		return
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer f.Close()
	out := csv.NewWriter(f)
	_ = out.Write([]string{name, fmt.Sprint(seed), fmt.Sprintf("%.1f", took.Seconds())})
	out.Flush()
	if err := out.Error(); err != nil {
		l.t.Error(err)
	}
}

// print prints a table of the faults that were played.
func (l *liveness) print() {
	trials := 0
	for _, f := range clusterFaults {
		for _, name := range []string{f.name, f.name + endedSuffix} {
			took := l.took[name]
			if len(took) == 0 {
				continue
			}
			trials += len(took)
			slices.Sort(took)
			l.t.Logf("%-55s %3d trials, %5.1f s in the median, at most %5.1f s", name, len(took),
				took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
		}
	}
	l.t.Logf("%d trials: how long after the last fault the next round ended, or the run", trials)
}

// A cluster that keeps a majority of its servers, and a host, has the run go on by itself. How long that takes
// is reported, and asserted in the simulated network alone; what must hold here is that the run ends with the
// bits of an undisturbed one. This prints the times of docs/performance/faults.csv:
//
//	FEDPACE_LONG=1 go test ./internal/chaos -v -run Cluster_Liveness -timeout 6h -trials 20
func TestCluster_Liveness(t *testing.T) {
	skipUnlessLong(t)
	want := clusterCourse.undisturbed(t)
	first := slow.NextSeed(t, *progress)
	measured := newLiveness(t, *times)
	t.Run("faults", func(t *testing.T) {
		for seed := first; seed < first+*trials; seed++ {
			for _, f := range clusterFaults {
				t.Run(fmt.Sprintf("%s/%d", f.name, seed), func(t *testing.T) {
					t.Parallel()
					playFault(t, clusterCourse, want, f, seed, measured)
				})
			}
		}
	})
	measured.print()
	slow.SetNextSeed(t, *progress, first+*trials)
}

// playFault plays one fault against a run, by a seed, and notes how long after the last disturbance the next whole
// round has ended. The run must come to the result want; one that ends with the fault's reason is resumed, when the
// first server is back.
func playFault(t *testing.T, c *course, want result, f fault, seed uint64, measured *liveness) {
	t.Helper()
	d, order := disturbed(t, c, f, seed)
	last := time.Now()
	if !d.run.running() {
		t.Fatalf("the run was over before the last fault: %s", d.run.lastLine())
	}
	// The round that is under way may be almost over, so the next whole one is waited for.
	ended := d.awaitRounds(d.rounds()+2, f.reason)
	took := time.Since(last)
	if ended {
		t.Logf("%s: the run ended %.1f s after the last fault: %s", f.name, took.Seconds(), d.run.lastLine())
		measured.note(f.name+endedSuffix, seed, took)
		d.start(order[0])
		d.resume()
	} else {
		t.Logf("%s: the next round ended %.1f s after the last fault", f.name, took.Seconds())
		measured.note(f.name, seed, took)
		if took > promisedRound {
			t.Logf("this is longer than %v; %s said:\n%s", promisedRound, d.run.name, d.run.said())
		}
	}
	d.run.finish(patience)
	resultOf(t, d.out).equals(t, want, f.name)
}

// disturbed plays one fault against a run, by a seed, and returns the deployment and the order of the servers.
func disturbed(t *testing.T, c *course, f fault, seed uint64) (d *deployment, order []int) {
	t.Helper()
	draws := rand.New(rand.NewPCG(seed, 65))
	d = newDeployment(t)
	d.begin(c, 2+draws.IntN(3), append([]string{"--set", "pace=1"}, f.flags...)...)
	order = draws.Perm(servers)
	for i := range order {
		order[i]++
	}
	t.Logf("servers in the order %v, after %d rounds", order, d.rounds())
	f.play(d, order)
	return d, order
}

// promisedRound is the longest time until the next round ends that docs/machines.md promises. Real processes may be
// late on a busy machine, so what the run said is reported then and nothing fails.
const promisedRound = 30 * time.Second

// endedSuffix follows the name of a fault in the times of trials in which the run ended with the reason.
const endedSuffix = ": the run ended"

// awaitRounds waits until the run has reported that many rounds, or has ended well. It returns true if the run has
// ended with a reason that it may end with; empty: it may not.
func (d *deployment) awaitRounds(n int, reason string) (ended bool) {
	d.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for end := time.After(patience); d.rounds() < n; {
		select {
		case <-d.run.done:
			if d.run.cmd.ProcessState.ExitCode() == 0 {
				return false
			}
			if reason != "" && strings.Contains(d.run.lastLine(), reason) {
				return true
			}
			d.t.Fatalf("the run ended before round %d: %s", n, d.run.lastLine())
		case <-end:
			d.t.Fatalf("the run has not come to round %d within %v", n, patience)
		case <-look.C:
		}
	}
	return false
}
