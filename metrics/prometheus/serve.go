package prometheus

import (
	"context"
	"errors"
	"net/http"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"fedpace/coordinator/round"
	"fedpace/metrics/web"
)

// maxScrapes bounds the scrapes that are answered at the same time.
const maxScrapes = 8

// keptTime is the longest time for which the final state of a run waits for a scrape.
const keptTime = time.Minute

// The states of a run, as the label state has them.
const running, finished, stopped, failed, diverged = "running", "finished", "stopped", "failed", "diverged"

// scrapes remembers when Prometheus last scraped and how often it does, which it says in a header.
type scrapes struct {
	// lastScrape is the wall-clock time of the last scrape; the zero time: there was none yet.
	lastScrape time.Time
	// scrapeInterval is the wall time between the last two scrapes; 0: not known.
	scrapeInterval time.Duration
	// endScraped is closed when a scrape has seen the end of the run.
	endScraped chan struct{}
}

// Handler answers scrapes of the run and of its process. It notes when Prometheus scraped, which it
// tells from other readers by a header, so that [Metrics.AwaitScrape] knows how long to wait for it
// at the end of the run.
func (m *Metrics) Handler() http.Handler {
	answer := handler(client.Gatherers{m, process()})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		// The state is read before the answer is made: if the run has ended by now, the answer certainly shows it.
		ended := m.state.name != running
		m.mu.Unlock()
		answer.ServeHTTP(w, r)
		if r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds") == "" {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		now := time.Now()
		if !m.lastScrape.IsZero() {
			m.scrapeInterval = now.Sub(m.lastScrape)
		}
		m.lastScrape = now
		// An answer after the scraper's own timeout reaches nobody.
		arrived := r.Context().Err() == nil
		// Another scrape may have closed the channel already.
		if ended && arrived {
			select {
			case <-m.endScraped:
			default:
				close(m.endScraped)
			}
		}
	})
}

// handler answers in text, OpenMetrics or protobuf. Only protobuf has the native histograms.
func handler(gatherer client.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true})
}

// process returns the metrics of this process and its Go runtime.
func process() client.Gatherer {
	r := client.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Pages implements [web.Pager].
func (m *Metrics) Pages() []web.Page {
	return []web.Page{{Path: "/metrics", Handler: m.Handler(), Always: true}}
}

// Close implements [metrics.Closer]: it publishes how the run ended. cause is nil for a complete
// run, a canceled context for one that was interrupted, and otherwise the error at which the run
// failed.
func (m *Metrics) Close(cause error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case cause == nil:
		m.state.name = finished
	case errors.Is(cause, context.Canceled):
		m.state.name = stopped
	case errors.Is(cause, round.ErrDiverged):
		m.state.name = diverged
	default:
		m.state.name = failed
	}
	return nil
}

// AwaitScrape waits until a Prometheus has seen how the run ended, or ctx ends. Where one has
// scraped the run it waits twice as long as it takes from one scrape to the next, for keptTime at
// most. Where none has yet, a run that failed or diverged is kept until grace after its start, as
// it may have ended before the first scrape; any other is not kept. A ctx that has ended before, as
// that of a run which was stopped, does not shorten the wait.
func (m *Metrics) AwaitScrape(ctx context.Context, grace time.Duration) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	m.mu.Lock()
	// A patience below 0 ends the wait at once.
	patience := m.patience(grace)
	m.mu.Unlock()
	select {
	case <-m.endScraped:
	case <-ctx.Done():
	case <-time.After(patience):
	}
}

// patience returns how long from now on the end of the run is kept for a scrape; 0 or less: no
// longer. grace is the time since the run's start for which a failed run waits for its first
// scrape; see [Metrics.AwaitScrape]. The caller holds the lock.
func (m *Metrics) patience(grace time.Duration) time.Duration {
	// No Prometheus has scraped the run so far.
	if m.lastScrape.IsZero() {
		if m.state.name == failed || m.state.name == diverged {
			return grace - time.Since(m.run.Started)
		}
		return 0
	}
	limit := keptTime
	// The next scrape is due after m.scrapeInterval; twice that and a second allow for one that is late.
	if m.scrapeInterval > 0 {
		limit = min(limit, 2*m.scrapeInterval+time.Second)
	}
	return limit - time.Since(m.lastScrape)
}
