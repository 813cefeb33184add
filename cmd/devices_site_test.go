//go:build unix

package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"fedpace/cmd/internal/cli"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
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
	deadline := time.After(3 * time.Minute)
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
	return siteOf(t, fmt.Sprintf(devicesConfig, cohort, steps, rounds)+sets)
}

// siteOf is the site of a run with a configuration, to which the server's address is
// added.
func siteOf(t *testing.T, text string) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir()}
	s.keys = filepath.Join(s.dir, "keys")
	config := s.config("run.yaml", text+"nats: {listen: '127.0.0.1:0'}\n")
	s.run = fedpace(t, "run", "--config", config, "--keys", s.keys, "--out", s.path("run"))
	s.lines = s.listen(s.run)
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

// listen starts a process and returns what it says.
func (s *site) listen(c *exec.Cmd) *lines {
	s.Helper()
	out, err := c.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	s.start(c)
	said := follow(out)
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("%q said:\n%v", c.Args[1:], said)
		}
	})
	return said
}

// tasksOf are a device's tasks as another sees them on the server.
func (s *site) tasksOf(id string) *nats.Subscription {
	s.Helper()
	c, err := nats.Connect(s.url, nats.UserCredentials(s.creds("witness", "--coordinator")))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.Close)
	tasks, err := c.SubscribeSync("fedpace.mixed.client." + id + ".task")
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		s.Fatal(err)
	}
	return tasks
}

// creds enrolls a device, or with a flag somebody else, without a process of its own.
func (s *site) creds(id string, flags ...string) string {
	s.Helper()
	path := s.path(id + ".creds")
	if _, err := os.Stat(path); err == nil { // of before
		return path
	}
	args := append([]string{"enroll", id, "--keys", s.keys, "--out", path}, flags...)
	if status, printed := played(s.T, args...); status != cli.ExitOK {
		s.Fatal(printed)
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
	return c, s.listen(c)
}

// end waits for the run's end and returns its outcomes and summary.
func (s *site) end() folder.Summary {
	s.Helper()
	if err := s.run.Wait(); err != nil {
		s.Fatalf("%v:\n%v", err, s.lines)
	}
	return s.summary("run")
}

func (s *site) summary(run string) folder.Summary {
	s.Helper()
	summary, err := folder.ReadSummary(filepath.Join(s.path(run), folder.SummaryFile))
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

// tasks reads a run's metrics.
func (s *site) tasks(run string) (simulated, real map[uint64]planned) {
	s.Helper()
	f, err := os.Open(filepath.Join(s.path(run), eventlog.File))
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

// deviceForARM is the device's program for linux/arm64, for the emulator.
var deviceForARM = sync.OnceValues(func() (string, error) {
	return build("fedpace-device", "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
})

// emulated is the command line before the arguments of an arm64 program; none, for one of
// this machine, unless tests may take long.
func emulated(t *testing.T, program func() (string, error)) []string {
	t.Helper()
	if runtime.GOARCH == "arm64" || !slow.On() {
		return nil
	}
	qemu := installed.Program(t, "qemu-aarch64-static", "qemu-user-static")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return []string{qemu, path}
}
