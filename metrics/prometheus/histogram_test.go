package prometheus

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/metrics"
	"fedpace/metrics/web"
)

// A scrape in protobuf has both forms of a histogram, one in text the classic
// one alone.
func TestHistogram_BothFormsOfHistogram(t *testing.T) {
	s, err := web.Serve(t.Context(), "127.0.0.1:0", web.Page{Path: "/metrics", Handler: served(t).Handler()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct {
		accept string
		native bool
	}{
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", true},
		{"text/plain;version=0.0.4", false},
	} {
		request, err := http.NewRequest(http.MethodGet, "http://"+s.Addr()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", test.accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header))
		found := 0
		for {
			var f dto.MetricFamily
			if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if f.GetType() != dto.MetricType_HISTOGRAM {
				continue
			}
			for _, m := range f.Metric {
				found++
				h := m.Histogram
				buckets := len(h.Bucket)
				if !test.native {
					buckets-- // text writes the bucket of all
				}
				if top := h.Bucket[classicBuckets-1].GetUpperBound(); top < 7*24*3600 {
					t.Errorf("%s: %s ends at %g s, want a week at least", test.accept, f.GetName(), top)
				}
				if buckets != classicBuckets {
					t.Errorf("%s: %s has %d classic buckets", test.accept, f.GetName(), buckets)
				}
				if native := len(h.PositiveSpan) > 0 && h.GetSchema() == 3; native != test.native {
					t.Errorf("%s: %s with native buckets: %v", test.accept, f.GetName(), native)
				}
			}
		}
		if found != 4 {
			t.Errorf("%s: %d histograms, want a round's duration and three phases", test.accept, found)
		}
	}
}

// A run completes 300,000 tasks a second: one may cost some hundred nanoseconds.
func BenchmarkTask(b *testing.B) {
	m := New(&metrics.Run{Clients: 1})
	e := task(0, femnist)
	b.ReportAllocs()
	for b.Loop() {
		e.Plan.Compute = e.Plan.Compute*5%7_000_000_001 + 1
		m.Task(e)
	}
}

// And it may report 5,000 rounds a second.
func BenchmarkRound(b *testing.B) {
	for _, classes := range []int{1, maxClasses} {
		b.Run(map[bool]string{true: "one class", false: "32 classes"}[classes == 1], func(b *testing.B) {
			m := New(&metrics.Run{Clients: 60, Classes: make([]string, classes), Class: func(client int) int { return client }})
			r := &metrics.Round{Report: round.Report{Round: 1}, Usage: &metrics.Usage{}}
			b.ReportAllocs()
			for b.Loop() {
				for c := range 60 {
					m.Task(task(c, femnist))
				}
				if err := m.Round(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScrape(b *testing.B) {
	m := New(&metrics.Run{Clients: 10_000, Classes: strings.Split("abcdefgh", ""), Class: func(client int) int { return client % 8 }})
	for c := range 10_000 {
		m.Task(task(c, round.Plan{Compute: round.Time(c) * 1e6}))
	}
	report(b, m, round.Report{Round: 1, End: round.Time(time.Hour)}, metrics.Usage{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
