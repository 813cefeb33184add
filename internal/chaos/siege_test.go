//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fedpace/internal/testkit/hostile"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// attackVariable makes the test's binary an attacker, so that what the attack takes of
// the machine is not the run's.
const attackVariable = "FEDPACE_TEST_ATTACK"

// attackOptions are those of an attacker's process.
type attackOptions struct {
	Name   string
	Target hostile.Target
}

// attack attacks until it is done or the process is killed, and leaves the machine to
// others.
func attack(text string) error {
	var o attackOptions
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/autogroup", []byte("19"), 0o600) // where the session, not the process, has a priority
	a, err := hostile.Named(o.Name)
	if err != nil {
		return err
	}
	return a.Run(context.Background(), &o.Target)
}

// siege is a run whose server listens, with three devices that attack it.
type siege struct {
	*keys
	address string
	target  hostile.Target

	runOn, attackOn string // the cores, as taskset takes them; "": all
}

// pinned is a command on some cores; "": on all.
func pinned(cores, name string, args ...string) *exec.Cmd {
	if cores != "" {
		name, args = "taskset", append([]string{"-c", cores, name}, args...)
	}
	return exec.Command(name, args...)
}

func newSiege(t *testing.T) *siege {
	s := &siege{keys: newKeys(t), address: testport.Held(t)}
	s.target = hostile.Target{Address: s.address, From: "127.0.0.1", Run: "siege"}
	for i := range 3 {
		id := fmt.Sprint("evil", i)
		s.enroll(id)
		creds, err := os.ReadFile(s.creds(id))
		if err != nil {
			t.Fatal(err)
		}
		s.target.Devices, s.target.Creds = append(s.target.Devices, id), append(s.target.Creds, creds)
	}
	return s
}

// run starts the run. Its model has more than a chunk.
func (s *siege) run(rounds int, more ...string) (p *pacer, out string) {
	out = filepath.Join(s.t.TempDir(), "run")
	args := []string{
		"run", "--out", out, "--keys", s.dir, "--set", "name=siege", "--set", "nats.listen=" + s.address, "--set", "http=127.0.0.1:0",
		"--set", "devices.names=[" + strings.Join(s.target.Devices, ",") + "]", "--set", "devices.liveness_seconds=0.1",
		"--set", "task=custom", "--set", "compute.seconds_per_step=0.1", "--set", "network.download_mbps=20", "--set", "network.upload_mbps=5",
		"--set", "data=" + data, "--set", "model={mlp: [2, 512, 256, 2]}", "--set", "batch=4", "--set", "schedule.eta0=0.001",
		"--set", "clients=30", "--set", "cohort=8", "--set", "schedule.k0=5", "--set", "schedule.k=fixed", "--set", "evaluate.every=1000",
		"--set", fmt.Sprint("stop.rounds=", rounds),
	}
	return newPacer(s.t, start(s.t, "fedpace run", pinned(s.runOn, program, append(args, more...)...))), out
}

// attack starts an attacker in a process of its own.
func (s *siege) attack(name string, count int, devices ...int) *process {
	s.t.Helper()
	target := s.target
	target.Count = count
	if len(devices) > 0 {
		target.Devices, target.Creds = nil, nil
		for _, i := range devices {
			target.Devices, target.Creds = append(target.Devices, s.target.Devices[i]), append(target.Creds, s.target.Creds[i])
		}
	}
	text, err := json.Marshal(attackOptions{name, target})
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := pinned(s.attackOn, self)
	cmd.Env = append(os.Environ(), attackVariable+"="+string(text))
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return start(s.t, name, cmd)
}

// peak is the most memory that a process has had, in bytes; 0 where no system says so.
func (p *process) peak() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	kilobytes := 0
	if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
		if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
			p.t.Fatal(err)
		}
	}
	return kilobytes << 10
}

// descriptors is how many a process has open; 0 where no system says so.
func (p *process) descriptors() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	return len(list)
}

// mostMemory is what a run under attack may have, in bytes: the 150 MB of a run without one, and twice what may wait,
// 64 MB for all devices and 8 MB of each of three, as the collector lets the heap double; the rest is under way.
const mostMemory = 400 << 20

// Devices that connect without end, do not read and flood change nothing of a run. Its
// memory and its descriptors are bounded.
func TestSiege(t *testing.T) {
	slow.Test(t, "it besieges a server")
	t.Parallel()
	s := newSiege(t)
	undisturbed, out := s.run(20)
	undisturbed.finish(patience)
	want := resultOf(t, out)
	if !want.Completed || want.Model == "" {
		t.Fatalf("the undisturbed run came to %+v", want)
	}
	run, out := s.run(20, "--set", "pace=8")
	attackers := []*process{s.attack("unread", 100, 0), s.attack("flood", 3, 1, 2), s.attack("silent", 600), s.attack("connects", 2000)}
	descriptors, peak := 0, 0
	for run.running() {
		descriptors, peak = max(descriptors, run.descriptors()), max(peak, run.peak())
		outage(20 * time.Millisecond)
	}
	run.finish(patience)
	for _, a := range attackers {
		a.kill()
	}
	t.Logf("at most %d MB and %d descriptors", peak>>20, descriptors)
	if peak > mostMemory {
		t.Errorf("the run took %d MB of memory", peak>>20)
	}
	if descriptors > 800 { // 512 connections without credentials, 4 of each device, and the run's own
		t.Errorf("the run had %d descriptors open", descriptors)
	}
	resultOf(t, out).equals(t, want, "under attack")
}

// TestSiege_Long prints how much a run's pace and memory suffer from 1,000
// connections that never read, 100,000 connects and a flood from three devices at once.
// Its pace is measured before, during and after the attack in each of several runs. The
// run has one core for itself and the attackers have the others, since real ones have
// machines of their own. It takes minutes:
//
//	FEDPACE_LONG=1 go test -v -run Siege_Long ./internal/chaos
func TestSiege_Long(t *testing.T) {
	slow.Test(t, "it besieges a server at length")
	if runtime.NumCPU() < 2 {
		t.Skip("it needs two cores")
	}
	var ratios []float64
	for range 5 {
		s := newSiege(t)
		s.runOn, s.attackOn = "0", fmt.Sprint("1-", runtime.NumCPU()-1)
		run, _ := s.run(100_000_000)
		run.rounds(20)
		before := run.pace(phase)
		connects := s.attack("connects", 100_000)
		attackers := []*process{connects, s.attack("unread", 1000), s.attack("flood", 3)}
		started, first, looks := time.Now(), run.round(), 0
		for connects.running() || looks == 0 {
			outage(phase)
			looks++
		}
		elapsed := time.Since(started).Seconds()
		during := float64(run.round()-first) / elapsed
		for _, a := range attackers {
			a.kill()
		}
		outage(time.Second)
		after, peak := run.pace(phase), run.peak()
		run.kill()
		ratios = append(ratios, 2*during/(before+after))
		t.Logf("rounds a second: %.1f before, %.1f during %d s of attack, %.1f after; ratio %.2f; peak memory %d MB",
			before, during, int(elapsed), after, ratios[len(ratios)-1], peak>>20)
		if peak > mostMemory {
			t.Errorf("the run took %d MB of memory", peak>>20)
		}
	}
	slices.Sort(ratios)
	t.Logf("the median ratio of paces is %.2f", ratios[len(ratios)/2])
}
