package prometheus

import (
	"math"
	"sort"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
)

// A histogram counts durations in the buckets of Prometheus' native histograms
// of schema 3: eight to a doubling, bucket k holding what is above 2^((k-1)/8)
// and at most 2^(k/8) seconds. Every eighth bound is a power of two, so the
// classic histogram, whose bounds those are, follows from the same counts.
type histogram struct {
	counts [cells]uint64
	lo, hi int // the cells that may hold something are those from lo to before hi
	sum    float64
}

const (
	schema = 3
	parts  = 1 << schema // cells a doubling

	// From 1 ns, above 2^-30 s, to what virtual time can hold, below 2^33 s.
	lowest  = -30 * parts
	highest = 33 * parts
	// Cell 0 is of durations of 0, cell 1 of the bucket lowest+1 and so on.
	cells = highest - lowest + 1

	// The classic bounds are 2^classicFirst to 2^classicLast seconds: 1 ms to 9 hours.
	classicFirst = -10
	classicLast  = 15
)

// bounds are 2^(-8/8) to 2^(-1/8), those within a doubling, rounded as Prometheus' clients round
// them.
var bounds = [parts]float64{
	0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048,
	0.7071067811865475, 0.7711054127039704, 0.8408964152537144, 0.9170040432046711,
}

// below counts the bounds under 0.5 + i/128. They lie further apart, so a search from there
// compares once.
var below = func() (b [64]int) {
	for i := range b {
		b[i] = sort.SearchFloat64s(bounds[:], 0.5+float64(i)/128)
	}
	return b
}()

// cell is the place of a duration.
func cell(d round.Time) int {
	if d <= 0 {
		return 0
	}
	fraction, doubling := math.Frexp(d.Seconds())
	i := below[int((fraction-0.5)*128)]
	if i < parts && fraction > bounds[i] {
		i++
	}
	return min((doubling-1)*parts+i-lowest, cells-1)
}

func (h *histogram) observe(d round.Time) {
	c := cell(d)
	h.counts[c]++
	h.sum += d.Seconds()
	if h.hi == 0 {
		h.lo = c
	}
	h.lo, h.hi = min(h.lo, c), max(h.hi, c+1)
}

// take adds what another holds, and empties it.
func (h *histogram) take(from *histogram) {
	if from.hi == 0 {
		return
	}
	if h.hi == 0 {
		h.lo, h.hi = from.lo, from.hi
	}
	h.lo, h.hi = min(h.lo, from.lo), max(h.hi, from.hi)
	for c := from.lo; c < from.hi; c++ {
		h.counts[c] += from.counts[c]
		from.counts[c] = 0
	}
	h.sum += from.sum
	from.sum, from.lo, from.hi = 0, 0, 0
}

// metric is the histogram as a scrape takes it, in both forms.
func (h *histogram) metric(d *client.Desc, labels ...string) client.Metric {
	m := bothForms{}
	count, c := uint64(0), 0
	upTo := func(end int) uint64 {
		for ; c < end; c++ {
			count += h.counts[c]
		}
		return count
	}
	for e := classicFirst; e <= classicLast; e++ {
		m.classic = append(m.classic, &dto.Bucket{CumulativeCount: proto.Uint64(upTo(e*parts - lowest + 1)), UpperBound: proto.Float64(math.Exp2(float64(e)))})
	}
	native := map[int]int64{}
	for c := max(h.lo, 1); c < h.hi; c++ {
		if n := h.counts[c]; n > 0 {
			native[c+lowest] = int64(n)
		}
	}
	var err error
	m.Metric, err = client.NewConstNativeHistogram(d, upTo(cells), h.sum, native, nil, h.counts[0], schema, client.DefNativeHistogramZeroThreshold, time.Time{}, labels...)
	if err != nil {
		panic("metrics: " + err.Error()) // the counts are right by construction
	}
	return m
}

// bothForms is a histogram with native buckets and classic ones: a scrape in
// protobuf has both, one in text the classic buckets.
type bothForms struct {
	client.Metric // native
	classic       []*dto.Bucket
}

func (m bothForms) Write(out *dto.Metric) error {
	err := m.Metric.Write(out)
	if err == nil {
		out.Histogram.Bucket = m.classic
	}
	return err
}
