//go:build unix

package actors

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"fedpace/actors/external"
	"fedpace/actors/external/externaltest"
	"fedpace/algorithm"
	"fedpace/data/synthetic"
)

// BenchmarkTransport says what a job of FEMNIST takes beyond the steps that another
// process takes, of the job's wall time and in processor time of this process, in percent.
func BenchmarkTransport(b *testing.B) {
	set, err := synthetic.New("femnist", 60, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	timing := filepath.Join(b.TempDir(), "timing")
	shared, err := external.Share(set)
	if err != nil {
		b.Fatal(err)
	}
	program, err := external.Open(b.Context(), external.Config{Command: externaltest.Command("-model", "mlp:784,200,200,62", "-timing", timing), Data: shared})
	if err != nil {
		b.Fatal(err)
	}
	base, err := program.Initial(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	trainer, err := NewTrainer(Problem{Model: program.Model(), Set: set, Seed: 1, Batch: 32, Augment: NoAugment, Algorithm: algorithm.Default, Trainer: program})
	if err != nil {
		b.Fatal(err)
	}
	var work []Assignment
	for c := range 30 {
		work = append(work, Assignment{Task: uint64(c + 1), Client: c, LocalSteps: 80, Rate: 0.1, Weight: 1. / 30})
	}
	sum := make([]int64, len(base))
	busy := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, jobs := busy(), 0
	for b.Loop() {
		if _, err := trainer.Train(b.Context(), base, nil, work, sum); err != nil {
			b.Fatal(err)
		}
		jobs++
	}
	wall, used := b.Elapsed(), busy()-before
	if err := trainer.Close(); err != nil {
		b.Fatal(err)
	}
	if err := program.Close(); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(timing)
	if err != nil {
		b.Fatal(err)
	}
	steps, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(100*(1-float64(steps)/float64(wall.Nanoseconds())), "%wall")
	b.ReportMetric(100*used.Seconds()/wall.Seconds(), "%cpu")
}
