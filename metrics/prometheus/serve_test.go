package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// How a run ended is shown until Prometheus has seen it, and nobody waits for anybody else.
func TestServe_EndWaitsForScrape(t *testing.T) {
	scrapeUntil := func(ctx context.Context, m *Metrics) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
		r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "2")
		m.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	scrape := func(m *Metrics) { scrapeUntil(t.Context(), m) }
	over, stop := context.WithCancel(t.Context())
	stop()
	for why, state := range map[error]string{nil: "finished", context.Canceled: "stopped", errors.New("disk full"): "failed", fmt.Errorf("round 3: %w", round.ErrDiverged): "diverged"} {
		synctest.Test(t, func(t *testing.T) {
			m := New(&metrics.Run{})
			begin := time.Now()
			if m.AwaitScrape(t.Context(), 0); !time.Now().Equal(begin) {
				t.Error("a run that nothing scrapes waits")
			}
			for range 2 {
				scrape(m)
				if got := value(t, families(t, m), "fedpace_run_state", "running"); got != 1 {
					t.Error("a run is not running")
				}
				time.Sleep(5 * time.Second)
			}
			if err := m.Close(why); err != nil {
				t.Fatal(err)
			}
			if got := value(t, families(t, m), "fedpace_run_state", state); got != 1 {
				t.Errorf("after %v a run is not %s", why, state)
			}
			begin = time.Now()
			ctx := t.Context()
			if state == stopped { // the context of a run that was stopped has ended
				ctx = over
			}
			scrapeUntil(over, m)                                            // Prometheus has given it up
			if m.AwaitScrape(ctx, 0); time.Since(begin) != 11*time.Second { // 2 x 5 + 1 after the last
				t.Errorf("a Prometheus that is gone is waited for %v", time.Since(begin))
			}
			scrape(m)
			if m.AwaitScrape(t.Context(), 0); time.Since(begin) != 11*time.Second {
				t.Error("an end that was seen is waited for")
			}
		})
	}
}

// TestAwaitScrape_BeforeFirst ends runs that no Prometheus has scraped yet: only one that failed
// or diverged is kept for it, until a minute after its start.
func TestAwaitScrape_BeforeFirst(t *testing.T) {
	for name, x := range map[string]struct {
		cause error
		wait  time.Duration
	}{
		"finished": {nil, 0},
		"stopped":  {context.Canceled, 0},
		"failed":   {errors.New("disk full"), 50 * time.Second},
		"diverged": {round.ErrDiverged, 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(&metrics.Run{Started: time.Now()})
				time.Sleep(10 * time.Second)
				if err := m.Close(x.cause); err != nil {
					t.Fatal(err)
				}
				end := time.Now()
				m.AwaitScrape(t.Context(), time.Minute)
				if got := time.Since(end); got != x.wait {
					t.Errorf("it is kept for %v, want %v", got, x.wait)
				}
			})
		})
	}
}
