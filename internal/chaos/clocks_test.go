//go:build unix

package chaos

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// The wall clock of a coordinator, a host or a server jumps a day on, back, and another
// day back while a run goes on; then the host is killed, and the coordinator. The run comes
// to its bits. The clocks are those of processes: the program and the server are built with a
// package time whose Now adds what a file says, so the machine's clock stays as it is.
//
//	FEDPACE_LONG=1 go test -v -run Clock_Jumps -timeout 30m ./internal/chaos
func TestClock_Jumps(t *testing.T) {
	slow.Test(t, "it builds the program anew from the standard library on")
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	b := buildWithClocks(t)
	for _, who := range []string{"coordinator", "host", "server", "coordinator with a server"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			x := &clock{t: t, path: filepath.Join(t.TempDir(), "clock")}
			x.write(0, 0)
			// begin starts a process, on the clock that jumps if it is its.
			begin := func(part string, cmd *exec.Cmd) *process {
				cmd.Env = append(os.Environ(), cmd.Env...)
				if strings.HasPrefix(who, part) {
					cmd.Env = append(cmd.Env, clockVariable+"="+x.path)
				}
				return start(t, part, cmd)
			}
			var url string
			var own, creds []string // flags of the coordinator and the host
			if strings.HasSuffix(who, "with a server") {
				k, address := newKeys(t), testport.Held(t)
				k.enroll("--host", "box")
				url, creds = "nats://"+address, []string{"--creds", k.creds("box")}
				own = []string{"--keys", k.dir}
			} else {
				s := serverOptions{Port: heldPort(t), Store: t.TempDir()}
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(b.server)
				cmd.Env = []string{serverVariable + "=" + string(text)}
				begin("server", cmd).until(listening, patience)
				url = fmt.Sprintf("nats://127.0.0.1:%d", s.Port)
				own = []string{"--nats", url}
			}
			out := filepath.Join(t.TempDir(), "run")
			args := append([]string{"coordinator", "--set", "pace=1", "--set", "http=127.0.0.1:0"}, c.flags(out, own...)...)
			if creds != nil {
				args = append(args, "--set", "nats.listen="+strings.TrimPrefix(url, "nats://"))
			}
			host := func() *process {
				return begin("host", exec.Command(b.program, append([]string{"host", "--nats", url, "--workers", "1"}, creds...)...))
			}
			h := host()
			run := newPacer(t, begin("coordinator", exec.Command(b.program, args...)))
			for _, days := range []int64{1, 0, -1} {
				run.rounds(run.round() + 1)
				x.jump(days)
			}
			h.kill() // its tasks and jobs go to the next one
			host()
			run.rounds(run.round() + 1)
			if !run.running() {
				t.Fatal("the run was over before the clock had jumped")
			}
			run.kill()
			p := begin("coordinator", exec.Command(b.program, append([]string{"resume", out, "--elsewhere"}, own...)...))
			p.finish(patience)
			t.Logf("the first coordinator said\n%s\nthe second\n%s", run.said(), p.said())
			resultOf(t, out).equals(t, want, "after jumps of a clock")
		})
	}
}

// clockVariable names the file with the seconds that a process adds to its wall clock.
const clockVariable = "FEDPACE_TEST_CLOCK"

// clockSource is what package time has in addition. The file holds the seconds to add,
// and those that were added last.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

type jumps struct{ add, added int64 }

var clock = func() *jumps {
	path, found := syscall.Getenv("` + clockVariable + `")
	if !found {
		return new(jumps)
	}
	file, err := syscall.Open(path, syscall.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	b, err := syscall.Mmap(file, 0, 16, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*jumps)(unsafe.Pointer(&b[0]))
}()

func jumped() int64 {
	add := atomic.LoadInt64(&clock.add)
	atomic.StoreInt64(&clock.added, add)
	return add
}
`

// clock is a file with what a process adds to its wall clock.
type clock struct {
	t    *testing.T
	path string
}

// write writes one of the file's two numbers.
func (c *clock) write(i int64, seconds int64) {
	c.t.Helper()
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Truncate(16)
	}
	if err == nil {
		_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(seconds)), 8*i)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// jump sets the clock that many days off, and waits until its process has seen that.
func (c *clock) jump(days int64) {
	c.t.Helper()
	c.write(0, days*86_400)
	for started := time.Now(); ; outage(5 * time.Millisecond) {
		b, err := os.ReadFile(c.path)
		if err != nil {
			c.t.Fatal(err)
		}
		if int64(binary.NativeEndian.Uint64(b[8:])) == days*86_400 {
			return
		}
		if time.Since(started) > patience {
			c.t.Fatalf("nothing has read the clock within %v", patience)
		}
	}
}

// built are the program and this test, which is the server, with clocks that jump.
type built struct{ program, server string }

func buildWithClocks(t *testing.T) built {
	t.Helper()
	dir := t.TempDir()
	b := built{filepath.Join(dir, "fedpace"), filepath.Join(dir, "server")}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	pkg := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(pkg, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const reading = "sec, nsec, mono := runtimeNow()\n"
	head, now, found := strings.Cut(string(source), "func Now() Time {\n\t"+reading)
	if !found {
		t.Fatal("time.Now is not what it was: " + reading + " is not its first line")
	}
	replaced := map[string]string{}
	for name, text := range map[string]string{"time.go": head + "func Now() Time {\n\t" + reading + "\tsec += jumped()\n" + now, "jumps.go": clockSource} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[filepath.Join(pkg, name)] = path
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"build", "-overlay", overlay, "-o", b.program, "fedpace/cmd/fedpace"},
		{"test", "-overlay", overlay, "-vet=off", "-c", "-o", b.server, "fedpace/internal/chaos"},
	} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return b
}

// The wall clock of a device runs ahead. With credentials that have no end it takes part, and so does one whose clock
// jumps past their end in the middle; one that starts beyond their end is told to set its clock. The run comes to the
// model that it comes to with a right clock.
//
//	FEDPACE_LONG=1 go test -v -run Clock_DeviceAhead -timeout 30m ./internal/chaos
func TestClock_DeviceAhead(t *testing.T) {
	slow.Test(t, "it builds the program anew from the standard library on")
	t.Parallel()
	b := buildWithClocks(t)
	models := map[string]string{}
	for _, c := range []struct {
		name string
		// enroll are further flags of the device's credentials.
		enroll []string
		// start and jump are by how many days the clock is ahead at first, and after two rounds.
		start, jump int64
	}{
		{name: "right"},
		{name: "ahead", start: 10, jump: 10},
		{name: "jumps past the end of its credentials", enroll: []string{"--expires", "720h"}, jump: 60},
	} {
		x := &clock{t: t, path: filepath.Join(t.TempDir(), "clock")}
		x.write(0, 0)
		k := newKeys(t)
		k.enroll(append([]string{"pi"}, c.enroll...)...)
		address := testport.Held(t)
		out := filepath.Join(t.TempDir(), "run")
		args := []string{
			"run", "--keys", k.dir, "--set", "nats.listen=" + address, "--set", "pace=2", "--set", "http=127.0.0.1:0",
			"--set", "devices={names: [pi], include: every_round, liveness_seconds: 300, link: modelled}",
		}
		run := newPacer(t, fedpace(t, append(args, courses[0].flags(out)...)...))
		device := func() *process {
			cmd := exec.Command(b.program, "actor", "--nats", "nats://"+address, "--client", "pi", "--creds", k.creds("pi"),
				"--data", data, "--owner", "site0")
			cmd.Env = append(os.Environ(), clockVariable+"="+x.path)
			return start(t, "fedpace actor", cmd)
		}
		x.write(0, c.start*86_400)
		device()
		run.rounds(2)
		x.jump(c.jump)
		run.finish(patience)
		models[c.name] = resultOf(t, out).Model
		if c.jump > c.start {
			const advice = "set the clock if it is wrong, else renew them (fedpace enroll --renew pi)"
			device().fails(advice, patience)
		}
	}
	for name, model := range models {
		if model != models["right"] {
			t.Errorf("with a clock that %s the model is %s, else %s", name, model, models["right"])
		}
	}
}
