//go:build unix && !race

package cmd

import (
	"context"
	le "encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/auth"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// The attack suite: in each run two devices take part beside simulated clients, good and evil.
// Good is honest. Evil joins and does one thing of the list while the run waits for its first
// task. Whatever it does, the run's model, virtual seconds, wall time and memory stay in bounds.

// attack is one thing that a hostile device does, under a name of its own, with
// what holds it.
type attack struct {
	name  string
	does  string
	holds string

	do     func(*attacker) // nil: it does something in each task
	task   inTask
	comes  comes
	banned string // part of the reason for which evil is banned; empty: it is not
	sets   string // further keys of the configuration, that the attack takes less time
}

// comes is what model the run comes to.
type comes int

const (
	others  comes = iota // the bits of the run without evil
	honest               // the bits of a run in which evil is honest: what it lies about does not count
	clipped              // as far from the run without evil as the bound on norms lets it
)

// Bounds of a run under attack. Undisturbed it takes half a second and 80 MB.
const (
	suiteWall   = 60        // seconds
	suiteMemory = 300 << 20 // bytes
)

// suiteConfig is a run with the default configuration of devices, of as little learning as
// there can be.
const suiteConfig = `name: suite
task: logistic
logistic: {features: 4, classes: 2}
clients: 20
cohort: 4
schedule: {k: fixed, k0: 3}
stop: {rounds: 4}
nats: {listen: '127.0.0.1:0'}
`

// suite is what all its runs have in common.
type suite struct {
	*testing.T
	dir       string
	authority *auth.Authority
	hurry     sync.Mutex
	runs      map[string]*undisturbed
}

// undisturbed is a run that is not attacked.
type undisturbed struct {
	once    sync.Once
	summary folder.Summary
	model   []float32
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{T: t, dir: t.TempDir(), runs: map[string]*undisturbed{}}
	var err error
	s.authority, err = auth.New(filepath.Join(s.dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"good", "evil", "leaver"} {
		s.issue(auth.Grant{Role: auth.RoleDevice, ID: id})
	}
	s.issue(auth.Grant{Role: auth.RoleDevice, ID: "brief", Lifetime: time.Second})
	return s
}

// issue makes the credentials of a device.
func (s *suite) issue(g auth.Grant) {
	s.Helper()
	b, err := s.authority.Issue(g)
	if err == nil {
		err = os.WriteFile(s.path(g.ID), b, 0o600)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) path(id string) string { return filepath.Join(s.dir, id+".creds") }

// besieged is one run of the suite.
type besieged struct {
	*testing.T
	suite *suite
	url   string
	lines *lines
	dir   string
	cmd   *exec.Cmd
	over  context.Context // ends with the run's process
	peak  int             // of memory, in bytes
}

// begin starts a run with some devices, of which good is there already if it is one.
func (s *suite) begin(t *testing.T, names, sets string) *besieged {
	t.Helper()
	dir := t.TempDir()
	r := &besieged{T: t, suite: s, dir: filepath.Join(dir, "run")}
	path := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(path, []byte(suiteConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--config", path, "--keys", filepath.Join(s.dir, "keys"), "--out", r.dir, "--set", "devices.names=" + names}
	for set := range strings.FieldsSeq(sets) {
		args = append(args, "--set", set)
	}
	r.start(args...)
	return r
}

// start starts a process of the run, at which good takes part.
func (r *besieged) start(args ...string) {
	r.Helper()
	t := r.T
	r.cmd = fedpace(t, args...)
	out, err := r.cmd.StderrPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.lines = follow(out)
	over, end := context.WithCancel(t.Context())
	r.over = over
	go func() {
		for ended := false; !ended; {
			select {
			case <-r.lines.ended:
				ended = true
			case <-time.After(10 * time.Millisecond):
				r.peak = max(r.peak, memoryOf(r.cmd.Process.Pid))
			}
		}
		_ = r.cmd.Wait() // the exit status says it
		end()
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-over.Done()
	})
	r.url = r.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)[1]
	r.attend("good")
}

// memoryOf is the most memory that a process has had, in bytes; 0 where no system says so.
func memoryOf(pid int) (n int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(rest, &n) // 0 fails the test that needs it
	}
	return n << 10
}

// attend has an honest device take part to the run's end.
func (r *besieged) attend(id string) {
	r.Helper()
	var running sync.WaitGroup
	over, url := r.over, r.url // a run that goes on has others
	running.Go(func() {
		err := runtest.Device{ID: id, URL: url, Creds: r.suite.path(id), Process: 1, Answer: func(_ *bus.Task, values []float32, u *bus.Update) {
			honestly(values)
			u.ComputeNs, u.FirstStepLoss, u.Samples = 1, 0.5, 20
		}}.TakePart(over)
		if err != nil && over.Err() == nil {
			r.Errorf("%s: %v", id, err)
		}
	})
	r.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		running.Wait()
	})
}

// honestly is what an honest device makes of the model.
func honestly(values []float32) []float32 {
	values[0] += 1e-3
	return values
}

// end waits for the run's end.
func (r *besieged) end() (s folder.Summary, model []float32) {
	r.Helper()
	select {
	case <-r.over.Done():
	case <-time.After(2 * time.Minute):
		r.Fatalf("the run goes on:\n%v", r.lines)
	}
	if r.cmd.ProcessState.ExitCode() != 0 {
		r.Fatalf("exit %d:\n%v", r.cmd.ProcessState.ExitCode(), r.lines)
	}
	s, err := folder.ReadSummary(filepath.Join(r.dir, folder.SummaryFile))
	if err != nil {
		r.Fatal(err)
	}
	return s, r.model()
}

// model reads the run's last model, whose values are behind a header in JSON.
func (r *besieged) model() (values []float32) {
	r.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "model.safetensors"))
	if err != nil {
		r.Fatal(err)
	}
	return floats(b[8+le.LittleEndian.Uint64(b):])
}

// without is the run of good and the simulated clients, beside an evil that is honest or away.
func (s *suite) without(t *testing.T, c comes, sets string) *undisturbed {
	t.Helper()
	names := "[good]"
	if c == honest {
		names = "[good, evil]"
	}
	s.hurry.Lock()
	key := names + sets
	r := s.runs[key]
	if r == nil {
		r = new(undisturbed)
		s.runs[key] = r
	}
	s.hurry.Unlock()
	r.once.Do(func() {
		run := s.begin(t, names, sets)
		if c == honest {
			run.attend("evil")
		}
		r.summary, r.model = run.end()
	})
	if r.summary.ModelSHA256 == nil {
		t.Fatal("the run without an attack failed")
	}
	return r
}

func TestAttacks_Suite(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	t.Run("all", func(t *testing.T) { // so that what they share outlives them
		for i, a := range attackSuite {
			t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
				if i%6 != 0 {
					slow.Test(t, "each attack is a run of its own")
				}
				t.Parallel()
				s.holds(t, &a)
			})
		}
	})
}

// holds plays an attack and holds the run to its bounds.
func (s *suite) holds(t *testing.T, a *attack) {
	quiet := s.without(t, a.comes, a.sets)
	r := s.begin(t, "[good, evil]", a.sets)
	x := &attacker{besieged: r, id: "evil", creds: s.path("evil")}
	x.join()
	if a.task != nil {
		a.task.each(x)
	} else {
		a.do(x)
	}
	x.resign()
	summary, model := r.end()
	if same := *summary.ModelSHA256 == *quiet.summary.ModelSHA256; a.comes != clipped && !same {
		t.Errorf("the model is another than without the attack:\n%v", r.lines)
	}
	if a.comes == clipped {
		text := r.lines.await(t, `An update of device evil is clipped: its norm is .*, the bound is (\S+) \(`)[1]
		bound, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if moved := apart(model, quiet.model); !(moved <= float64(summary.Rounds)*bound) {
			t.Errorf("the model is %g away from that without the attack, in %d rounds with a bound of %g", moved, summary.Rounds, bound)
		}
	}
	if most := quiet.summary.VirtualSeconds + 1.001*summary.WallSeconds; summary.VirtualSeconds > most {
		t.Errorf("%g virtual seconds; want those of the run without the attack and those on the wall at most, %g", summary.VirtualSeconds, most)
	}
	if summary.WallSeconds > suiteWall {
		t.Errorf("the run took %g s", summary.WallSeconds)
	}
	if r.peak > suiteMemory {
		t.Errorf("the run took %d MB of memory", r.peak>>20)
	}
	if banned := len(summary.Banned) > 0; banned != (a.banned != "") || banned && !strings.Contains(summary.Banned[0].Reason, a.banned) {
		t.Errorf("banned are %+v; want %q:\n%v", summary.Banned, a.banned, r.lines)
	}
	t.Logf("%.2f virtual seconds in %.2f, %d MB", summary.VirtualSeconds, summary.WallSeconds, r.peak>>20)
}

// All attacks after which a task cannot count, one after the other in the tasks of one run: the model has the
// bits of the run without the device, also if the run is played again. Of its answers nothing is kept, and each
// reason is reported once for the device and once for each refused update.
func TestAttacks_RefusedInOneRun(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	huge := attack{
		name: "a huge norm",
		task: refusedUpdate("norm is 1e+03, the limit is 1000", func(v []float32) []float32 { v[3] += 1001; return v }, nil),
	}
	list := []*attack{&huge}
	for i := range attackSuite {
		if a := &attackSuite[i]; a.task != nil && a.comes == others && a.banned == "" {
			list = append(list, a)
		}
	}
	sets := fmt.Sprintf("stop.rounds=%d devices.keep_updates=true devices.norm_limit=1000 devices.quota.refused_tasks=1000", len(list))
	quiet := s.without(t, others, sets)
	r := s.begin(t, "[good, evil]", sets)
	x := &attacker{besieged: r, id: "evil", creds: s.path("evil")}
	x.join()
	for i, a := range list {
		task := x.next()
		if task == nil {
			t.Fatalf("there is no task for %s:\n%v", a.name, r.lines)
		}
		if i == 0 {
			for _, verb := range []string{"update.0", "join", "heartbeat"} {
				if err := x.nats.Publish(x.subject(verb), []byte("\xff\xff\xff noise \x00")); err != nil {
					t.Fatal(err)
				}
			}
		}
		a.task(x, task, x.modelOf(task))
		if t.Failed() {
			t.Fatalf("%s, in task %d of %d:\n%v", a.name, i+1, len(list), r.lines)
		}
	}
	summary, _ := r.end()
	if *summary.ModelSHA256 != *quiet.summary.ModelSHA256 {
		t.Errorf("the model is another than without the attacks:\n%v", r.lines)
	}
	// What is refused takes no time either, whatever it says of its durations.
	if most := quiet.summary.VirtualSeconds + 1.001*summary.WallSeconds; summary.VirtualSeconds > most {
		t.Errorf("%g virtual seconds, want at most %g", summary.VirtualSeconds, most)
	}
	if refused := summary.Outcomes[round.Refused]; refused != int64(len(list)) || len(summary.Banned) > 0 {
		t.Errorf("%d updates are refused, want %d; banned are %+v", refused, len(list), summary.Banned)
	}
	for pattern, most := range map[string]int{"ignored \\(stale": 1, "ignored \\(malformed": 1, "An update of device evil is refused": len(list)} {
		if n := len(regexp.MustCompile(pattern).FindAllString(r.lines.String(), -1)); n < 1 || n > most {
			t.Errorf("%q is said %d times, want 1 to %d:\n%v", pattern, n, most, r.lines)
		}
	}
	for _, a := range answersOf(t, r.dir) {
		if evil := a.Client == 21; evil != (a.Kind == round.Invalid) || evil && a.Values != nil {
			t.Errorf("task %d of client %d is kept as %v", a.Task, a.Client, a.Kind)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", r.dir, "--out", again, "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	replayed, err := folder.ReadSummary(filepath.Join(again, folder.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if *replayed.ModelSHA256 != *summary.ModelSHA256 || replayed.Fingerprint != summary.Fingerprint {
		t.Errorf("a replay comes to %s, the run came to %s", replayed.Fingerprint, summary.Fingerprint)
	}
}

// apart is how far two models are from each other.
func apart(a, b []float32) float64 {
	square := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		square += d * d
	}
	return math.Sqrt(square)
}

// The page counts the suite's attacks by group, in the list's order, and its examples are of the group.
func TestAttacks_PageCountsSuite(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range attackSuite {
		all = append(all, a.name)
		t.Logf("%s: what %s; %s", a.name, a.does, a.holds)
	}
	_, section, _ := strings.Cut(string(page), "\n## The attack suite\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rest := all
	for _, row := range regexp.MustCompile(`(?m)^([^|\n]*) \| ([0-9]+) \| (.*)$`).FindAllStringSubmatch(section, -1) {
		n, err := strconv.Atoi(row[2])
		if err != nil || n > len(rest) {
			t.Fatalf("%s: %s attacks, of %d that are left: %v", row[1], row[2], len(rest), err)
		}
		for example := range strings.SplitSeq(row[3], "; ") {
			if !slices.Contains(rest[:n], example) {
				t.Errorf("%s: %q is not among %q", row[1], example, rest[:n])
			}
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		t.Errorf("docs/security.md does not count %q", rest)
	}
	names := map[string]bool{}
	for _, a := range attackSuite {
		names[a.name] = true
	}
	if len(names) != len(attackSuite) || len(names) < 40 {
		t.Errorf("%d names for %d attacks; want 40 or more of their own", len(names), len(attackSuite))
	}
}
