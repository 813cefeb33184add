package prometheus

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/metrics"
	"fedpace/metrics/web"
)

// durations draws from what virtual time holds, often from around the bounds.
func durations(t *rapid.T) []round.Time {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Custom(func(t *rapid.T) round.Time { return round.Time(rapid.Int64Range(0, 1<<62).Draw(t, "any")) }),
		rapid.Custom(func(t *rapid.T) round.Time { return round.Time(rapid.Int64Range(0, 1e11).Draw(t, "usual")) }),
		rapid.Custom(func(t *rapid.T) round.Time { // around a bound
			k := rapid.IntRange(-29*parts, 32*parts).Draw(t, "bucket")
			ns := math.Exp2(float64(k)/parts) * 1e9
			return round.Time(ns) + round.Time(rapid.Int64Range(-2, 2).Draw(t, "off"))
		}),
	), 0, 50).Draw(t, "durations")
}

// The histogram is the client library's own, which is many times slower: the
// same classic buckets, the same native ones.
func TestHistogramIsPrometheusOwn(t *testing.T) {
	var bounds []float64
	for e := classicFirst; e <= classicLast; e++ {
		bounds = append(bounds, math.Exp2(float64(e)))
	}
	rapid.Check(t, func(t *rapid.T) {
		var h, first histogram
		own := client.NewHistogram(client.HistogramOpts{Name: "h", Help: "h", Buckets: bounds, NativeHistogramBucketFactor: 1.1})
		for i, d := range durations(t) {
			d = max(d, 0)
			if i%3 == 0 {
				first.observe(d)
			} else {
				h.observe(d)
			}
			own.Observe(d.Seconds())
		}
		h.take(&first)
		if first != (histogram{}) {
			t.Fatal("a histogram that was taken from is not empty")
		}
		var got, want dto.Metric
		if err := h.metric(client.NewDesc("h", "h", nil, nil)).Write(&got); err != nil {
			t.Fatal(err)
		}
		if err := own.Write(&want); err != nil {
			t.Fatal(err)
		}
		want.Histogram.CreatedTimestamp, got.Histogram.CreatedTimestamp = nil, nil
		sums := [2]float64{got.Histogram.GetSampleSum(), want.Histogram.GetSampleSum()}
		if math.Abs(sums[0]-sums[1]) > 1e-9*sums[1] {
			t.Fatalf("the sum is %v, want %v", sums[0], sums[1])
		}
		got.Histogram.SampleSum = want.Histogram.SampleSum
		if diff := cmp.Diff(&want, &got, protocmp.Transform(), protocmp.IgnoreEmptyMessages()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A scrape in protobuf has both forms of a histogram, one in text the classic
// one alone.
func TestBothFormsOfAHistogram(t *testing.T) {
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
		request, err := http.NewRequest("GET", "http://"+s.Addr()+"/metrics", nil)
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
			if err := decoder.Decode(&f); err == io.EOF {
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
				if buckets != classicLast-classicFirst+1 {
					t.Errorf("%s: %s has %d classic buckets", test.accept, f.GetName(), buckets)
				}
				if native := len(h.PositiveSpan) > 0 && h.GetSchema() == schema; native != test.native {
					t.Errorf("%s: %s with native buckets: %v", test.accept, f.GetName(), native)
				}
			}
		}
		if found != 4 {
			t.Errorf("%s: %d histograms, want a round's duration and three phases", test.accept, found)
		}
	}
}

// A run completes 300,000 tasks a second: one may cost some ten nanoseconds.
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
