//go:build unix

package run

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"fedpace/config"
	"fedpace/internal/testkit/realdata"
)

// BenchmarkShareOfSGD profiles a FEMNIST run on 2 workers and reports how much
// of its processor time local SGD steps take (the bus, sums, evaluation and
// everything else share the rest; quicker steps take less, too) and how busy the
// cores are from start to end (wanted: 90 %).
func BenchmarkShareOfSGD(b *testing.B) {
	source := "synthetic"
	if path, ok := realdata.Find("femnist/femnist.parquet"); ok {
		source = path
	}
	for _, c := range []struct{ k, rounds int }{{80, 12}, {4, 200}, {1, 200}} {
		b.Run(fmt.Sprintf("K=%d", c.k), func(b *testing.B) {
			for range b.N {
				config, err := config.Load("", []string{"task=femnist", "data=" + source, "schedule.k=fixed", fmt.Sprintf("schedule.k0=%d", c.k),
					fmt.Sprintf("stop.rounds=%d", c.rounds), "evaluate.every=50", "out=" + filepath.Join(b.TempDir(), "run")})
				if err != nil {
					b.Fatal(err)
				}
				p, err := prepare(config, false) // reading the data is not the run
				if err != nil {
					b.Fatal(err)
				}
				var text bytes.Buffer
				runtime.GC()
				if err := pprof.StartCPUProfile(&text); err != nil {
					b.Fatal(err)
				}
				p.options.Workers = 2
				before, started := processor(b), time.Now()
				_, err = p.execute(b.Context(), started, attempt{})
				wall, spent := time.Since(started).Seconds(), processor(b)-before
				pprof.StopCPUProfile()
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(100*shareOf(b, &text, "learn.(*", ").Step"), "%sgd")
				b.ReportMetric(100*spent/(2*wall), "%busy")
			}
		})
	}
}

// shareOf is the part of a profile's time whose stack has a function with both
// texts in its name.
func shareOf(b *testing.B, text *bytes.Buffer, first, second string) float64 {
	p, err := profile.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	in, all := int64(0), int64(0)
	for _, s := range p.Sample {
		nanoseconds := s.Value[1]
		all += nanoseconds
		if onStack(s, first, second) {
			in += nanoseconds
		}
	}
	return float64(in) / float64(all)
}

func onStack(s *profile.Sample, first, second string) bool {
	for _, l := range s.Location {
		for _, line := range l.Line {
			if f := line.Function; f != nil && strings.Contains(f.Name, first) && strings.Contains(f.Name, second) {
				return true
			}
		}
	}
	return false
}

// processor is the time that the process has had on the cores, in seconds.
func processor(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
