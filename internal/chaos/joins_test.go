//go:build unix

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// 200 hosts join a run at once, ten of which hold other data: these are refused with a
// line that names what differs, the others take part, and the run comes to its bits.
//
//	FEDPACE_LONG=1 go test -v -run Hosts_JoinAtOnce ./internal/chaos
func TestHosts_JoinAtOnce(t *testing.T) {
	t.Parallel()
	joining, strangers := 5, 1
	if slow.On() {
		joining, strangers = 190, 10
	}
	c := courses[1]
	want := c.undisturbed(t)
	dir := t.TempDir()
	other := filepath.Join(dir, "other.parquet")
	if err := writeData(other, 30, 1); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, serverOptions{})
	small := func(args ...string) *process {
		cmd := exec.Command(program, append([]string{"host", "--nats", s.url(), "--workers", "1", "--once"}, args...)...)
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=50")
		return start(t, "fedpace host", cmd)
	}
	var hosts, strange []*process
	for i := range joining + strangers {
		if i < strangers {
			strange = append(strange, small("--data", other))
		} else {
			hosts = append(hosts, small("--name", fmt.Sprint("h", i)))
		}
	}
	for _, h := range append(hosts, strange...) {
		h.until("Waiting", patience)
	}
	out := filepath.Join(dir, "run")
	run := c.coordinate(t, s.url(), out, "--set", "pace=1")
	resident := 0
	for _, h := range hosts {
		h.until("here, with 1 trainer", patience)
		resident += h.resident()
	}
	if !run.running() {
		t.Error("the run was over before all had joined")
	}
	t.Logf("%d hosts hold %d MB of memory", len(hosts), resident>>20)
	for _, h := range strange {
		h.until("holds other data than the run's", patience)
	}
	run.finish(patience)
	resultOf(t, out).equals(t, want, fmt.Sprint(joining, " hosts"))
	if n := strings.Count(run.said(), "is there with 1 trainer"); n < joining {
		t.Errorf("the coordinator has seen %d hosts that train, want %d", n, joining)
	}
}

// resident is the memory that a process has to itself, in bytes; 0 where no system says
// so.
func (p *process) resident() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, resident, shared int // pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		p.t.Fatal(err)
	}
	return (resident - shared) * os.Getpagesize()
}
