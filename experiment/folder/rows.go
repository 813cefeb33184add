package folder

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// RoundsHeader is the first line of rounds.csv.
const RoundsHeader = "round,virtual_seconds,round_seconds,local_steps,learning_rate,cohort," +
	"accepted,late,dropped,lost,cancelled,refused," +
	"training_loss,validation_loss,validation_accuracy,sgd_steps"

func init() { metrics.Sinks.Register("rounds", "a row a round in "+RoundsFile, Rounds{}) }

// Rounds is the output that writes rounds.csv; it has no options.
type Rounds struct{}

// Files implements [metrics.Sink].
func (Rounds) Files() []string { return []string{RoundsFile} }

// Open implements [metrics.Sink].
func (Rounds) Open(*metrics.Run) (metrics.Output, error) { return &rounds{}, nil }

type rounds struct {
	file metrics.File
	row  []byte // reused from row to row
}

// Start implements [metrics.Starter].
func (o *rounds) Start(s *metrics.Start) (err error) {
	if o.file, err = s.Append(RoundsFile); err != nil || o.file.Size() > 0 {
		return err
	}
	_, err = o.file.Write([]byte(RoundsHeader + "\n"))
	return err
}

// Round implements [metrics.Output]. The row is with the operating system when it
// returns, so that a run that dies keeps what it has done.
func (o *rounds) Round(r *metrics.Round) error {
	o.row = AppendRow(o.row[:0], &r.Report)
	if _, err := o.file.Write(o.row); err != nil {
		return fmt.Errorf("round %d cannot be written: %w", r.Round, err)
	}
	return nil
}

// AppendRow appends a round's row with its newline. A value that does not exist
// is an empty cell. Times are exact; other numbers read back to the same bits.
func AppendRow(b []byte, r *round.Report) []byte {
	b = strconv.AppendInt(b, int64(r.Round), 10)
	b = appendSeconds(append(b, ','), r.End)
	b = appendSeconds(append(b, ','), r.End-r.Start)
	b = strconv.AppendInt(append(b, ','), int64(r.LocalSteps), 10)
	b = strconv.AppendFloat(append(b, ','), r.LearningRate, 'g', -1, 64)
	b = strconv.AppendInt(append(b, ','), int64(r.Cohort), 10)
	for _, n := range r.Outcomes {
		b = strconv.AppendInt(append(b, ','), int64(n), 10)
	}
	b = appendMeasured(append(b, ','), r.TrainingLoss, true)
	b = appendMeasured(append(b, ','), r.ValidationLoss, r.Evaluated)
	b = appendMeasured(append(b, ','), r.ValidationAccuracy, r.Evaluated)
	b = strconv.AppendInt(append(b, ','), r.SGDSteps, 10)
	return append(b, '\n')
}

// appendSeconds writes nanoseconds as seconds in decimal, without rounding.
func appendSeconds(b []byte, t round.Time) []byte {
	if t%1e9 == 0 {
		return strconv.AppendInt(b, int64(t/1e9), 10)
	}
	return bytes.TrimRight(fmt.Appendf(b, "%d.%09d", int64(t/1e9), int64(t%1e9)), "0")
}

func appendMeasured(b []byte, v float64, exists bool) []byte {
	if !exists || math.IsNaN(v) {
		return b
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
