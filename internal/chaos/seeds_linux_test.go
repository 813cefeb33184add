package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// faultsBySeed is how many times a run of TestFaults_BySeed is disturbed.
const faultsBySeed = 5

// longestFault is how long a part is paused or cut off at most. A lease lasts 5 s.
const longestFault = 8 * time.Second

// reportedAfter is how long the next task may take until what the parts said is logged.
const reportedAfter = 5 * time.Second

// Each seed kills, pauses and cuts off parts of a run, one after the other: its coordinator, its two hosts and its
// server, each of which is a process. The run must end with the bits of an undisturbed one. How long it takes until
// the next task is sent is reported. A run may be over before its last fault. To play 500 faults in parts of 20 seeds,
// give this six times:
//
//	FEDPACE_LONG=1 go test ./internal/chaos -v -run Faults_BySeed -timeout 2h -trials 20 -progress FILE
func TestFaults_BySeed(t *testing.T) {
	slow.Test(t, "it kills, pauses and cuts off processes for minutes")
	first := slow.NextSeed(t, *progress)
	var faults, longest atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+*trials; seed++ {
			c := courses[seed%uint64(len(courses))]
			t.Run(fmt.Sprint(seed, " ", c.name), func(t *testing.T) {
				t.Parallel()
				want := c.undisturbed(t)
				s := newStage(t, c, rand.New(rand.NewPCG(seed, 500)))
				for range faultsBySeed {
					s.watch.tasks(1+s.draws.IntN(20), s.run)
					if !s.run.running() {
						break
					}
					name := s.strike()
					ended := time.Now()
					s.watch.tasks(1, s.run)
					took := time.Since(ended)
					t.Logf("%s: the next task was sent after %.1f s", name, took.Seconds())
					if took > reportedAfter {
						t.Logf("%s said:\n%s\nthe hosts said:\n%s\n%s", s.run.name, s.run.said(), s.hosts[0].said(), s.hosts[1].said())
					}
					faults.Add(1)
					for before := longest.Load(); int64(took) > before; before = longest.Load() {
						longest.CompareAndSwap(before, int64(took))
					}
				}
				s.run.finish(patience)
				resultOf(t, s.out).equals(t, want, "disturbed")
			})
		}
	})
	t.Logf("%d kills, cuts and pauses of %d seeds; the next task was sent at most %.1f s after the end of one", faults.Load(),
		*trials, time.Duration(longest.Load()).Seconds())
	slow.SetNextSeed(t, *progress, first+*trials)
}

// stage is a run of which each part can be disturbed.
type stage struct {
	t     *testing.T
	draws *rand.Rand
	out   string
	nats  *natsServer
	watch *watcher
	// links are the connections of the coordinator, and behind it of the hosts.
	links [3]*proxy
	run   *process
	hosts [2]*process
}

// newStage starts a run and waits until a host is there.
func newStage(t *testing.T, c *course, draws *rand.Rand) *stage {
	t.Helper()
	s := &stage{t: t, draws: draws, out: filepath.Join(t.TempDir(), "run"), nats: newServer(t, serverOptions{})}
	s.watch = watch(t, s.nats)
	for i := range s.links {
		s.links[i] = newProxy(t, strings.TrimPrefix(s.nats.url(), "nats://"))
	}
	for i := range s.hosts {
		s.startHost(i)
	}
	s.run = c.coordinate(t, s.links[0].url(), s.out, "--set", "pace=2")
	s.run.until("is there with 1 trainer", patience)
	return s
}

// startHost starts a host behind its link.
func (s *stage) startHost(i int) { s.hosts[i] = host(s.t, s.links[1+i].url()) }

// strike disturbs a part that the seed draws, and returns when the part works again, with words for what happened.
func (s *stage) strike() string {
	s.t.Helper()
	long := time.Duration(s.draws.Int64N(int64(longestFault)))
	part := s.draws.IntN(4)
	name := []string{"coordinator", "host 0", "host 1", "server"}[part]
	switch s.draws.IntN(3) {
	case 0:
		return s.kill(part, name)
	case 1:
		p := [...]*process{s.run, s.hosts[0], s.hosts[1], s.nats.process}[part]
		signal(s.t, p, syscall.SIGSTOP)
		outage(long)
		signal(s.t, p, syscall.SIGCONT)
		return fmt.Sprintf("%s paused for %.1f s", name, long.Seconds())
	default:
		links := s.links[:]
		if part < len(s.links) {
			links = s.links[part : part+1]
		}
		silent := s.draws.IntN(2) == 0
		for _, link := range links {
			if silent {
				link.hold()
			} else {
				link.cut(true)
			}
		}
		outage(long)
		for _, link := range links {
			link.heal()
		}
		return fmt.Sprintf("%s cut off for %.1f s, silently: %v", name, long.Seconds(), silent)
	}
}

// kill kills a part and starts another in its place after a moment.
func (s *stage) kill(part int, name string) string {
	s.t.Helper()
	away := time.Duration(s.draws.Int64N(int64(time.Second)))
	switch part {
	case 0:
		s.run.kill()
		outage(away)
		s.run = fedpace(s.t, "resume", s.out, "--elsewhere", "--nats", s.links[0].url())
	case 3:
		s.nats.kill()
		outage(away)
		s.nats.start()
	default:
		s.hosts[part-1].kill()
		outage(away)
		s.startHost(part - 1)
	}
	return name + " killed"
}
