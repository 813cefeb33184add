package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// majorityFaults leave fewer servers than a majority.
var majorityFaults = []fault{
	{name: "two killed", reason: "the cluster has elected no leader for", play: func(d *deployment, order []int) {
		d.stop(order[0])
		d.stop(order[1])
	}},
	{name: "all killed", reason: "was lost and did not come back within 45s", play: func(d *deployment, order []int) {
		for _, number := range order {
			d.stop(number)
		}
	}},
	{name: "two unplugged", reason: "the cluster has elected no leader for", play: func(d *deployment, order []int) {
		d.unplug(order[0])
		d.unplug(order[1])
	}},
	{name: "the coordinator unplugged", reason: "was lost and did not come back within 45s", play: func(d *deployment, _ []int) {
		d.unplug(coordinatorMachine)
	}},
}

// A run whose cluster has lost its majority for good ends, names the reason and the command that resumes it, and comes
// to the bits of an undisturbed one when the servers are back. How long it takes to end is reported.
func TestCluster_MajorityLost(t *testing.T) {
	skipUnlessLong(t)
	want := clusterCourse.undisturbed(t)
	for seed := range *trials {
		for _, f := range majorityFaults {
			t.Run(fmt.Sprintf("%s/%d", f.name, seed), func(t *testing.T) {
				t.Parallel()
				d, order := disturbed(t, clusterCourse, f, seed)
				last := time.Now()
				select {
				case <-d.run.done:
				case <-time.After(patience):
					t.Fatalf("the run goes on after %v", patience)
				}
				t.Logf("%s: the run ended %.1f s after the last fault: %s", f.name, time.Since(last).Seconds(), d.run.lastLine())
				for _, part := range []string{f.reason, "resume"} {
					if !strings.Contains(d.run.said(), part) {
						t.Errorf("the run ends with %q, want %q", d.run.lastLine(), part)
					}
				}
				if strings.Contains(d.run.said(), "--force") {
					t.Errorf("the run advises to lose it: %s", d.run.lastLine())
				}
				d.recover(order)
				d.resume()
				d.run.finish(patience)
				resultOf(t, d.out).equals(t, want, f.name)
			})
		}
	}
}

// A majority that is back after 30 s finds the run, which goes on by itself.
func TestCluster_MajorityBack(t *testing.T) {
	skipUnlessLong(t)
	want := clusterCourse.undisturbed(t)
	for seed := range *trials {
		for _, f := range majorityFaults {
			t.Run(fmt.Sprintf("%s/%d", f.name, seed), func(t *testing.T) {
				t.Parallel()
				d, order := disturbed(t, clusterCourse, f, seed)
				outage(30 * time.Second)
				d.recover(order)
				last := time.Now()
				d.awaitRounds(d.rounds()+2, "")
				t.Logf("%s: the next round ended %.1f s after the servers were back", f.name, time.Since(last).Seconds())
				d.run.finish(patience)
				resultOf(t, d.out).equals(t, want, f.name)
			})
		}
	}
}

// recover starts the servers that are down, and plugs in the machines that are cut off.
func (d *deployment) recover(order []int) {
	d.t.Helper()
	for _, machine := range append([]int{coordinatorMachine}, order...) {
		d.plug(machine)
	}
	for _, number := range order {
		if !d.nodes[number-1].running() {
			d.start(number)
		}
	}
}
