package eventlog

import (
	"math"
	"sort"

	"google.golang.org/protobuf/proto"

	"fedpace/metrics"
	"fedpace/metrics/eventlog/record"
)

// Bytes is about how many bytes the log of a run takes after so many rounds, if r is one
// of them of usual size.
func (s Sink) Bytes(run *metrics.Run, r *metrics.Round, rounds float64) float64 {
	w := Writer{metrics: metricsOf(run)}
	size := func(number int) float64 {
		next := *r
		next.Round = number
		return float64(frameSize + proto.Size(&record.Record{Kind: &record.Record_Round{Round: w.message(&next)}}))
	}
	first := float64(1 << 10) // rounds of which all are detailed; then half as many of each doubling
	detailed := func(n float64) float64 { return min(n, first) + first/2*math.Log2(max(1, n/first)) }
	large, small := size(1<<10), size(1<<10+1)
	whole := func(n float64) float64 { return detailed(n)*large + (n-detailed(n))*small }
	n := rounds // by which the log has its size
	if whole(n) > s.Megabytes*1e6 {
		n = max(first, float64(sort.Search(int(rounds), func(n int) bool { return whole(float64(n)) >= s.Megabytes*1e6 })))
		n = min(n, rounds)
	}
	return whole(n) + (detailed(rounds)-detailed(n))*large
}
