package live_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fedpace/experiment/run"
)

// crowd watches a run as many do: viewers of the page, a scrape each second, a
// look at the snapshot, and somebody who asks for the events and reads none.
type crowd struct {
	frames, scrapes atomic.Int64
	bytes           atomic.Int64
	watching        sync.WaitGroup // for a first frame of each viewer
	failed          atomic.Pointer[string]
}

func (c *crowd) watch(ctx context.Context, group *sync.WaitGroup, address string, viewers int) {
	get := func(path string, read func(io.Reader) error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
		if err != nil {
			return
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return // the run is over
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			problem := path + ": " + response.Status
			c.failed.Store(&problem)
		}
		_ = read(response.Body) // ends with the run
	}
	c.watching.Add(viewers)
	for range viewers {
		group.Go(func() {
			seen := sync.OnceFunc(c.watching.Done)
			defer seen()
			get("events", func(body io.Reader) error {
				lines := bufio.NewReaderSize(body, 1<<20)
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						return err
					}
					c.bytes.Add(int64(len(line)))
					if strings.HasPrefix(line, "data: ") {
						c.frames.Add(1)
						seen()
					}
				}
			})
		})
	}
	group.Go(func() {
		for ctx.Err() == nil {
			get("metrics", func(body io.Reader) error { _, err := io.Copy(io.Discard, body); return err })
			c.scrapes.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	host := strings.Trim(strings.TrimPrefix(address, "http://"), "/")
	group.Go(func() {
		silent, err := net.Dial("tcp", host)
		if err != nil {
			return
		}
		defer silent.Close()
		_ = silent.(*net.TCPConn).SetReadBuffer(4096) // smaller is only worse for the server
		fmt.Fprintf(silent, "GET /events HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		<-ctx.Done()
	})
}

// A run that twenty watch, one of them without reading, while it is scraped
// each second, is the run that nobody watches: to the bit, and in bounded memory.
func TestLoad_WatchedIsUnwatched(t *testing.T) {
	sets := []string{"stop.rounds=60", "evaluate.every=60", "name=watched", "clients=40", "cohort=4", "schedule.k0=3"}
	alone, err := run.Run(t.Context(), configuration(t, append(sets, "http=")...), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := start(t.Context(), t, configuration(t, append(sets, "pace=60")...))
	var group sync.WaitGroup
	var c crowd
	c.watch(ctx, &group, run.address, 20)
	<-run.done
	cancel()
	group.Wait()
	if run.err != nil {
		t.Fatal(run.err)
	}
	if problem := c.failed.Load(); problem != nil {
		t.Error(*problem)
	}
	if run.summary.Fingerprint != alone.Fingerprint || *run.summary.ModelSHA256 != *alone.ModelSHA256 || *run.summary.TrainingLoss != *alone.TrainingLoss {
		t.Errorf("watched: %s, model %s; alone: %s, model %s", run.summary.Fingerprint, *run.summary.ModelSHA256, alone.Fingerprint, *alone.ModelSHA256)
	}
	frames, scrapes := c.frames.Load(), c.scrapes.Load()
	if frames < 40 || scrapes < 1 {
		t.Errorf("%d frames and %d scrapes came of it", frames, scrapes)
	}
	after := heap()
	t.Logf("%.2f s at its pace with 21 viewers, %.2f s alone without; %d frames of %d bytes on average, %d scrapes; the heap grew by %d kB",
		run.summary.WallSeconds, alone.WallSeconds, frames, c.bytes.Load()/max(frames, 1), scrapes, (after-before)/1000)
	if after-before > 20e6 {
		t.Errorf("the heap grew by %d bytes", after-before)
	}
}

// heap is what is held after a collection, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkRoundsWhileTwentyWatch is what a round costs its run, with viewers
// and without.
func BenchmarkRoundsWhileTwentyWatch(b *testing.B) {
	for _, viewers := range []int{0, 20} {
		b.Run(fmt.Sprintf("viewers=%d", viewers), func(b *testing.B) {
			h, address := serveHub(b, "demo")
			ctx, cancel := context.WithCancel(b.Context())
			var group sync.WaitGroup
			var c crowd
			if viewers > 0 {
				c.watch(ctx, &group, address, viewers)
				c.watching.Wait()
			}
			r := 60
			for b.Loop() {
				show(h, demoRound(r))
				r++
			}
			cancel()
			group.Wait()
		})
	}
}
