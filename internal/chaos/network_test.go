//go:build unix

package chaos

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"fedpace/internal/testkit/slow"
)

// Connections that are slow, cut off, held up and flapping, of the coordinator
// and of a host: no round is lost and none is counted twice.
func TestConnections_Fail(t *testing.T) {
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	for name, fail := range map[string]func(p *proxy, progress func(tasks int)){
		"slow": func(p *proxy, progress func(tasks int)) { p.slow(20 * time.Millisecond); progress(8) },
		"cut":  func(p *proxy, _ func(int)) { p.cut(true); p.turnsAway(3) },
		"held": func(p *proxy, _ func(int)) { p.hold(); outage(1500 * time.Millisecond) }, // longer than nats.ack_seconds
		"flapping": func(p *proxy, _ func(int)) {
			for range 3 {
				p.connects(p.cut(false))
			}
		},
		"dead": func(p *proxy, _ func(int)) {
			p.hold()
			outage(500 * time.Millisecond)
			p.cut(true)
			p.turnsAway(2)
		},
	} {
		for _, of := range []string{"coordinator", "host"} {
			if one := name + " " + of; !slow.On() && one != "cut coordinator" && one != "dead host" {
				continue
			}
			t.Run(name+" "+of, func(t *testing.T) {
				t.Parallel()
				s := newServer(t, serverOptions{})
				w := watch(t, s)
				p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", s.options.Port))
				through := map[string]string{"coordinator": s.url(), "host": s.url()}
				through[of] = p.url()
				out := filepath.Join(t.TempDir(), "run")
				host(t, through["host"])
				run := c.coordinate(t, through["coordinator"], out)
				run.until("is there with 1 trainer", patience)
				w.tasks(8, run)
				fail(p, func(tasks int) { w.tasks(tasks, run) })
				p.heal()
				run.finish(patience)
				resultOf(t, out).equals(t, want, name)
			})
		}
	}
}
