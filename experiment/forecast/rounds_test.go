package forecast

import (
	"math"
	"testing"

	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
)

// Rounds end with their slowest clients, at a deadline or with the first, as they are played, and
// between powers of two their lengths are on a line.
func TestRounds_Expected(t *testing.T) {
	const apart = "fleet=[{name: slow, weight: 1, seconds_per_step: 2}, {name: fast, weight: 1, seconds_per_step: 1}]"
	const instant = "network.download_mbps=1e6"
	for _, x := range []struct {
		name             string
		sets             []string
		k                int
		seconds, updates float64
	}{
		{"all alike", nil, 8, 8, 20},
		{"all alike, on the line", nil, 11, 11, 20},
		{"the slowest", []string{apart}, 8, 16, 20},
		{"the slowest, on the line", []string{apart}, 11, 22, 20},
		{"a deadline", []string{apart, "close={rule: deadline, seconds: 12}"}, 8, 12, 10},
		{"too soon a deadline", []string{apart, "close={rule: deadline, seconds: 3}"}, 8, 3, 0},
		{"rounds that overlap", []string{"close={rule: buffered, n: 10}"}, 8, 4, 10}, // two end at each 8 s
		{"devices that are alone", []string{"train=true", "clients=0", "devices.names={a: any, b: any}", "cohort=2", "nats.listen=127.0.0.1:0"}, 8, 8, 2},
		{"the first", []string{apart, "close={rule: first, n: 2}"}, 8, 8, 2},
	} {
		c := runtest.Small(t, append([]string{"train=false", "clients=200", "cohort=20", "network.model_megabits=0.001", instant, "network.upload_mbps=1e6", "fleet=[{name: any, seconds_per_step: 1}]"}, x.sets...)...)
		p, err := problem.Prepare(t.Context(), c, true, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if e := expectation(t.Context(), p)(x.k); math.Abs(e.length.Seconds()-x.seconds) > 0.01 || math.Abs(e.updates-x.updates) > 1.5 {
			t.Errorf("%s: %v s and %v updates, want %v and %v", x.name, e.length.Seconds(), e.updates, x.seconds, x.updates)
		}
	}
	c := runtest.Small(t, "train=false", "fleet=[{name: any, seconds_per_step: 1}]")
	p, err := problem.Prepare(t.Context(), c, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if e := playedRound(t.Context(), p, 1<<30); e.length != (1+1<<30)*1e9 { // decades: only steps count
		t.Errorf("%+v", e)
	}
}
