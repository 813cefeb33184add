package policies

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpace/coordinator/schedule"
	"fedpace/policy"
)

// BenchmarkDecision gives the processor time of both processes together of a decision of a schedule, and
// of an echo through the same pipes. A decision may take 1 ms more.
func BenchmarkDecision(b *testing.B) {
	c, s, err := bound(b, localSteps("return 4"), "", nil)
	if err != nil {
		b.Fatal(err)
	}
	a := c.Schedule.K.(policy.Policy).Source().Asker().(*asker)
	b.Run("decision", func(b *testing.B) {
		before := processorTime(b, a.program)
		for i := range b.N {
			c.Schedule.K.LocalSteps(schedule.Progress{Setup: schedule.Setup{K0: 8}, Round: i + 1, Seconds: float64(b.N)})
		}
		report(b, processorTime(b, a.program)-before)
		if s.Err() != nil {
			b.Fatal(s.Err())
		}
	})
	b.Run("echo", func(b *testing.B) {
		before := processorTime(b, a.program)
		for range b.N {
			if _, err := a.program.exchange(b.Context(), time.Minute, &request{Echo: json.RawMessage("1")}); err != nil {
				b.Fatal(err)
			}
		}
		report(b, processorTime(b, a.program)-before)
	})
}

// report says what each of a benchmark's operations took of the processor.
func report(b *testing.B, all time.Duration) {
	b.ReportMetric(float64(all.Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is what this process and a policy's have taken of the processor.
func processorTime(b *testing.B, p *program) time.Duration {
	var ours syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ours); err != nil {
		b.Fatal(err)
	}
	// schedstat begins with the time on a processor in nanoseconds, which is finer than stat.
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.process.PID()))
	if err != nil {
		b.Skip(err)
	}
	var theirs int64
	if _, err := fmt.Sscan(strings.Fields(string(text))[0], &theirs); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ours.Utime.Nano() + ours.Stime.Nano() + theirs)
}
