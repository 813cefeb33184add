package eventlog

import (
	"math"
	"sort"
)

// Sizes of a record: of a round, and of each of its tasks besides, with times of seconds to hours.
const (
	roundBytes = 70
	taskBytes  = 39
)

// Bytes is about how many bytes the log of a run takes after so many rounds, each with so many
// tasks of real devices, and of others if it is detailed.
func (s Sink) Bytes(devices, others int, rounds float64) float64 {
	large, small := roundBytes+taskBytes*float64(devices+others), roundBytes+taskBytes*float64(devices+min(others, 1))
	first := float64(1 << 10) // rounds of which all are detailed; then half as many of each doubling
	detailed := func(n float64) float64 { return min(n, first) + first/2*math.Log2(max(1, n/first)) }
	whole := func(n float64) float64 { return detailed(n)*large + (n-detailed(n))*small }
	full := rounds // by which the log has its size
	if whole(rounds) > s.Megabytes*1e6 {
		n := sort.Search(int(rounds), func(n int) bool { return whole(float64(n)) >= s.Megabytes*1e6 })
		full = min(max(first, float64(n)), rounds)
	}
	return whole(full) + (detailed(rounds)-detailed(full))*large
}
