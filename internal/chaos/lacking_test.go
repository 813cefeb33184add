//go:build unix

package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/slow"
)

// A host without the run's kernel class or data answers tasks alone and says
// what it lacks; the run waits for one that trains.
func TestHosts_CannotTrain(t *testing.T) {
	t.Parallel()
	t.Run("kernel", func(t *testing.T) {
		t.Parallel()
		c := courses[0]
		want := c.undisturbed(t)
		s := newServer(t, serverOptions{})
		cmd := exec.Command(program, "host", "--nats", s.url(), "--name", "plain")
		cmd.Env = append(os.Environ(), "FEDPACE_KERNEL=go")
		lacking := start(t, "fedpace host without the kernel class", cmd)
		out := filepath.Join(t.TempDir(), "run")
		run := c.coordinate(t, s.url(), out, "--set", "pace=0")
		lacking.until("it cannot train: the run's kernel class is", patience)
		run.until("Host plain is there for plans; it does not train", patience)
		run.until("No host that is there trains with kernel class", patience)
		host(t, s.url())
		run.finish(patience)
		resultOf(t, out).equals(t, want, "with a host for plans")
	})
	t.Run("kernel of every machine", func(t *testing.T) {
		slow.Test(t, "internal/samebits compares the kernel classes")
		t.Parallel()
		c := courses[0]
		alone, out := filepath.Join(t.TempDir(), "alone"), filepath.Join(t.TempDir(), "run")
		fedpace(t, append([]string{"run"}, c.flags(alone, "--set", "kernel=go")...)...).finish(patience)
		s := newServer(t, serverOptions{})
		run := c.coordinate(t, s.url(), out, "--set", "kernel=go")
		cmd := exec.Command(program, "host", "--nats", s.url(), "--name", "plain")
		cmd.Env = append(os.Environ(), "FEDPACE_KERNEL=go")
		start(t, "fedpace host without the machine's own kernel class", cmd).until("(go)", patience)
		host(t, s.url()).until("(go)", patience) // whose own class is another
		run.finish(patience)
		resultOf(t, out).equals(t, resultOf(t, alone), "in plain Go by two hosts")
	})
	t.Run("data", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		path, moved, other := filepath.Join(dir, "own.parquet"), filepath.Join(dir, "moved.parquet"), filepath.Join(dir, "other.parquet")
		for label, path := range []string{moved, other} {
			if err := writeData(path, 6, int32(label)); err != nil {
				t.Fatal(err)
			}
		}
		s := newServer(t, serverOptions{})
		flags := []string{
			"--set", "task=custom", "--set", "schedule.eta0=0.3", "--set", "compute.seconds_per_step=0.017",
			"--set", "network.download_mbps=20", "--set", "network.upload_mbps=5", "--set", "model=linear", "--set", "clients=all", "--set", "cohort=4", "--set", "batch=4",
			"--set", "schedule.k0=3", "--set", "stop.rounds=4", "--set", "name=own",
		}
		alone := filepath.Join(dir, "alone")
		fedpace(t, append([]string{"run", "--out", alone, "--set", "data=" + moved}, flags...)...).finish(patience)
		if err := os.Link(moved, path); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "run")
		run := fedpace(t, append([]string{"coordinator", "--nats", s.url(), "--out", out, "--set", "data=" + path}, flags...)...)
		run.until("No host is there", patience)
		if err := os.Remove(path); err != nil { // the coordinator has it open
			t.Fatal(err)
		}
		host(t, s.url()).until("no such file", patience)
		host(t, s.url(), "--data", other).until("holds other data than the run's", patience)
		host(t, s.url(), "--data", moved)
		run.finish(patience)
		resultOf(t, out).equals(t, resultOf(t, alone), "with data elsewhere")
	})
}

// A host that knows a run of the name answers for no other: the coordinator was
// killed and another configuration took its name.
func TestRuns_SameName(t *testing.T) {
	t.Parallel()
	c := courses[1]
	dir := t.TempDir()
	alone, out := filepath.Join(dir, "alone"), filepath.Join(dir, "run")
	fedpace(t, append([]string{"run"}, c.flags(alone, "--set", "seed=2")...)...).finish(patience)
	s := newServer(t, serverOptions{})
	w := watch(t, s)
	h := host(t, s.url())
	first := c.coordinate(t, s.url(), out)
	first.until("is there with 1 trainer", patience)
	w.tasks(16, first)
	first.kill()
	c.coordinate(t, s.url(), out, "--force", "--set", "seed=2", "--set", "pace=0").finish(patience)
	resultOf(t, out).equals(t, resultOf(t, alone), "the second run")
	if !h.running() {
		t.Error("the host has ended")
	}
}
