package run

import (
	"context"
	"fmt"
	"testing"

	"fedpace/experiment/forecast"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
)

// What package forecast plays, on no bus and in one goroutine, has the history of the run:
// the fingerprints are equal.
func TestPrediction_PlayedTimes(t *testing.T) {
	for _, sets := range [][]string{
		nil,
		{"close={rule: first, n: 9}", "late={rule: use, limit: 3}"},
		{"close={rule: deadline, seconds: 2}", "dropout.probability=0.1"},
		{"select=fit", "close={rule: deadline, seconds: 2}"},
		{"network.server_upload_mbps=8"},
		{"network={server_upload_mbps: 8, sites: {count: 5, download_mbps: 30}}", "aggregate.site_rounds=2"},
		{"availability={model: markov, on_seconds: 20, off_seconds: 20}", "dropout.when_unavailable=true"},
	} {
		c := runtest.Stragglers(t, append([]string{"train=false"}, sets...)...)
		s := mustRun(t, c, Options{})
		p, err := problem.Prepare(context.Background(), c, false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		stop, fingerprint, err := forecast.Play(context.Background(), p)
		if err != nil {
			t.Fatalf("%v: %v", sets, err)
		}
		if got := fmt.Sprintf("%016x", fingerprint); got != s.Fingerprint || stop.EndTime.Seconds() != s.VirtualSeconds || stop.Rounds != s.Rounds {
			t.Errorf("%v: played to %s after %d rounds and %g s; the run came to %s after %d and %g s", sets, got, stop.Rounds, stop.EndTime.Seconds(), s.Fingerprint, s.Rounds, s.VirtualSeconds)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
