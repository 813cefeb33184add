//go:build unix

package chaos

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkASecondHost measures how many times faster a run of one-worker hosts
// is with two of them, and after the second one has joined in its middle. On two
// cores that nobody else uses both should be at least 1.4:
//
//	go test -run XXX -bench ASecondHost -benchtime 1x ./internal/chaos
func BenchmarkASecondHost(b *testing.B) {
	flags := []string{
		"--set", "clients=300", "--set", "cohort=40", "--set", "schedule.k=fixed", "--set", "schedule.k0=80",
		"--set", "stop.rounds=12", "--set", "evaluate.every=100",
	}
	s := newServer(b, serverOptions{})
	play := func(hosts int, join time.Duration) time.Duration {
		var started []*process
		for range hosts {
			h := host(b, s.url())
			h.until("Waiting", patience)
			started = append(started, h)
		}
		out := filepath.Join(b.TempDir(), "run")
		run := fedpace(b, append([]string{"coordinator", "--nats", s.url(), "--out", out}, flags...)...)
		run.until("is there with 1 trainer", patience)
		begin := time.Now()
		if join > 0 {
			time.Sleep(join)
			started = append(started, host(b, s.url()))
		}
		run.finish(patience)
		took := time.Since(begin)
		for _, h := range started {
			h.kill()
		}
		return took
	}
	for b.Loop() {
		one, two := play(1, 0), play(2, 0)
		join := one / 3
		joined := play(1, join)
		b.ReportMetric(one.Seconds()/two.Seconds(), "x-two-hosts")
		b.ReportMetric((one-join).Seconds()/(joined-join).Seconds(), "x-once-joined")
		b.ReportMetric(one.Seconds(), "s-one-host")
	}
}
