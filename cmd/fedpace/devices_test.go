//go:build unix

package main

import (
	"bufio"
	"context"
	le "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"fedpace/bus"
	"fedpace/bus/wire"
	"fedpace/coordinator/round"
	"fedpace/experiment"
	"fedpace/metrics/eventlog"
)

// site is a coordinator's process with a server that listens, and devices'
// processes beside it.
type site struct {
	*testing.T
	dir   string
	keys  string
	run   *exec.Cmd
	lines *lines
	url   string
}

// lines are what a process says, as it says it.
type lines struct {
	mu    sync.Mutex
	all   []string
	more  chan struct{}
	ended chan struct{} // it says no more
}

func follow(out io.Reader) *lines {
	l := &lines{more: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			l.mu.Lock()
			l.all = append(l.all, s.Text())
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
		}
		close(l.ended)
	}()
	return l
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// await waits for a line with the pattern and returns its submatches.
func (l *lines) await(t *testing.T, pattern string) []string {
	t.Helper()
	want := regexp.MustCompile(pattern)
	deadline := time.After(60 * time.Second)
	for {
		ended := false
		select {
		case <-l.ended:
			ended = true
		default:
		}
		l.mu.Lock()
		more := l.more
		for _, line := range l.all {
			if m := want.FindStringSubmatch(line); m != nil {
				l.mu.Unlock()
				return m
			}
		}
		l.mu.Unlock()
		select {
		case <-more:
			continue
		case <-l.ended:
			if !ended {
				continue // what it said last
			}
		case <-deadline:
		}
		t.Fatalf("nobody says %q, but\n%v", pattern, l)
	}
}

// devicesConfig is a run of simulated clients and devices that takes a second.
const devicesConfig = `name: mixed
task: femnist
clients: 200
cohort: %d
schedule: {k: fixed, k0: %d}
stop: {rounds: %d}
evaluate: {every: 2, samples: 200}
events: {sample: 1000}
`

// newSite starts a run with devices. sets are further lines of its configuration.
func newSite(t *testing.T, cohort, steps, rounds int, sets string) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir()}
	s.keys = filepath.Join(s.dir, "keys")
	config := s.config("run.yaml", fmt.Sprintf(devicesConfig, cohort, steps, rounds)+"nats: {listen: '127.0.0.1:0'}\n"+sets)
	s.run = fedpace(t, "run", "--config", config, "--keys", s.keys, "--out", s.path("run"))
	out, err := s.run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.start(s.run)
	s.lines = follow(out)
	s.url = s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)[1]
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) config(name, text string) string {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.path(name)
}

func (s *site) start(c *exec.Cmd) {
	s.Helper()
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// creds enrolls a device.
func (s *site) creds(id string) string {
	s.Helper()
	path := s.path(id + ".creds")
	if _, stderr, exit := finish(s.T, fedpace(s.T, "enroll", id, "--keys", s.keys, "--out", path)); exit != 0 {
		s.Fatal(stderr)
	}
	return path
}

// actor starts a device's process: this machine's program, or the one given.
func (s *site) actor(id string, program ...string) (*exec.Cmd, *lines) {
	s.Helper()
	args := []string{"actor", "--nats", s.url, "--client", id, "--creds", s.creds(id), "--once"}
	c := fedpace(s.T, args...)
	if len(program) > 0 {
		c = exec.CommandContext(s.Context(), program[0], append(program[1:], args...)...)
	}
	out, err := c.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	s.start(c)
	return c, follow(out)
}

// end waits for the run's end and returns its outcomes and summary.
func (s *site) end() experiment.Summary {
	s.Helper()
	if err := s.run.Wait(); err != nil {
		s.Fatalf("%v:\n%v", err, s.lines)
	}
	return s.summary("run")
}

func (s *site) summary(run string) experiment.Summary {
	s.Helper()
	summary, err := experiment.ReadSummary(filepath.Join(s.path(run), experiment.SummaryFile))
	if err != nil {
		s.Fatal(err)
	}
	return summary
}

// planned is what a task was and how long its client was to take, by its number.
type planned struct {
	Round, Client, LocalSteps int
	Plan                      round.Plan
}

// tasks reads a run's timeline.
func (s *site) tasks(run string) (simulated, real map[uint64]planned) {
	s.Helper()
	f, err := os.Open(filepath.Join(s.path(run), experiment.EventsFile))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	in, err := eventlog.NewReader(f)
	if err != nil {
		s.Fatal(err)
	}
	simulated, real = map[uint64]planned{}, map[uint64]planned{}
	for {
		r, err := in.Round()
		if errors.Is(err, io.EOF) {
			return simulated, real
		}
		if err != nil {
			s.Fatal(err)
		}
		for _, t := range r.Tasks {
			to := simulated
			if t.Real {
				to = real
			}
			to[t.Task] = planned{r.Round, t.Client, t.LocalSteps, t.Plan}
		}
	}
}

// arm64 is this program for linux/arm64 under emulation.
var arm64 = sync.OnceValues(func() (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(path), "fedpace-arm64")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

// emulated is the command line before the arguments of the arm64 program.
func emulated(t *testing.T) []string {
	t.Helper()
	if runtime.GOARCH == "arm64" {
		return nil // it needs no emulation
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		const missing = "the emulator of arm64 is not here: install qemu-user-static"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	path, err := arm64()
	if err != nil {
		t.Fatal(err)
	}
	return []string{qemu, path}
}

// 50 simulated actors and two real ones, one of them an arm64 program: the times
// that these measured are in the timeline, the simulated cohorts and plans are
// those of the run without devices, and a replay gives the same bits.
func TestAMixedRound(t *testing.T) {
	other := emulated(t)
	s := newSite(t, 50, 3, 3, "devices: {names: [pi1, pi2], liveness_seconds: 30}\n")
	_, one := s.actor("pi1")
	_, two := s.actor("pi2", other...)
	summary := s.end()
	if n := summary.Outcomes[round.Accepted]; !summary.Completed || n != 3*52 {
		t.Errorf("%d updates were accepted, want those of 3 rounds of 50 and 2:\n%v", n, s.lines)
	}
	for _, l := range []*lines{one, two} {
		l.await(t, "The run is over after 3 tasks")
	}

	said, err := experiment.ReadDevices(s.path("run"))
	if err != nil {
		t.Fatal(err)
	}
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
	if same(t, s.path("alone"), s.path("run")) {
		t.Error("the devices' updates are not in the model")
	}
}

// same tells whether two runs came to one model.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	one, err := os.ReadFile(filepath.Join(a, experiment.ModelFile))
	two, err2 := os.ReadFile(filepath.Join(b, experiment.ModelFile))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return string(one[len(one)-1000:]) == string(two[len(two)-1000:])
}

// A device that is killed over its task is lost, and the round closes. It was
// heard of before, so its task ends 2 virtual seconds after it was given.
func TestADeviceThatDiesIsLost(t *testing.T) {
	s := newSite(t, 1, 4000, 2, "devices: {names: [pi1, pi2], liveness_seconds: 2}\n")
	_, one := s.actor("pi1")
	victim, two := s.actor("pi2")
	one.await(t, "Joined run mixed as client 200")
	two.await(t, "Joined run mixed as client 201")
	time.Sleep(300 * time.Millisecond) // 4000 steps take a second and more
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	summary := s.end()
	if lost, accepted := summary.Outcomes[round.Lost], summary.Outcomes[round.Accepted]; lost != 1 || accepted != 2*2 {
		t.Errorf("%d lost, %d accepted; want 1 lost and the others' 4:\n%v", lost, accepted, s.lines)
	}
	s.lines.await(t, "Device pi2 is lost: nothing was heard of it for 2s")
	_, real := s.tasks("run")
	if got := real[round.FirstDeviceTask+1]; got.Client != 201 || !got.Plan.Drops || got.Plan.Dropout != 2e9 {
		t.Errorf("the lost task is %+v", got)
	}
}

// hostile is a device's credentials in the hands of somebody else.
type hostile struct {
	*site
	id    string
	nats  *nats.Conn
	tasks *nats.Subscription
	hello *wire.Welcome
}

func (s *site) raw(id string) *hostile {
	s.Helper()
	h := &hostile{site: s, id: id}
	var err error
	h.nats, err = nats.Connect(s.url, nats.UserCredentials(s.creds(id)), nats.CustomInboxPrefix(bus.InboxPrefix(id)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.MaxReconnects(5))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(h.nats.Close)
	if h.tasks, err = h.nats.SubscribeSync("fedpace.mixed.client." + id + ".task"); err != nil {
		s.Fatal(err)
	}
	return h
}

func (h *hostile) subject(verb string) string { return "fedpace.mixed.client." + h.id + "." + verb }

// ask sends a request until it is answered.
func (h *hostile) ask(subject string, m proto.Message) *wire.DeviceReply {
	h.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		h.Fatal(err)
	}
	for range 50 {
		answer, err := h.nats.Request(subject, b, 2*time.Second)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err != nil {
			h.Fatal(err)
		}
		var r wire.DeviceReply
		if err := proto.Unmarshal(answer.Data, &r); err != nil {
			h.Fatal(err)
		}
		return &r
	}
	h.Fatalf("no answer to %T on %s", m, subject)
	return nil
}

func (h *hostile) join() {
	h.Helper()
	if r := h.ask(h.subject("join"), &wire.Join{Name: h.id}); r.Verdict == wire.Verdict_VERDICT_ACCEPTED {
		h.hello = r.Welcome
	} else {
		h.Fatalf("the join is answered %v: %s", r.Verdict, r.Reason)
	}
}

// task is the next task.
func (h *hostile) task() *wire.Task {
	h.Helper()
	for {
		m, err := h.tasks.NextMsg(30 * time.Second)
		if err != nil {
			h.Fatalf("no task for %s: %v\n%v", h.id, err, h.lines)
		}
		var t wire.Task
		if err := proto.Unmarshal(m.Data, &t); err != nil {
			h.Fatal(err)
		}
		if t.Task != 0 || t.Over {
			return &t
		}
	}
}

// send sends an update of these values and returns the last answer.
func (h *hostile) send(task uint64, values []float32, change func(*wire.Update)) *wire.DeviceReply {
	h.Helper()
	b := make([]byte, 0, 4*len(values))
	for _, x := range values {
		b = le.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	const size = 1 << 19
	chunks := (len(b) + size - 1) / size
	for i := range chunks {
		u := &wire.Update{Task: task, Chunk: uint32(i), Chunks: uint32(chunks), Values: b[i*size : min((i+1)*size, len(b))]}
		if r := h.ask(h.subject(fmt.Sprint("update.", i)), u); r.Verdict != wire.Verdict_VERDICT_CONTINUE {
			return r
		}
	}
	last := &wire.Update{Task: task, Chunk: uint32(chunks), Chunks: uint32(chunks), DownloadNs: 1e6, ComputeNs: 1e6, UploadNs: 1e6, FirstStepLoss: 1, Samples: 10}
	if change != nil {
		change(last)
	}
	return h.ask(h.subject(fmt.Sprint("update.", chunks)), last)
}

// model fetches a task's model as docs/protocol.md has it.
func (h *hostile) model(task *wire.Task) (values []float32) {
	h.Helper()
	for i, chunks := 0, 1; i < chunks; i++ {
		m, err := h.nats.Request(fmt.Sprintf("$JS.API.DIRECT.GET.fedpace_mixed_models.fedpace.mixed.model.%x.%d", task.ModelDigest, i), nil, 5*time.Second)
		if err != nil {
			h.Fatal(err)
		}
		var c wire.ModelChunk
		if err := proto.Unmarshal(m.Data, &c); err != nil {
			h.Fatal(err)
		}
		chunks = int(c.Chunks)
		for b := c.Values; len(b) >= 4; b = b[4:] {
			values = append(values, math.Float32frombits(le.LittleEndian.Uint32(b)))
		}
	}
	return values
}

// Whatever a device with its credentials sends, its run's result is that of the
// run in which it only ever answered with what cannot count: nothing is stopped,
// nothing is counted twice, and a flood costs the device its place alone.
func TestHostileDevices(t *testing.T) {
	s := newSite(t, 6, 3, 6, "devices: {names: [evil, good], liveness_seconds: 20, norm_limit: 1000, link: modelled}\n")
	h := s.raw("evil")
	h.join()
	s.actor("good")
	refused := func(what string, r *wire.DeviceReply, reason string) {
		t.Helper()
		if r.Verdict != wire.Verdict_VERDICT_REFUSED || !strings.Contains(r.Reason, reason) {
			t.Errorf("%s is answered %v: %q; want a refusal with %q", what, r.Verdict, r.Reason, reason)
		}
	}
	var last *wire.Task
	for n, attack := range []struct {
		name   string
		change func(values []float32) []float32
		last   func(*wire.Update)
		reason string
	}{
		{"not a number", func(v []float32) []float32 { v[7] = float32(math.NaN()); return v }, nil, "parameter 7 is NaN"},
		{"infinity", func(v []float32) []float32 { v[0] = float32(math.Inf(-1)); return v }, nil, "parameter 0 is -Inf"},
		{"a huge norm", func(v []float32) []float32 { v[3] += 1001; return v }, nil, "norm is 1e+03, the limit is 1000"},
		{"a wrong shape", func(v []float32) []float32 { return v[:100] }, nil, "100 values"},
		{"10 MB", func([]float32) []float32 { return make([]float32, 10<<20/4) }, nil, "over 209662 values"},
		{"negative durations", nil, func(u *wire.Update) { u.ComputeNs = -1 }, "compute_ns is -1"},
	} {
		task := h.task()
		values := h.model(task)
		if n == 0 {
			// Another's task, an old round, replays and noise, none of which ends the task.
			refused("another's task", h.send(task.Task+1, values, nil), "is not open")
			refused("no task", h.ask(h.subject("update.0"), &wire.Update{Task: 1, Chunks: 1, Values: []byte{1, 2, 3, 4}}), "task 1 is not open")
			refused("noise as a join", h.ask(h.subject("join"), &wire.Join{Samples: 1 << 60}), "samples")
			for _, verb := range []string{"update.0", "join", "heartbeat"} {
				if err := h.nats.Publish(h.subject(verb), []byte("\xff\xff\xff noise \x00")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if last != nil {
			refused("an old round", h.send(last.Task, values, nil), "is not open")
		}
		if attack.change != nil {
			values = attack.change(values)
		}
		refused(attack.name, h.send(task.Task, values, attack.last), attack.reason)
		refused(attack.name+" again", h.send(task.Task, h.ones(10), nil), "")
		last = task
	}
	summary := s.end()
	if r, a := summary.Outcomes[round.Refused], summary.Outcomes[round.Accepted]; r != 6 || a != 6*7 {
		t.Errorf("%d refused, %d accepted; want 6 and the others' 42:\n%v", r, a, s.lines)
	}
	// Each reason is told once for the device, and each refused update.
	for pattern, most := range map[string]int{"ignored \\(stale": 1, "ignored \\(malformed": 1, "is refused": 6} {
		if n := len(regexp.MustCompile(pattern).FindAllString(s.lines.String(), -1)); n < 1 || n > most {
			t.Errorf("%q is said %d times, want 1 to %d:\n%v", pattern, n, most, s.lines)
		}
	}

	// What it sent left no trace: the honest device's and the simulated clients'
	// updates alone give this model.
	if _, stderr, exit := finish(t, fedpace(t, "run", "--replay", s.path("run"), "--out", s.path("again"), "--quiet")); exit != 0 {
		t.Fatal(stderr)
	}
	if again := s.summary("again"); *again.ModelSHA256 != *summary.ModelSHA256 || again.Fingerprint != summary.Fingerprint {
		t.Errorf("a replay comes to %s, the run came to %s", again.Fingerprint, summary.Fingerprint)
	}
	answers, err := experiment.ReadDevices(s.path("run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if evil := a.Client == 200; evil != (a.Kind == round.Invalid) || evil && a.Values != nil {
			t.Errorf("task %d of client %d is kept as %v", a.Task, a.Client, a.Kind)
		}
	}
}

func (h *hostile) ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// A flood of heartbeats costs its sender the place, and neither the run nor the
// other device anything.
func TestAFloodCostsADeviceItsPlace(t *testing.T) {
	beats := 100_000
	if os.Getenv("FEDPACE_LONG") != "" {
		beats = 1_000_000
	}
	s := newSite(t, 6, 3, 4, "devices: {names: [evil, good], liveness_seconds: 20}\n")
	h := s.raw("evil")
	h.join()
	s.actor("good")
	h.task()
	b, err := proto.Marshal(&wire.Heartbeat{})
	if err != nil {
		t.Fatal(err)
	}
	for range beats {
		if err := h.nats.Publish(h.subject("heartbeat"), b); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			break
		}
	}
	_ = h.nats.FlushTimeout(10 * time.Second)
	summary := s.end()
	if lost, accepted := summary.Outcomes[round.Lost], summary.Outcomes[round.Accepted]; lost != 1 || accepted != 4*7 {
		t.Errorf("%d lost, %d accepted; want 1 and the others' 28:\n%v", lost, accepted, s.lines)
	}
	s.lines.await(t, "Device evil has no place in the run any more: over 512 messages")
}

// A device stops at once and cleanly, also while it waits for its server.
func TestADeviceStops(t *testing.T) {
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

func TestMistakesWithADevice(t *testing.T) {
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
		{[]string{"run", "--set", "devices.names=[pi]", "--set", "aggregate.algorithm=scaffold"}, 1, "control variates"},
		{[]string{"run", "--set", "devices.names=[pi]", "--set", "select={rule: power_of_choice, candidates: 90}"}, 1, "select.rule"},
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
