//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/slow"
)

// The coordinator dies, and "fedpace resume" goes on with the same hosts.
func TestKill9_Coordinator(t *testing.T) {
	t.Parallel()
	trials, kills, some := 1, 2, courses[1:2]
	if slow.On() {
		trials, kills, some = 9, 3, courses // 216 in all
	}
	for trial := range trials {
		for _, c := range some {
			t.Run(fmt.Sprint(c.name, trial), func(t *testing.T) {
				t.Parallel()
				want := c.undisturbed(t)
				draws := rand.New(rand.NewPCG(uint64(trial), 8))
				s := newServer(t, serverOptions{})
				w := watch(t, s)
				out := filepath.Join(t.TempDir(), "run")
				host(t, s.url())
				p := c.coordinate(t, s.url(), out)
				p.until("is there with 1 trainer", patience)
				for range kills {
					w.tasks(draws.IntN(25), p)
					p.kill()
					if draws.IntN(3) == 0 { // and the server with it
						s.kill()
						s.start()
					}
					p = fedpace(t, "resume", out, "--elsewhere", "--nats", s.url())
				}
				p.finish(patience)
				resultOf(t, out).equals(t, want, "resumed")
			})
		}
	}
}
