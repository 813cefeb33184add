//go:build unix

package chaos

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"fedpace/internal/testkit/slow"
)

// Of two hosts one stops in the middle, and stays so: the other does its tasks, and
// the jobs that it holds, long before anything that waits for it gives up. Then it
// goes on, and the run comes to its bits.
func TestHosts_Stopped(t *testing.T) {
	t.Parallel()
	for _, train := range []bool{false, true} {
		t.Run(fmt.Sprint("train=", train), func(t *testing.T) {
			if !train {
				slow.Test(t, "its 3,200 tasks take long, each by a message of its own")
			}
			t.Parallel()
			rounds := 400
			if train {
				rounds = 40
			}
			flags := []string{
				"--set", "task=custom", "--set", "compute.seconds_per_step=0.017", "--set", "network.download_mbps=20", "--set", "network.upload_mbps=5",
				"--set", "data=" + data, "--set", "model={mlp: [2, 64, 2]}", "--set", "batch=4", "--set", "schedule.eta0=0.001",
				"--set", "clients=30", "--set", "cohort=8", "--set", "schedule.k0=20", "--set", "schedule.k=fixed", "--set", "evaluate.every=100",
				"--set", fmt.Sprint("train=", train), "--set", fmt.Sprint("stop.rounds=", rounds), "--set", fmt.Sprint("name=stops", train),
			}
			want := filepath.Join(t.TempDir(), "run")
			fedpace(t, append([]string{"run", "--out", want}, flags...)...).finish(patience)
			s := newServer(t, serverOptions{})
			w := watch(t, s)
			first, second := host(t, s.url(), "--name", "first"), host(t, s.url(), "--name", "second")
			first.until("Waiting", patience)
			second.until("Waiting", patience)
			out := filepath.Join(t.TempDir(), "run")
			// No job is handed out again by the server within the test's time.
			p := fedpace(t, append([]string{"coordinator", "--nats", s.url(), "--out", out, "--set", "nats.ack_seconds=3600"}, flags...)...)
			p.until("Host first is there", patience)
			p.until("Host second is there", patience)
			w.tasks(20, p)
			signal(t, second, syscall.SIGSTOP)
			w.tasks(rounds*8/2, p) // half of all are planned while it stands
			signal(t, second, syscall.SIGCONT)
			p.finish(patience)
			resultOf(t, out).equals(t, resultOf(t, want), "with a host that stopped")
		})
	}
}
