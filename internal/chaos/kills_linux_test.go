package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// Whatever part is killed with kill -9, at a moment that a seed draws, the run comes to
// the model, the fingerprint and the rounds.csv of one that nobody disturbed, and verify
// finds nothing in its folder. Without FEDPACE_LONG there is one kill, in mid-checkpoint, which
// no other test does; with it there are 100:
//
//	FEDPACE_LONG=1 go test -v -run Kill9_Matrix -timeout 30m ./internal/chaos
func TestKill9_Matrix(t *testing.T) {
	t.Parallel()
	wants := map[*course]whole{}
	some := courses[3:4]
	if slow.On() {
		some = courses
	}
	for _, c := range some {
		out := filepath.Join(t.TempDir(), "run")
		fedpace(t, append([]string{"run"}, c.flags(out)...)...).finish(patience)
		wants[c] = wholeOf(t, out)
	}
	var kills, equal atomic.Int64
	t.Run("kills", func(t *testing.T) {
		for i, kind := range []struct {
			name   string
			trials int
			// kill kills parts of the run, and reports whether each died before the run's end.
			kill func(*victims) bool
		}{
			{"coordinator", 20, (*victims).coordinator},
			{"host", 16, (*victims).host},
			{"server", 16, func(v *victims) bool { return v.server(false) }},
			{"server with its store", 16, func(v *victims) bool { return v.server(true) }},
			{"in mid-checkpoint", 16, (*victims).midCheckpoint},
			{"twice", 8, func(v *victims) bool { return v.coordinator() && v.again() }},
		} {
			if !slow.On() {
				kind.trials = map[string]int{"in mid-checkpoint": 1}[kind.name]
			}
			for trial := range kind.trials {
				c := some[trial%len(some)]
				t.Run(fmt.Sprint(kind.name, " ", trial, " ", c.name), func(t *testing.T) {
					t.Parallel()
					draws := rand.New(rand.NewPCG(uint64(trial), uint64(i)))
					var v *victims
					inTime(t, func() bool {
						v = newVictims(t, c, draws)
						return kind.kill(v)
					})
					v.run.finish(patience)
					got, want := wholeOf(t, v.out), wants[c]
					got.equals(t, want.result, kind.name)
					if got.rounds != want.rounds {
						t.Errorf("another rounds.csv: got\n%s\nwant\n%s", got.rounds, want.rounds)
					}
					fedpace(t, "verify", v.out).finish(patience)
					kills.Add(int64(v.kills))
					if !t.Failed() {
						equal.Add(int64(v.kills))
					}
				})
			}
		}
	})
	t.Logf("%d of %d kills end in the bits of the undisturbed run", equal.Load(), kills.Load())
	if want := map[bool]int64{false: 1, true: 100}[slow.On()]; kills.Load() != want {
		t.Errorf("%d kills, want %d", kills.Load(), want)
	}
}

// whole is a result with the history behind it.
type whole struct {
	result
	rounds string
}

func wholeOf(t *testing.T, out string) whole {
	t.Helper()
	rounds, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return whole{resultOf(t, out), string(rounds)}
}

// victims are the parts of a run of which some will be killed.
type victims struct {
	t      *testing.T
	course *course
	draws  *rand.Rand
	out    string
	nats   *natsServer
	hosts  []*process
	run    *process
	watch  *watcher
	kills  int
}

// newVictims starts a run with two hosts, and lets it come to the moment of the kill.
func newVictims(t *testing.T, c *course, draws *rand.Rand) *victims {
	s := newServer(t, serverOptions{})
	v := &victims{t: t, course: c, draws: draws, out: filepath.Join(t.TempDir(), "run"), nats: s, watch: watch(t, s)}
	v.hosts = []*process{host(t, s.url()), host(t, s.url())}
	v.run = c.coordinate(t, s.url(), v.out)
	v.run.until("is there with 1 trainer", patience)
	v.watch.tasks(draws.IntN(40), v.run)
	return v
}

// killed kills a part of the run, and reports whether that was before the run's end.
func (v *victims) killed(p *process) bool {
	p.kill()
	if v.run.completed() {
		return false
	}
	v.kills++
	return true
}

func (v *victims) coordinator() bool {
	if !v.killed(v.run) {
		return false
	}
	v.run = fedpace(v.t, "resume", v.out, "--elsewhere", "--nats", v.nats.url())
	return true
}

func (v *victims) host() bool {
	i := v.draws.IntN(len(v.hosts))
	if !v.killed(v.hosts[i]) {
		return false
	}
	if v.draws.IntN(2) == 0 {
		v.hosts[i] = host(v.t, v.nats.url())
	}
	return true
}

func (v *victims) server(forgets bool) bool {
	if !v.killed(v.nats.process) {
		return false
	}
	if forgets {
		v.nats.forget()
	}
	outage(time.Duration(v.draws.Int64N(int64(300 * time.Millisecond))))
	v.nats.start()
	return true
}

// again kills the coordinator that goes on: while it waits for the lease of the dead one,
// while it opens the run, or in its rounds.
func (v *victims) again() bool {
	switch v.draws.IntN(3) {
	case 0:
		v.run.says("Waiting for the lease", patience) // or is over, which its kill shows
	case 1:
		v.run.says("The run ", patience) // goes on after a round, or starts again
		outage(time.Duration(v.draws.Int64N(int64(50 * time.Millisecond))))
	default:
		v.watch.tasks(1+v.draws.IntN(8), v.run)
	}
	return v.coordinator()
}

// midCheckpoint kills the coordinator while a part of a checkpoint is on the disk.
func (v *victims) midCheckpoint() bool { return v.caughtInCheckpoint() && v.coordinator() }

// caughtInCheckpoint freezes the run while the file of its next checkpoint is on the
// disk. It reports false where the run ends before.
func (v *victims) caughtInCheckpoint() bool {
	const name = ".checkpoint.unfinished"
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err == nil {
		_, err = syscall.InotifyAddWatch(fd, v.out, syscall.IN_CREATE|syscall.IN_MODIFY)
	}
	if err != nil {
		v.t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	ended := make(chan struct{})
	defer func() { <-ended }()
	over, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer close(ended)
		select {
		case <-v.run.done:
			_ = events.SetReadDeadline(time.Now()) // fails only on a closed file
		case <-over.Done():
		}
	}()
	b := make([]byte, 4096)
	for after := v.draws.IntN(4); ; { // steps of the writing
		n, err := events.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		if err != nil {
			v.t.Fatal(err)
		}
		if after -= countEvents(b[:n], name); after >= 0 {
			continue
		}
		after = 0
		if !v.run.running() {
			return false
		}
		v.freeze()
		if _, err := os.Lstat(filepath.Join(v.out, name)); err == nil {
			return true
		}
		signal(v.t, v.run, syscall.SIGCONT) // it was faster
	}
}

// countEvents counts those of a file among inotify's events.
func countEvents(b []byte, name string) (n int) {
	for len(b) >= syscall.SizeofInotifyEvent {
		length := int(binary.NativeEndian.Uint32(b[12:])) // of the name, with zeros behind it
		b = b[syscall.SizeofInotifyEvent:]
		if of, _, _ := bytes.Cut(b[:length], []byte{0}); string(of) == name {
			n++
		}
		b = b[length:]
	}
	return n
}

// freeze stops the coordinator, and returns when each of its threads stands.
func (v *victims) freeze() {
	signal(v.t, v.run, syscall.SIGSTOP)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", v.run.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		v.t.Fatalf("%d threads (%v)", len(tasks), err)
	}
	for _, path := range tasks {
		for stands := false; !stands; {
			text, err := os.ReadFile(path) // PID (NAME) STATE ...
			_, state, _ := strings.Cut(string(text), ") ")
			stands = errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.HasPrefix(state, "T") || strings.HasPrefix(state, "Z")
		}
	}
}
