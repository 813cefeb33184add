//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/experiment/runtest"
)

// stall is a time in which nothing comes through a line.
type stall struct{ from, to time.Duration }

// line is a part's proxy, and when it has stalled so far.
type line struct {
	*proxy
	mu     sync.Mutex
	stalls []stall
}

// newLine stalls for 3 to 11 s each time that it was good for 2 to 8 s.
func newLine(b *testing.B, server *natsServer, began time.Time, seed uint64) *line {
	l := &line{proxy: newProxy(b, fmt.Sprintf("127.0.0.1:%d", server.options.Port))}
	draw := rand.New(rand.NewPCG(1, seed))
	go func() {
		for b.Context().Err() == nil {
			outage(time.Duration((2 + 6*draw.Float64()) * float64(time.Second)))
			l.hold()
			from := time.Since(began)
			outage(time.Duration((3 + 8*draw.Float64()) * float64(time.Second)))
			l.heal()
			l.mu.Lock()
			l.stalls = append(l.stalls, stall{from, time.Since(began)})
			l.mu.Unlock()
		}
	}()
	return l
}

// through is when a message is through that comes to the line at a time.
func (l *line) through(at time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stalls {
		if s.from <= at && at < s.to {
			return s.to
		}
	}
	return at
}

// BenchmarkDevicesBehindStalls counts the rounds that a run of three devices makes in three
// minutes, each part behind a line that stalls for 3 to 11 s at a time, and those that were
// possible if no message was lost and none sent twice: a task goes to its device when both
// lines are good, takes 0.3 s, and its update comes back when both are.
//
//	go test -run XXX -bench DevicesBehindStalls -benchtime 1x ./internal/chaos
func BenchmarkDevicesBehindStalls(b *testing.B) {
	const lasts, work = 3 * time.Minute, 300 * time.Millisecond
	for b.Loop() {
		s, began := newServer(b, serverOptions{}), time.Now()
		own := newLine(b, s, began, 9)
		var lines []*line
		for i := range 3 {
			l := newLine(b, s, began, uint64(i))
			lines = append(lines, l)
			device := runtest.Device{ID: fmt.Sprint("d", i), URL: l.url(), Samples: 10, Forgives: true, Waits: true, Answer: func(task *bus.Task, values []float32, u *bus.Update) {
				outage(work)
				values[0] += 0.001
				u.Samples, u.FirstStepLoss, u.DownloadNs, u.ComputeNs, u.UploadNs = 10, 0.5, 1e6, int64(task.LocalSteps)*1e6, 1e6
			}}
			go func() { _ = device.TakePart(b.Context()) }()
		}
		p := newPacer(b, fedpace(b, "run", "--out", filepath.Join(b.TempDir(), "run"), "--set", "name=stalls", "--set", "nats.url="+own.url(), "--set", "http=127.0.0.1:0",
			"--set", "clients=0", "--set", "cohort=fit", "--set", "devices.names=[d0, d1, d2]", "--set", "devices.clip=null",
			"--set", "task=logistic", "--set", "logistic.features=4", "--set", "logistic.classes=2",
			"--set", "schedule.k0=5", "--set", "schedule.k=fixed", "--set", "evaluate.every=1000", "--set", "stop.rounds=100000"))
		outage(lasts - time.Since(began))
		made, possible := p.round(), 0
		for at := time.Duration(0); at < lasts; possible++ {
			ends := at
			for _, l := range lines {
				ends = max(ends, own.through(l.through(l.through(own.through(at))+work)))
			}
			at = ends
		}
		b.ReportMetric(float64(made), "rounds")
		b.ReportMetric(float64(possible), "possible")
		b.ReportMetric(0, "ns/op")
	}
}
