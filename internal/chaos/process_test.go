//go:build unix

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/internal/testkit/testport"
)

// process is one that a test may kill. It ends with the test at the latest.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	text bytes.Buffer  // all that it said
	more chan struct{} // closed when it says more
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.text.Write(b)
}

func (p *process) said() string {
	text, _ := p.saidSoFar()
	return text
}

// saidSoFar also returns a channel that is closed when there is more.
func (p *process) saidSoFar() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String(), p.more
}

// lastLine is the last line that it said.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.said()), "\n")
	return lines[len(lines)-1]
}

func start(t testing.TB, name string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its exit status says it
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.said())
		}
	})
	return p
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // one that has ended is as dead
	<-p.done
}

// running tells whether it has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ends waits for an end of any kind.
func (p *process) ends(within time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended within %v", p.name, within)
	}
}

// finish waits for a clean end.
func (p *process) finish(within time.Duration) {
	p.t.Helper()
	p.ends(within)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("%s: exit status %d", p.name, code)
	}
}

// until waits until the process has said something.
func (p *process) until(text string, within time.Duration) {
	p.t.Helper()
	if !p.says(text, within) {
		p.t.Fatalf("%s ended and did not say %q", p.name, text)
	}
}

// says waits until the process has said something, or has ended, and reports whether it said it.
func (p *process) says(text string, within time.Duration) bool {
	p.t.Helper()
	for end := time.After(within); ; {
		running := p.running() // before the text is looked at: nothing comes after the end
		said, more := p.saidSoFar()
		if strings.Contains(said, text) {
			return true
		}
		if !running {
			return false
		}
		select {
		case <-more:
		case <-p.done:
		case <-end:
			p.t.Fatalf("%s did not say %q within %v", p.name, text, within)
		}
	}
}

// completed reports whether the process has ended well.
func (p *process) completed() bool { return !p.running() && p.cmd.ProcessState.ExitCode() == 0 }

func fedpace(t testing.TB, args ...string) *process {
	t.Helper()
	return start(t, "fedpace "+args[0], exec.Command(program, args...))
}

// fails waits for an end with status 1 whose one line holds some words.
func (p *process) fails(want string, within time.Duration) {
	p.t.Helper()
	p.ends(within)
	last := p.lastLine()
	if code := p.cmd.ProcessState.ExitCode(); code != 1 || !strings.HasPrefix(last, "fedpace: ") || !strings.Contains(last, want) {
		p.t.Errorf("%s: exit status %d, %q; want 1 and a line with %q", p.name, code, p.said(), want)
	}
}

func host(t testing.TB, url string, args ...string) *process {
	t.Helper()
	return fedpace(t, append([]string{"host", "--nats", url, "--workers", "1"}, args...)...)
}

// natsServer is a server in a process of its own.
type natsServer struct {
	*process
	t       testing.TB
	options serverOptions
}

// listening is the line by which a server's process says that clients can connect.
const listening = "listening"

func newServer(t testing.TB, o serverOptions) *natsServer {
	t.Helper()
	if o.Port == 0 {
		o.Port = heldPort(t)
	}
	if o.Store == "" {
		o.Store = t.TempDir()
	}
	s := &natsServer{t: t, options: o}
	s.start()
	return s
}

func (s *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.options.Port) }

// start starts the server, also after kill, and waits until it listens.
func (s *natsServer) start() {
	s.t.Helper()
	text, err := json.Marshal(s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
	s.process = start(s.t, "NATS server", cmd)
	s.until(listening, patience)
}

// forget takes away what the server has on disk.
func (s *natsServer) forget() {
	s.options.Store = s.t.TempDir()
}

// heldPort is a port that stays the test's own while its server is down.
func heldPort(t testing.TB) int {
	t.Helper()
	_, text, err := net.SplitHostPort(testport.Held(t))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// result is what must not depend on anything that happens to a run.
type result struct {
	Completed   bool
	Rounds      int
	Model       string `json:"model_sha256"`
	Fingerprint string
	Outcomes    map[string]int64
	Loss        float64 `json:"validation_loss"`
}

func resultOf(t testing.TB, dir string) (r result) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r result) equals(t testing.TB, want result, how string) {
	t.Helper()
	if got, want := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("%s:\n got %s\nwant %s", how, got, want)
	}
}
