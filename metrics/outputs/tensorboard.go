package outputs

import (
	"math"
	"strconv"

	"fedpace/metrics"
)

// TensorBoardFile is the event file in the run's folder. TensorBoard knows such a file by "tfevents" in its
// name.
const TensorBoardFile = "events.out.tfevents.fedpace"

func init() {
	metrics.Sinks.Register("tensorboard", "scalars by round for TensorBoard, in "+TensorBoardFile, TensorBoard{})
}

// TensorBoard is the output that TensorBoard reads: an event file with the columns of a round under
// their tags. The step of a value is its round. Its time is virtual, in seconds since 1970, so that
// TensorBoard's axis "relative" is virtual time and one seed gives one file. The first event after
// the file's version describes the run for the page of hyperparameters.
type TensorBoard struct{}

func (TensorBoard) Files() []string { return []string{TensorBoardFile} }

func (TensorBoard) Open(run *metrics.Run) (metrics.Output, error) {
	return &tensorboard{run: run, columns: run.Columns()}, nil
}

type tensorboard struct {
	run     *metrics.Run
	columns []metrics.Column
	file    metrics.File
}

// Start implements [metrics.Starter].
func (o *tensorboard) Start(s *metrics.Start) (err error) {
	if o.file, err = s.Append(TensorBoardFile); err != nil || o.file.Size() > 0 {
		return err
	}
	b := appendRecord(nil, appendString(event(0, 0), eventFileVersion, fileVersion))
	b = appendRecord(b, appendBytes(event(0, 0), eventSummary, hparamsSummary(hparams(o.run))))
	_, err = o.file.Write(b)
	return err
}

// hparams are what runs are usually compared by. A seed is text: a double does not hold all.
func hparams(run *metrics.Run) []hparam {
	return []hparam{
		text("task", run.Task), text("schedule", run.Schedule), text("close", run.Close),
		text("seed", strconv.FormatUint(run.Seed, 10)),
		number("clients", run.Clients), number("cohort", run.Cohort),
	}
}

// Round writes the round's event: one write, so that a reader never waits for a buffer. What was
// not measured is left out.
func (o *tensorboard) Round(r *metrics.Round) error {
	var summary []byte
	for i := range o.columns {
		c := &o.columns[i]
		if v := c.Of(&r.Report); c.Tag != "-" && !math.IsNaN(v) {
			summary = appendScalar(summary, c.Tag, v)
		}
	}
	_, err := o.file.Write(appendRecord(nil, appendBytes(event(r.End.Seconds(), r.Round), eventSummary, summary)))
	return err
}
