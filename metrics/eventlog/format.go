package eventlog

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// File is the name of the event log in a run's folder.
const File = "events.log"

// Version is the format that this package writes, and the newest it reads.
const Version = 1

const (
	magic      = "FPEVENTS"
	headerSize = len(magic) + 4
	// maxRecord bounds a message in bytes, well above what a round keeps.
	maxRecord = 1 << 24
	// maxText bounds a name in bytes.
	maxText    = 1 << 10
	maxClasses = 1 << 10
	maxMetrics = 1 << 8

	// quadratic is the task whose models have no metric, which older logs do not say.
	quadratic = "quadratic"
)

// Errors of a file that is not a whole log. They are wrapped with the place.
var (
	ErrNotALog = errors.New("not an event log")
	ErrEmpty   = fmt.Errorf("%w (it is empty)", ErrNotALog)
	ErrVersion = errors.New("an event log of a version that this program does not know")
	ErrDamaged = errors.New("the event log is damaged")
)

// isNumberOfClients reports whether n is within the bounds of the format for a number of clients.
func isNumberOfClients(n int) bool { return n >= 0 && n <= round.MaxClients }

// check returns an error if what a log says of its run exceeds the limits of the format.
func check(r *metrics.Run) error {
	// The format bounds the length of every name.
	for _, s := range slices.Concat(
		[]string{r.Name, r.Task, r.Schedule, r.Close, r.Version},
		r.Classes,
		metric.Names(r.Metrics),
	) {
		if len(s) > maxText {
			return fmt.Errorf("a name of %d bytes, want at most %d", len(s), maxText)
		}
	}
	switch {
	case len(r.Metrics) > maxMetrics:
		return fmt.Errorf("%d metrics, want at most %d", len(r.Metrics), maxMetrics)
	case len(r.Classes) > maxClasses:
		return fmt.Errorf("%d classes, want at most %d", len(r.Classes), maxClasses)
	case !isNumberOfClients(r.Clients) || !isNumberOfClients(r.Cohort):
		return fmt.Errorf("%d clients, cohorts of %d, want 0 to %d", r.Clients, r.Cohort, round.MaxClients)
	case r.Deadline < 0 || r.Slowest < 0 || r.Sample < 0:
		return fmt.Errorf(
			"a deadline of %d ns, %d slowest, a sample of %d: want none negative",
			r.Deadline,
			r.Slowest,
			r.Sample,
		)
	}
	return nil
}

// Detailed reports whether all tasks of a round are logged: of the first 1023 rounds they all are, and
// then those of 512 rounds in every doubling of the number of rounds. Of the other rounds only the
// slowest task is logged, and those of real devices.
func Detailed(number int) bool {
	n := uint64(max(number, 0))
	// A number of up to ten bits has stride 1. With each further bit, a doubling of the number, the stride doubles.
	stride := uint64(1) << max(0, bits.Len64(n)-10)
	return n%stride == 0
}
