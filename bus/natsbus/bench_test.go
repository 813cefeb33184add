package natsbus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fedpace/bus"
	"fedpace/bus/bustest"
	"fedpace/bus/embedded"
	"fedpace/internal/cputime"
	"fedpace/internal/robust"
	"fedpace/simclock"
)

// BenchmarkCohort is one round of a cohort of ten: ten tasks out, ten plans in.
func BenchmarkCohort(b *testing.B) {
	for _, tcp := range []bool{false, true} {
		p := newPlace(b, tcp)
		b.Run(p.name, func(b *testing.B) {
			run := fmt.Sprint("r", b.N)
			c, h := p.Coordinator(b, run), p.Host(b, run)
			if err := h.ServeTasks(b.Context(), answerAtOnce); err != nil {
				b.Fatal(err)
			}
			var plans []bus.ClientPlan
			task := someTask(1)
			for b.Loop() {
				for i := range 10 {
					task.Task++
					if err := c.SendTask(i*61, task); err != nil {
						b.Fatal(err)
					}
				}
				for n := 0; n < 10; {
					var err error
					plans, err = c.TakePlans(b.Context(), plans)
					if err != nil {
						b.Fatal(err)
					}
					n += len(plans)
				}
			}
		})
	}
}

// BenchmarkStart is the start and the end of an embedded server.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := embedded.Start(b.Context(), embedded.Config{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

const (
	actors   = 100_000
	inFlight = bustest.InFlight
)

// BenchmarkActors compares task and plan for 100,000 actors, encoded, decoded,
// dispatched by id and placed on the clock, with a bare NATS echo over the same
// server and window, by processor time.
//
// Both are run several times in turn, so that what else the machine does hits
// both; the ratio is the median of the turns and must be at least 0.9.
func BenchmarkActors(b *testing.B) {
	p := newPlace(b, false)
	bustest.Echo(b, p.server, actors, actors) // a first run of each warms up
	exchange(b, p)
	const turns = 7
	var bare, ours time.Duration
	var ratios []float64
	b.ResetTimer()
	for range turns {
		x, y := bustest.Echo(b, p.server, actors, actors), exchange(b, p)
		bare, ours = bare+x, ours+y
		ratios = append(ratios, x.Seconds()/y.Seconds())
	}
	ratio := robust.Median(ratios)
	b.ReportMetric(1e6*bare.Seconds()/actors/turns, "bare-us")
	b.ReportMetric(1e6*ours.Seconds()/actors/turns, "bus-us")
	b.ReportMetric(ratio, "ratio")
	b.ReportMetric(0, "ns/op")
	if ratio < 0.9 {
		b.Errorf("%.2f of the rate of a bare echo, want at least 0.9", ratio)
	}
}

// exchange has the tasks of many clients planned through the bus, puts each plan on a clock, and returns the processor
// time of that.
func exchange(b *testing.B, p *place) time.Duration {
	b.Helper()
	near, far := p.connect(b), p.connect(b)
	defer near.Close()
	defer far.Close()
	c, err := near.OpenCoordinator(b.Context(), "actors", bus.CoordinatorConfig{})
	if err != nil {
		b.Fatal(err)
	}
	h, err := far.OpenHost(b.Context(), "actors", bus.HostConfig{})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.ServeTasks(b.Context(), answerAtOnce); err != nil {
		b.Fatal(err)
	}
	clock := simclock.New()
	var plans []bus.ClientPlan
	task := someTask(1)
	sent, planned := 0, 0
	used := cputime.Start()
	for planned < actors {
		for ; sent < actors && sent-planned < inFlight; sent++ {
			task.Task = uint64(sent + 1)
			if err := c.SendTask(sent, task); err != nil {
				b.Fatal(err)
			}
		}
		plans, err = c.TakePlans(b.Context(), plans)
		if err != nil {
			b.Fatal(err)
		}
		planned += len(plans)
		for i := range plans {
			p := plans[i].Plan
			clock.Schedule(simclock.Event{At: simclock.Time(p.DownloadNs + p.ComputeNs + p.UploadNs), Seq: p.Task, Task: p.Task})
		}
	}
	took := used()
	if err := errors.Join(c.Close(b.Context()), h.Close()); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkJobs is the bus's part of one training round of four jobs and two
// workers: queued, fetched, summed up, acknowledged.
func BenchmarkJobs(b *testing.B) {
	for _, tcp := range []bool{false, true} {
		p := newPlace(b, tcp)
		b.Run(p.name, func(b *testing.B) {
			ctx := b.Context()
			run := fmt.Sprint("j", b.N)
			c, h := p.Coordinator(b, run), p.Host(b, run)
			model := make([]float32, 1000)
			digest := bus.DigestOf(model)
			if err := c.PutModel(ctx, digest, model); err != nil {
				b.Fatal(err)
			}
			workers, stop := context.WithCancel(ctx)
			var working sync.WaitGroup
			defer working.Wait()
			defer stop()
			for range 2 {
				working.Go(func() {
					values := make([]int64, len(model))
					for {
						d, err := h.NextJob(workers, "go")
						if err != nil {
							return
						}
						if err := h.SendSum(context.Background(), result(d.Job().Job, bus.DigestFrom(d.Job().ModelDigest), values, &bus.ClientLoss{Task: d.Job().Clients[0].Task})); err != nil {
							b.Error(err)
						}
						if err := d.Done(context.Background()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			n := uint64(0)
			for b.Loop() {
				for range 4 {
					n++
					j := someJob(n, digest, len(model))
					if err := c.SendJob(ctx, j); err != nil {
						b.Fatal(err)
					}
				}
				for range 4 {
					s, err := c.TakeSum(ctx)
					if err != nil {
						b.Fatal(err)
					}
					s.Accept()
				}
			}
		})
	}
}
