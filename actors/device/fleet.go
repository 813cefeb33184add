package device

import (
	"fmt"
	"math"

	"fedpace/keyed"
)

// Config is the speed of a population whose clients are all alike (the
// simplification below Eq. 4).
type Config struct {
	DownloadMbps   float64 // D, megabits per second
	UploadMbps     float64 // U, megabits per second
	SecondsPerStep float64 // beta: mean time of one local SGD step
	StepStd        float64 // standard deviation of that time, seconds; 0: constant
}

// Durations are the phases of one task (Eq. 3), in nanoseconds, none negative.
type Durations struct{ Download, Compute, Upload int64 }

// maxSeconds bounds a phase: what is slower is a mistake in the configuration.
const maxSeconds = 1e8 // three years

// Fleet is a population of simulated devices.
type Fleet struct {
	config Config
	seed   uint64
	step   int64 // beta in nanoseconds, exact for constant devices
}

// NewFleet checks the speeds.
func NewFleet(c Config, seed uint64) (*Fleet, error) {
	for _, v := range []struct {
		name  string
		value float64
		zero  bool // whether zero is a value
	}{
		{"download speed (Mbps)", c.DownloadMbps, false},
		{"upload speed (Mbps)", c.UploadMbps, false},
		{"seconds per step", c.SecondsPerStep, true},
		{"standard deviation of a step", c.StepStd, true},
	} {
		if math.IsNaN(v.value) || math.IsInf(v.value, 0) || v.value < 0 || (v.value == 0 && !v.zero) {
			return nil, fmt.Errorf("device: %s is %v, want a positive number", v.name, v.value)
		}
	}
	if c.SecondsPerStep > maxSeconds || c.StepStd > maxSeconds {
		return nil, fmt.Errorf("device: a step of %g ± %g s, want at most %g s", c.SecondsPerStep, c.StepStd, float64(maxSeconds))
	}
	return &Fleet{config: c, seed: seed, step: nanoseconds(c.SecondsPerStep)}, nil
}

// Durations is the time client takes for a task of so many local steps with a
// model of so many bits: |x|/D + K beta + |x|/U (Eq. 3). It fails when a phase
// would take longer than three years.
//
// With a standard deviation the compute time is the sum of K independent
// normal minibatch times, which is itself normal with mean K beta and standard
// deviation sqrt(K) std: one draw, keyed (client, task). It is cut at zero.
func (f *Fleet) Durations(client int, task uint64, steps int, bits int64) (Durations, error) {
	d, err := f.Mean(steps, bits)
	if err == nil && f.config.StepStd > 0 {
		z := normal(keyed.Hash(f.seed, keyed.Compute, uint64(client), task))
		k := float64(steps)
		s := float64(k*f.config.SecondsPerStep) + float64(float64(math.Sqrt(k)*f.config.StepStd)*z)
		d.Compute = bounded(s, nanoseconds(max(0, s)))
		err = d.check(steps, bits)
	}
	if err != nil {
		return Durations{}, fmt.Errorf("device: task %d of client %d: %w", task, client, err)
	}
	return d, nil
}

// Mean is the time of a task on devices without spread, all clients alike.
func (f *Fleet) Mean(steps int, bits int64) (Durations, error) {
	d := Durations{
		Download: transfer(bits, f.config.DownloadMbps),
		Compute:  bounded(float64(steps)*f.config.SecondsPerStep, int64(steps)*f.step),
		Upload:   transfer(bits, f.config.UploadMbps),
	}
	return d, d.check(steps, bits)
}

func (d Durations) check(steps int, bits int64) error {
	if d.Download < 0 || d.Compute < 0 || d.Upload < 0 {
		return fmt.Errorf("%d steps, or a transfer of %d bits, take over %g s", steps, bits, float64(maxSeconds))
	}
	return nil
}

// transfer is the time of so many bits at so many megabits per second; -1 when
// it is out of bounds.
func transfer(bits int64, mbps float64) int64 {
	s := float64(bits) / (mbps * 1e6)
	return bounded(s, nanoseconds(s))
}

// bounded is ns, or -1 when the seconds it stands for are out of bounds.
func bounded(seconds float64, ns int64) int64 {
	if !(seconds <= maxSeconds) {
		return -1
	}
	return ns
}

// nanoseconds rounds to the nearest, ties to even.
func nanoseconds(seconds float64) int64 { return int64(math.RoundToEven(seconds * 1e9)) }

// normal is the standard normal quantile at 64 random bits, by the identity
// z = sqrt(2) erfinv(2u - 1): one draw, no rejection. The half keeps u from 0.
func normal(h uint64) float64 {
	u := (float64(h>>11) + 0.5) * 0x1p-53
	return math.Sqrt2 * math.Erfinv(2*u-1)
}
