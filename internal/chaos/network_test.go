//go:build unix

package chaos

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// Connections that are slow, cut off, held up and flapping, of the coordinator
// and of a host: no round is lost and none is counted twice.
func TestConnectionsThatFail(t *testing.T) {
	t.Parallel()
	c := courses[1]
	want := c.undisturbed(t)
	for name, fail := range map[string]func(p *proxy){
		"slow": func(p *proxy) { p.slow(20 * time.Millisecond); time.Sleep(2 * time.Second) },
		"cut":  func(p *proxy) { p.cut(true); time.Sleep(time.Second) },
		"held": func(p *proxy) { p.hold(); time.Sleep(1500 * time.Millisecond) },
		"flapping": func(p *proxy) {
			for range 10 {
				p.cut(false)
				time.Sleep(100 * time.Millisecond)
			}
		},
		"dead": func(p *proxy) {
			p.hold()
			time.Sleep(500 * time.Millisecond)
			p.cut(true)
			time.Sleep(500 * time.Millisecond)
		},
	} {
		for _, of := range []string{"coordinator", "host"} {
			if !long() && (of == "host") != (name == "slow" || name == "dead") {
				continue // each failure once, of one or the other
			}
			t.Run(name+" "+of, func(t *testing.T) {
				t.Parallel()
				s := newServer(t, serverOptions{})
				p := newProxy(t, fmt.Sprintf("127.0.0.1:%d", s.options.Port))
				through := map[string]string{"coordinator": s.url(), "host": s.url()}
				through[of] = p.url()
				out := filepath.Join(t.TempDir(), "run")
				host(t, through["host"])
				run := c.coordinate(t, through["coordinator"], out)
				run.until("is there with 1 trainer", patience)
				time.Sleep(300 * time.Millisecond)
				fail(p)
				p.heal()
				run.finish(patience)
				resultOf(t, out).equals(t, want, name)
			})
		}
	}
}
