package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lognormalClasses returns a configuration in which every quantity is random twice: by the client's own value and by
// the task's factor.
func lognormalClasses() Config {
	speed := func(median float64) Distribution { return Lognormal{Median: median, Sigma: 0.5} }
	vary := Lognormal{Mean: 1, Sigma: 0.2}
	class := func(name string, weight, scale float64) Class {
		return Class{
			Name: name, Weight: weight,
			DownloadMbps: speed(20 / scale), UploadMbps: speed(5 / scale), SecondsPerStep: speed(0.017 * scale),
			Vary: Vary{Download: vary, Upload: vary, Compute: vary},
		}
	}
	return Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Fleet: []Class{class("fast", 1, 1), class("slow", 3, 4)}}
}

func BenchmarkDurations(b *testing.B) {
	own := lognormalClasses()
	for i := range own.Fleet {
		own.Fleet[i].Vary = Vary{}
	}
	slowed := lognormalClasses()
	slowed.Slowdown = SlowPeriods{EverySeconds: 3600, ForSeconds: 300, Factor: Constant{Value: 5}}
	plain := Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Compute: Compute{SecondsPerStep: 0.017}}
	normalSteps := plain
	normalSteps.Compute.Std = 5.1e-4
	replayed := plain
	replayed.Fleet = []Class{{Links: made(b, 1000)}}
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"constant", plain}, {"normal", normalSteps}, {"lognormal own", own}, {"lognormal own and task", lognormalClasses()},
		{"with slowdowns", slowed}, {"link traces", replayed},
	} {
		b.Run(c.name, func(b *testing.B) {
			f, err := NewFleet(c.config, 1)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := range b.N {
				if _, err := f.Durations(i&0xfffff, uint64(i), 80, SameBits(6_710_000), int64(i)*1000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAvailable(b *testing.B) {
	for _, a := range models3() {
		f, err := NewFleet(Config{Network: Network{DownloadMbps: 20, UploadMbps: 5}, Availability: a}, 1)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(Availabilities.NameOf(a), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for i := range b.N {
				if f.Available(i, int64(i)*1_000_000) {
					n++
				}
			}
			b.ReportMetric(float64(n)/float64(b.N), "available")
		})
		b.Run(Availabilities.NameOf(a)+" change", func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				f.NextChange(i, int64(i)*1_000_000)
			}
		})
	}
}

// models3 returns an availability of 30 % by each random model.
func models3() []Availability {
	return []Availability{
		Bernoulli{Probability: 0.3, PeriodSeconds: 600},
		Markov{OnSeconds: 600, OffSeconds: 1400},
		Daily{FromHour: 22, ToHour: 6, JitterHours: 1, Probability: 0.9},
	}
}

// made returns two link traces of this many seconds, in which the speed is 0 for 5 of each 50 seconds.
func made(t testing.TB, seconds int) Links {
	var text strings.Builder
	text.WriteString(linksHeader)
	for i := range 2 {
		for s := range seconds {
			down, up := (s*7919+i)%40_000, (s*104729+i)%9_000 // kilobits
			if s%50 < 5 {
				down = 0
			}
			fmt.Fprintf(&text, "%c,%d,%d.%03d,%d.%03d\n", 'a'+i, s, down/1000, down%1000, up/1000, up%1000)
		}
	}
	return Links{File: file(t, text.String())}
}

// file writes text into a file and returns its path.
func file(t testing.TB, text string) string {
	path := filepath.Join(t.TempDir(), "file.csv")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
