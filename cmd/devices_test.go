//go:build unix

package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"fedpace/bus"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/experiment/devicelog"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/outputs"
	"fedpace/metrics/tables"
)

// 50 simulated actors and two real ones, one of them an arm64 program: the times
// that these measured are in the timeline, the simulated cohorts and plans are
// those of the run without devices, and a replay gives the same bits.
func TestDevices_MixedRound(t *testing.T) {
	t.Parallel()
	other := emulated(t, deviceForARM)
	s := newSite(t, 50, 3, 3, "devices: {names: [pi1, pi2], liveness_seconds: 30, keep_updates: true}\n")
	_, one := s.actor("pi1")
	_, two := s.actor("pi2", other...)
	summary := s.end()
	if n := summary.Outcomes[round.Accepted]; !summary.Completed || n != 3*52 {
		t.Errorf("%d updates were accepted, want those of 3 rounds of 50 and 2:\n%v", n, s.lines)
	}
	for _, l := range []*lines{one, two} {
		l.await(t, "The run is over after 3 tasks")
	}

	said := answersOf(t, s.path("run"))
	simulated, real := s.tasks("run")
	if len(said) != 6 || len(real) != 6 || len(simulated) != 150 {
		t.Fatalf("%d answers of devices, %d of their tasks and %d others in the timeline", len(said), len(real), len(simulated))
	}
	for _, a := range said {
		if a.Plan != real[a.Task].Plan || a.Client != real[a.Task].Client || min(a.Plan.Download, a.Plan.Compute, a.Plan.Upload) <= 0 {
			t.Errorf("device %d measured %+v for task %d, the timeline has %+v", a.Client, a.Plan, a.Task, real[a.Task])
		}
	}

	alone := s.config("alone.yaml", fmt.Sprintf(devicesConfig, 50, 3, 3))
	if _, stderr, exit := finish(t, fedpace(t, "run", "--config", alone, "--out", s.path("alone"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	want, none := s.tasks("alone")
	if diff := cmp.Diff(want, simulated); diff != "" || len(none) > 0 {
		t.Errorf("the simulated cohorts and plans are not those of the run without devices: %s", diff)
	}

	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	again := s.summary("again")
	if again.Fingerprint != summary.Fingerprint || *again.ModelSHA256 != *summary.ModelSHA256 {
		t.Errorf("a replay comes to %s, %s; the run came to %s, %s", again.Fingerprint, *again.ModelSHA256, summary.Fingerprint, *summary.ModelSHA256)
	}
	// What goes further than the run did ends where its devices have said nothing, and there is nothing to resume.
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("further"), "--quiet", "--set", "stop.rounds=4")); exit != 1 || !strings.Contains(stderr, "--force") || strings.Contains(stderr, "fedpace resume") {
		t.Errorf("a replay that goes too far ends with %d and says %s", exit, stderr)
	}
	for _, args := range [][]string{{"resume", s.path("further")}, {"run", "--replay", s.path("run"), "--out", s.path("further")}} {
		_, stderr, exit := finish(t, fedpace(t, append(args, "--quiet")...))
		if exit != 1 || !strings.Contains(stderr, "holds a replay that was stopped after 3 rounds") || !strings.Contains(stderr, "--force") || strings.Contains(stderr, "listen") || strings.Contains(stderr, "fedpace resume") {
			t.Errorf("%s in the folder of a replay ends with %d and says %s", args[0], exit, stderr)
		}
	}
	if same(t, s.path("alone"), s.path("run")) {
		t.Error("the devices' updates are not in the model")
	}
}

// same tells whether two runs came to one model.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.ReadFile(filepath.Join(a, outputs.ModelFile))
	two, err2 := os.ReadFile(filepath.Join(b, outputs.ModelFile))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(one[len(one)-1000:]) == string(two[len(two)-1000:])
}

// Devices take part in asynchronous rounds, under both published rules: each round is
// made of two updates, some of them from older models, and a replay gives the same bits.
func TestDevices_AsynchronousRounds(t *testing.T) {
	slow.Test(t, "it plays six runs with devices; coordinator/round and internal/samebits play the rounds")
	t.Parallel()
	for _, algorithm := range []string{"fedasync", "fedbuff"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 6, 3, 8, "devices: {keep_updates: true, names: [pi1, pi2], liveness_seconds: 30, link: modelled}\nclose: {rule: buffered, n: 2}\naggregate: {algorithm: "+algorithm+"}\noutputs: [{sink: tasks}]\n")
			s.actor("pi1")
			s.actor("pi2")
			summary := s.end()
			if n := summary.Outcomes[round.Accepted]; !summary.Completed || n != 8*2 {
				t.Errorf("%d updates were accepted, want those of 8 rounds of 2:\n%v", n, s.lines)
			}
			if _, real := s.tasks("run"); len(real) < 2 {
				t.Errorf("%d tasks of devices", len(real))
			}
			all, err := parquet.ReadFile[tables.Task](filepath.Join(s.path("run"), tables.TasksFile))
			if err != nil {
				t.Fatal(err)
			}
			accepted := slices.DeleteFunc(slices.Clone(all), func(x tables.Task) bool { return x.Outcome != round.Accepted.String() })
			if n := len(accepted); n < 8*2 || !slices.ContainsFunc(accepted, func(x tables.Task) bool { return x.Staleness > 0 }) {
				t.Errorf("%d updates were accepted, none of them from an older model: %+v", n, accepted)
			}
			if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
				t.Fatal(stderr)
			}
			again := s.summary("again")
			if again.Fingerprint != summary.Fingerprint || *again.ModelSHA256 != *summary.ModelSHA256 {
				t.Errorf("a replay comes to %s, %s; the run came to %s, %s", again.Fingerprint, *again.ModelSHA256, summary.Fingerprint, *summary.ModelSHA256)
			}
		})
	}
}

// A device that is killed over its task is lost, and the round closes. It was
// heard of before, so its task ends 10 virtual seconds after it was given.
func TestDevice_DiesAndIsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 3, 2, "devices: {names: [pi1, pi2], liveness_seconds: 10}\n")
	tasks := s.tasksOf("pi2")
	victim, two := s.actor("pi2")
	two.await(t, "Joined run mixed as client 201")
	if err := victim.Process.Signal(syscall.SIGSTOP); err != nil { // it is there and never done with a task
		t.Fatal(err)
	}
	s.actor("pi1") // the run has waited for it
	if _, err := tasks.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	summary := s.end()
	if lost, accepted := summary.Outcomes[round.Lost], summary.Outcomes[round.Accepted]; lost != 1 || accepted != 2*2 {
		t.Errorf("%d lost, %d accepted; want 1 lost and the others' 4:\n%v", lost, accepted, s.lines)
	}
	s.lines.await(t, "Device pi2 is lost: nothing was heard of it for 10s")
	_, real := s.tasks("run")
	if got := real[round.FirstDeviceTask+1]; got.Client != 201 || !got.Plan.Drops || got.Plan.Dropout != 10e9 {
		t.Errorf("the lost task is %+v", got)
	}
}

// A device that comes while the first round waits for another takes part from the
// second on, in the run and when it is played again. The run waits for both at its start
// as long as a device may be silent.
func TestDevice_ComesLate(t *testing.T) {
	t.Parallel()
	s := newSite(t, 6, 3, 3, "devices: {keep_updates: true, names: [slow, late], liveness_seconds: 10}\n")
	slow := s.raw("slow")
	slow.join()
	beating := time.NewTicker(200 * time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() {
		defer beating.Stop()
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-beating.C:
				_ = slow.nats.Publish(slow.subject("heartbeat"), nil) // the next one is soon
			}
		}
	})
	defer beats.Wait()
	defer stop()
	for n := range 3 {
		task := slow.task()
		values := slow.model(task)
		if n == 0 {
			s.actor("late")
			s.lines.await(t, "Device late has joined")
		}
		if r := slow.send(task.Task, values, nil); r.Status != bus.Status_STATUS_ACCEPTED {
			t.Fatalf("its update is answered %v: %s", r.Status, r.Reason)
		}
	}
	summary := s.end()
	rounds := map[int]int{}
	_, real := s.tasks("run")
	for _, x := range real {
		rounds[x.Round]++
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 2, 3: 2}, rounds); diff != "" {
		t.Errorf("devices' tasks by round: %s", diff)
	}
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	if again := s.summary("again"); again.Fingerprint != summary.Fingerprint || *again.ModelSHA256 != *summary.ModelSHA256 {
		t.Errorf("a replay comes to %s, %s; the run came to %s, %s", again.Fingerprint, *again.ModelSHA256, summary.Fingerprint, *summary.ModelSHA256)
	}
}

// A device stops at once and cleanly, also while it waits for its server.
func TestDevice_Stops(t *testing.T) {
	t.Parallel()
	s := &site{T: t, dir: t.TempDir(), url: "nats://127.0.0.1:1"}
	s.keys = s.path("keys")
	c, said := s.actor("pi")
	said.await(t, "No server answers at nats://127.0.0.1:1")
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%v, said\n%v", err, said)
		}
	case <-ctx.Done():
		t.Error("it does not stop")
	}
}

func TestDevice_Mistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"actor"}, 2, "--nats is missing"},
		{[]string{"actor", "--nats", "nats://x:1"}, 2, "--client is missing"},
		{[]string{"actor", "--nats", "lab", "--client", "pi"}, 2, "--nats"},
		{[]string{"actor", "--nats", "nats://x:1", "--client", "7"}, 2, "starts with '7', want a letter"},
		{[]string{"actor", "--nats", "nats://x:1", "--client", "pi", "--data", "/none"}, 1, "/none"},
		{[]string{"run", "--set", "devices.names=[pi]"}, 1, "cannot reach the embedded server (set nats.listen"},
		{[]string{"run", "--set", "devices.names=[pi, pi]"}, 1, `"pi" is named twice`},
		{[]string{"run", "--set", "devices.names=[7]"}, 1, "devices.names"},
		{[]string{"run", "--set", "devices.names=[pi]", "--set", "aggregate.algorithm=scaffold"}, 1, `aggregate.algorithm: "scaffold" keeps a state of each client, which devices do not send`},
		{[]string{"run", "--set", "devices.names=[pi]", "--set", "select={rule: power_of_choice, candidates: 90}"}, 1, `select: "power_of_choice" asks clients for their losses ahead`},
		{[]string{"run", "--set", "devices.names=[pi]", "--set", "name=calibration", "--set", "nats.listen=127.0.0.1:0", "--keys", t.TempDir(), "--quiet"}, 1, "name: calibration is for fedpace calibrate"},
		{[]string{"run", "--replay", "/none"}, 1, "no run"},
	} {
		out := filepath.Join(t.TempDir(), "run")
		if c.args[0] == "run" {
			c.args = append(c.args, "--out", out)
		}
		_, stderr, exit := finish(t, fedpace(t, c.args...))
		if exit != c.exit || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, said %q; want exit %d and one line with %q", c.args, exit, stderr, c.exit, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a folder is left behind", c.args)
		}
	}
}

// answersOf are the answers of the devices of a run, in the order of their tasks.
func answersOf(t *testing.T, dir string) (list []*realdevices.Answer) {
	t.Helper()
	l, err := devicelog.Open(dir)
	if err != nil && !errors.Is(err, devicelog.ErrNoUpdates) {
		t.Fatal(err)
	}
	for i := range uint64(1000) {
		a, err := l.Answer(round.FirstDeviceTask + i)
		if err != nil {
			t.Fatal(err)
		}
		if a != nil {
			list = append(list, a)
		}
	}
	return list
}
