//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/internal/testkit/slow"
)

// Runs that are killed: each closing rule, an algorithm with a state of its own, local
// steps with one, and the schedules that decide by losses and by a plateau. All of them
// leave every file that a run can.
var mortal = []struct {
	name string
	sets string // after those that all share
}{
	{"all", "task=femnist clients=30 cohort=5 stop.rounds=15 schedule.k0=4 evaluate.every=3 aggregate.algorithm=fedadam aggregate.server_rate=0.01"},
	{"deadline", "task=femnist clients=30 cohort=8 stop.rounds=15 schedule.k0=4 evaluate.every=3 compute.std=0.01 close={rule:deadline,seconds:2.8} dropout.probability=0.1"},
	{"buffered", "task=femnist clients=30 cohort=8 stop.rounds=24 schedule.k0=4 evaluate.every=3 compute.std=0.01 close={rule:buffered,n:3,staleness_limit:3} availability={model:markov,on_seconds:30,off_seconds:10}"},
	{"scaffold", "task=sent140 clients=50 cohort=10 stop.rounds=75 schedule.k0=10 evaluate.every=5 aggregate.algorithm=scaffold"},
	{"residuals", "task=sent140 clients=50 cohort=10 stop.rounds=75 schedule.k0=10 evaluate.every=5 aggregate={algorithm:fedavgm} compress={method:top_k,share:0.1}"},
	{"momentum", "task=sent140 clients=50 cohort=10 stop.rounds=75 schedule.k0=10 evaluate.every=5 local={momentum:0.9,nesterov:true,weight_decay:0.001,clip:1} fleet=[{name:slow,seconds_per_step:0.4,batch:3},{name:fast}]"},
	{"kept", "task=sent140 clients=50 cohort=10 stop.rounds=75 schedule.k0=10 evaluate.every=5 local={optimizer:adamw,keep:true} schedule.eta0=0.01 compress={method:top_k,share:0.1}"},
	{"streaming", "task=sent140 clients=12 cohort=10 stop.rounds=75 schedule.k0=10 evaluate.every=5 local={optimizer:adamw,keep:true} schedule.eta0=0.01 aggregate={algorithm:streaming} compress={method:four_bit}"},
	{"batteries", "task=femnist clients=30 cohort=8 stop.rounds=15 schedule.k0=4 evaluate.every=3 compute.std=0.01 correlation.speed.spearman=0.6 correlation.availability={spearman:-0.4,with:entropy} availability={model:share,share:{dist:uniform,min:0.3,max:0.9},cycle_seconds:40} " +
		"fleet=[{name:phone,seconds_per_step:{dist:lognormal,mean:0.1,sigma:1},watts:2,battery:{joules:12,start:{dist:uniform,min:0.2,max:1},floor:0.3,charge_watts:0.5,charges:available}}]"},
	{"error", "task=sent140 clients=50 cohort=10 schedule.k=error schedule.k0=20 schedule.window=10 evaluate.every=5 select={rule:power_of_choice,candidates:15} stop.rounds=75"},
	{"step", "task=sent140 clients=50 cohort=10 stop.equal_runtime_rounds=100 schedule.k=step schedule.k0=20 schedule.patience=3 schedule.window=10 evaluate.every=4 evaluate.every_seconds=fixed compute.std=0.002"},
}

func mortalArgs(sets, out string) []string {
	args := []string{"run", "--quiet", "--out", out, "--set", "checkpoint.seconds=0.05", "--set", "evaluate.samples=300", "--set", "outputs=[tasks]", "--set", "evaluate.clients={every: 4, samples: 20}"}
	for _, s := range strings.Fields(sets) {
		args = append(args, "--set", s)
	}
	return args
}

// A run whose process is killed after any round, and killed again when it goes on,
// comes to the results of the run that was never stopped, to the last bit.
func TestResume_KilledRunsSameBits(t *testing.T) {
	t.Parallel()
	least := 1 // kills of each run
	if slow.On() {
		least = 17
	}
	for i, c := range mortal {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "buffered" && c.name != "kept" && c.name != "error" {
				slow.Test(t, "it kills runs of every kind")
			}
			whole := filepath.Join(t.TempDir(), "run")
			if _, stderr, exit := finish(t, fedpace(t, mortalArgs(c.sets, whole)...)); exit != 0 {
				t.Fatalf("exit %d: %s", exit, stderr)
			}
			want := resultsOf(t, whole)
			rounds := strings.Count(want["rounds.csv"], "\n") - 1
			random := rand.New(rand.NewPCG(1, uint64(i)))
			kills, late := 0, 0
			for kills < least && late < 3*least {
				out := filepath.Join(t.TempDir(), "run")
				args := mortalArgs(c.sets, out)
				for range 2 {
					if killAfter(t, fedpace(t, args...), out, random.IntN(rounds)) {
						kills++
					} else {
						late++
					}
					if _, err := os.Stat(filepath.Join(out, "config.yaml")); err == nil {
						args = []string{"resume", "--quiet", out}
					}
				}
				if _, stderr, exit := finish(t, fedpace(t, args...)); exit != 0 {
					t.Fatalf("exit %d: %s", exit, stderr)
				}
				if diff := cmp.Diff(want, resultsOf(t, out)); diff != "" {
					t.Fatalf("after kills the results are others: %s", diff)
				}
			}
			t.Logf("%d rounds, %d kills, %d came too late", rounds, kills, late)
		})
	}
}

// killAfter kills a run that has reported so many rounds, and says whether it was
// still there to be killed.
func killAfter(t *testing.T, c *exec.Cmd, out string, rounds int) bool {
	t.Helper()
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Wait() }() // the status says it
	if err := await(out, ended, func() bool {
		text, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
		return err == nil && bytes.Count(text, []byte("\n")) > rounds
	}); err != nil {
		t.Error(err)
	}
	_ = c.Process.Kill() // too late: it is gone
	<-ended
	if status := c.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if code := c.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit %d: %s", code, said.String())
	}
	return false
}

// resultsOf is all that a run left, but for the time that it took and the place
// where it is.
func resultsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		switch e.Name() {
		case "summary.json":
			var s map[string]any
			if err := json.Unmarshal(b, &s); err != nil {
				t.Fatal(err)
			}
			if s["completed"] != true {
				t.Errorf("not completed: %s", b)
			}
			for _, other := range []string{"wall_seconds", "files", "summary_sha256"} { // the files are compared themselves
				delete(s, other)
			}
			b, err = json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
		case "page.html", "progress.csv": // they tell wall times
			b = nil
		case "config.yaml":
			b = slices.Concat(slices.DeleteFunc(bytes.SplitAfter(b, []byte("\n")), func(line []byte) bool { return bytes.HasPrefix(line, []byte("out:")) })...)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// A run that a signal ends, a terminal's that goes among them, says how to go on
// and keeps all that it has done; while it runs nobody else gets its folder.
func TestResume_StoppedRuns(t *testing.T) {
	t.Parallel()
	sets := mortal[1].sets + " stop.rounds=40"
	whole := filepath.Join(t.TempDir(), "run")
	if _, stderr, exit := finish(t, fedpace(t, mortalArgs(sets, whole)...)); exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	want := resultsOf(t, whole)
	out := filepath.Join(t.TempDir(), "run")
	// Seldom checkpoints: those that are found are the signals'. The pace keeps the run from ending
	// before a signal reaches it.
	slow := []string{"--set", "checkpoint.seconds=1000", "--set", "pace=10"}
	want["config.yaml"] = strings.NewReplacer("seconds: 0.05", "seconds: 1000", "pace: 0", "pace: 10").Replace(want["config.yaml"])
	args := append(mortalArgs(sets, out), slow...)
	// Under nohup the runs would ignore SIGHUP as these tests do.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	rows := 0
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM, os.Interrupt} {
		c := fedpace(t, args...)
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		waitForRows(t, out, rows+3)
		if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for _, other := range [][]string{append(mortalArgs(sets, out), "--force"), {"resume", out}} {
			if _, stderr, exit := finish(t, fedpace(t, other...)); exit != 1 || !strings.Contains(stderr, "its run is still going on, process ") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s in the folder of a run that goes on: exit %d, %q", other[0], exit, stderr)
			}
		}
		for _, s := range []os.Signal{s, syscall.SIGCONT} {
			if err := c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Wait() // the exit status says it
		if code := c.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "to go on: fedpace resume "+out) {
			t.Fatalf("%v: exit %d, %q", s, code, said.String())
		}
		text, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(want["rounds.csv"], string(text)) {
			t.Errorf("%v: the rounds up to the signal are others", s)
		}
		rows = bytes.Count(text, []byte("\n"))
		args = []string{"resume", "--quiet", out}
	}
	moved := out + " moved"
	if err := os.Rename(out, moved); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, exit := finish(t, fedpace(t, "resume", moved))
	if exit != 0 || !strings.Contains(stdout, "completed") || !strings.Contains(stderr, "The run goes on after round") {
		t.Fatalf("exit %d: %s%s", exit, stdout, stderr)
	}
	if diff := cmp.Diff(want, resultsOf(t, moved)); diff != "" {
		t.Errorf("stopped and resumed it comes to other results: %s", diff)
	}
	before := resultsOf(t, moved)
	stdout, stderr, exit = finish(t, fedpace(t, "resume", moved))
	if exit != 0 || !strings.Contains(stdout, "complete run") || stderr != "" {
		t.Errorf("a complete run: exit %d: %s%s", exit, stdout, stderr)
	}
	if diff := cmp.Diff(before, resultsOf(t, moved)); diff != "" {
		t.Errorf("a complete run is changed: %s", diff)
	}
}

// waitForRows waits until a run's rounds.csv has so many lines.
func waitForRows(t *testing.T, out string, rows int) (n int) {
	t.Helper()
	if err := await(out, nil, func() bool {
		text, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
		n = bytes.Count(text, []byte("\n"))
		return err == nil && n >= rows
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// SIGUSR1 asks for a checkpoint at once.
func TestCheckpoint_OnSignal(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	c := fedpace(t, append(mortalArgs(mortal[0].sets, out), "--set", "checkpoint.seconds=1000", "--set", "stop.rounds=100000")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}()
	waitForRows(t, out, 3)
	path := filepath.Join(out, "checkpoint.bin")
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a checkpoint before it was asked for")
	}
	if err := c.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if err := await(out, nil, func() bool { _, err := os.Stat(path); return err == nil }); err != nil {
		t.Error(err)
	}
}

// What cannot be resumed is said in one line.
func TestResume_Nothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"resume"}, 2, "want one: the folder of a run"},
		{[]string{"resume", "a", "b"}, 2, "want one: the folder of a run"},
		{[]string{"resume", filepath.Join(t.TempDir(), "none")}, 1, "holds no run: it has no config.yaml"},
		{[]string{"resume", t.TempDir()}, 1, "holds no run: it has no config.yaml"},
	} {
		_, stderr, exit := finish(t, fedpace(t, c.args...))
		if exit != c.exit || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q", c.args, exit, stderr)
		}
	}
}
