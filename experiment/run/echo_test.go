package run

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"fedpace/bus/bustest"
	"fedpace/bus/embedded"
	"fedpace/config"
	"fedpace/internal/cputime"
	"fedpace/internal/robust"
)

// BenchmarkBesideAnEcho compares the processor time of a client-round of whole runs that are
// timed only with that of a bare echo over an embedded server, in turns; the ratio is the
// turns' median (wanted: 0.9).
func BenchmarkBesideAnEcho(b *testing.B) {
	for _, c := range []struct{ clients, cohort, rounds int }{{1_000_000, 10_000, 40}, {10_000, 1000, 200}} {
		b.Run(fmt.Sprintf("clients=%d/cohort=%d", c.clients, c.cohort), func(b *testing.B) {
			server, err := embedded.Start(b.Context(), embedded.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer server.Close()
			n := c.rounds * c.cohort
			run := func() time.Duration {
				config, err := config.Load("", []string{"task=femnist", "train=false", fmt.Sprintf("clients=%d", c.clients), fmt.Sprintf("cohort=%d", c.cohort),
					fmt.Sprintf("stop.rounds=%d", c.rounds), "out=" + filepath.Join(b.TempDir(), "run")})
				if err != nil {
					b.Fatal(err)
				}
				used := cputime.Start()
				mustRun(b, config, Options{})
				return used()
			}
			bustest.Echo(b, server, c.clients, n) // a first run of each warms up
			run()
			var echoes, runs, ratios []float64
			b.ResetTimer()
			for range 5 {
				x, y := bustest.Echo(b, server, c.clients, n).Seconds(), run().Seconds()
				echoes, runs, ratios = append(echoes, x), append(runs, y), append(ratios, x/y)
			}
			b.ReportMetric(1e6*robust.Median(echoes)/float64(n), "us-echo")
			b.ReportMetric(1e6*robust.Median(runs)/float64(n), "us-run")
			b.ReportMetric(robust.Median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
