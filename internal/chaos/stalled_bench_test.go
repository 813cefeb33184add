//go:build unix

package chaos

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkAHostThatStalls measures what a second host costs that stops, goes on,
// and then has a twentieth of a processor, and prints a table: the pace of one
// host, that of two, the pause after the second has stopped, and the paces while
// it is stopped, after it goes on, and while it has a twentieth, in rounds a
// second. It takes some ten minutes and two cores that nobody else uses:
//
//	go test -run XXX -bench AHostThatStalls -benchtime 1x ./internal/chaos
//
// Some of the runs: -bench 'AHostThatStalls/timing-only/6'
func BenchmarkAHostThatStalls(b *testing.B) {
	for _, kind := range []struct {
		name  string
		train bool
	}{{"timing-only", false}, {"training", true}} {
		for _, cohort := range []int{6, 50, 500} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, cohort), func(b *testing.B) {
				for b.Loop() {
					measureStalls(b, kind.train, cohort)
				}
			})
		}
	}
}

// phase is how long each pace is measured.
const phase = 8 * time.Second

func measureStalls(b *testing.B, train bool, cohort int) {
	s := newServer(b, serverOptions{})
	name := 0
	flags := func(rounds int) []string {
		name++
		steps := 80
		if cohort > 50 {
			steps = 8 // rounds of a second or two
		}
		return []string{
			"--set", "clients=600", "--set", fmt.Sprint("cohort=", cohort), "--set", "schedule.k=fixed", "--set", fmt.Sprint("schedule.k0=", steps),
			"--set", "evaluate.every=1000000", "--set", fmt.Sprint("train=", train), "--set", fmt.Sprint("stop.rounds=", rounds),
			"--set", "http=127.0.0.1:0", "--set", fmt.Sprint("name=stalls", name), "--set", "events.sample=off",
		}
	}
	coordinate := func(out string, rounds int) *pacer {
		args := append([]string{"coordinator", "--nats", s.url(), "--out", out}, flags(rounds)...)
		return newPacer(b, fedpace(b, args...))
	}
	// One host alone.
	h := host(b, s.url())
	h.until("Waiting", patience)
	out := filepath.Join(b.TempDir(), "run")
	p := coordinate(out, 100_000_000)
	p.rounds(1)
	alone := p.pace(phase)
	p.kill()
	// Two, one of which is disturbed.
	second := host(b, s.url())
	second.until("Waiting", patience)
	out = filepath.Join(b.TempDir(), "run")
	rounds := max(20, int(5*phase.Seconds()*alone))
	p = coordinate(out, rounds)
	p.until("is there", patience)
	p.rounds(2)
	two := p.pace(phase)
	signal(b, second, syscall.SIGSTOP)
	pause := p.rounds(p.round() + 2)
	stopped := p.pace(phase)
	signal(b, second, syscall.SIGCONT)
	outage(2 * time.Second)
	again := p.pace(phase)
	end := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for running := true; running; {
			for _, x := range []struct {
				signal syscall.Signal
				length time.Duration
			}{{syscall.SIGSTOP, 95 * time.Millisecond}, {syscall.SIGCONT, 5 * time.Millisecond}} {
				_ = second.cmd.Process.Signal(x.signal)
				outage(x.length)
			}
			select {
			case <-end:
				running = false
			default:
			}
		}
	}()
	outage(time.Second)
	slow := p.pace(phase)
	close(end)
	<-done
	p.finish(10 * time.Minute)
	// The same in one process.
	reference := filepath.Join(b.TempDir(), "run")
	fedpace(b, append([]string{"run", "--out", reference}, flags(rounds)...)...).finish(10 * time.Minute)
	resultOf(b, out).equals(b, resultOf(b, reference), "with a host that stalls")
	for unit, x := range map[string]float64{
		"alone/s": alone, "two/s": two, "stopped/alone": stopped / alone, "again/two": again / two, "slow/alone": slow / alone, "pause-s": pause.Seconds(),
	} {
		b.ReportMetric(x, unit)
	}
	b.ReportMetric(0, "ns/op")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntrain\tcohort\tone host\ttwo\tpause s\tstopped\tagain\ta twentieth\tbits\t")
	fmt.Fprintf(w, "%v\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%.1f\tequal\t\n", train, cohort, alone, two, pause.Seconds(), stopped, again, slow)
	w.Flush()
}

func signal(t testing.TB, p *process, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// pacer reads how far a run has come from its metrics.
type pacer struct {
	*process
	url string
}

var (
	served  = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	atRound = regexp.MustCompile(`(?m)^fedpace_round\{[^}]*\} (\S+)$`)
)

func newPacer(t testing.TB, p *process) *pacer {
	t.Helper()
	p.until("http://127.0.0.1:", patience)
	return &pacer{p, served.FindString(p.said())}
}

// round is the number of the last round that is complete.
func (p *pacer) round() int {
	r, err := http.Get(p.url + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	m := atRound.FindSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return int(n)
}

// rounds waits until a round is complete, and returns how long it has waited.
func (p *pacer) rounds(n int) time.Duration {
	p.t.Helper()
	started := time.Now()
	for p.round() < n {
		if time.Since(started) > patience {
			p.t.Fatalf("%s has not come to round %d within %v", p.name, n, patience)
		}
		outage(5 * time.Millisecond)
	}
	return time.Since(started)
}

// pace is the rounds a second that are done in a time, to the end of the round
// under way then.
func (p *pacer) pace(d time.Duration) float64 {
	p.t.Helper()
	first := p.round()
	p.rounds(first + 1)
	started := time.Now()
	outage(d)
	last := p.round()
	p.rounds(last + 1)
	return float64(last-first) / time.Since(started).Seconds()
}
