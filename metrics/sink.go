package metrics

import (
	"io"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"fedpace/coordinator/round"
	"fedpace/registry"
)

// Sinks are the outputs that a configuration can name.
var Sinks = registry.New[Sink]("output", "sink")

// Sink is a kind of output with its options.
type Sink interface {
	// Files lists the names of the files that the output writes in the run's folder.
	Files() []string
	// Open makes the output of one run and finds what is wrong with the options. It must not write
	// to the run's folder: a run that cannot start leaves it as it is. It may raise the run's
	// Sample.
	Open(run *Run) (Output, error)
}

// Spools are those files of an output that are removed when the run is complete: their names end with
// ".rows".
func Spools(s Sink) []string {
	return slices.DeleteFunc(slices.Clone(s.Files()), func(name string) bool { return filepath.Ext(name) != ".rows" })
}

// Output takes what one run reports. All methods, here and below, are called
// from the run's goroutine unless they say otherwise. An error ends the run.
type Output interface {
	// Round takes a round that is complete. r is valid until Round returns.
	Round(r *Round) error
}

// Starter is an [Output] that needs the run's folder, or the place from which a run is resumed,
// before the first round. If the output is [Stateful], Restore comes first.
type Starter interface{ Start(s *Start) error }

// TaskObserver is an [Output] that takes every task, before the round in which the task counts. e
// is valid until Task returns. A run completes hundreds of thousands of tasks a second.
type TaskObserver interface{ Task(e *round.TaskReport) }

// LossObserver is an [Output] that takes the first-step losses of a round's accepted
// tasks, after the tasks and before the round. Of a run without training there are none.
// The lists are valid until Losses returns.
type LossObserver interface {
	Losses(tasks []round.Task, losses []float64)
}

// ClientsObserver is an [Output] that takes models that were measured on the clients' own
// samples, before the round after which they were; the final model after the last round. e
// may be kept and must not be changed.
type ClientsObserver interface {
	Clients(e *ClientEvaluation) error
}

// ModelObserver is an [Output] that takes each model that is the best so far by the
// run's quality. params may be kept and must not be changed.
type ModelObserver interface {
	Best(quality float64, params []float32)
}

// NoticeObserver is an [Output] that takes the lines that the user is told. They
// come from any goroutine.
type NoticeObserver interface{ Notice(line string) }

// Stateful is an [Output] with memory that a checkpoint must keep. Save may
// return memory that the next call changes.
type Stateful interface {
	Save() ([]byte, error)
	Restore(state []byte) error
}

// Flusher is an [Output] that buffers what it appends to files. After Flush the
// files must be readable to their ends.
type Flusher interface{ Flush() error }

// Finisher is an [Output] that writes or shows something at the run's end.
type Finisher interface{ Finish(e *End) error }

// Closer is an [Output] that holds resources. Close is called once, last of all,
// also where the run never started. reason is nil for a run that is complete.
type Closer interface{ Close(reason error) error }

// Folder is the run's folder.
type Folder interface {
	// Append opens a file that only grows while the run goes on. In a run that is
	// resumed it is as long as it was at the checkpoint.
	Append(name string) (File, error)
	// Spool is Append for a file that is of no use once the run is complete: it is removed then.
	Spool(name string) (File, error)
	// Replace writes a file whole or not at all.
	Replace(name string, write func(io.Writer) error) error
	// Path is where a file of the folder is.
	Path(name string) string
}

// File is a file that only grows. A Write appends wholly or not at all.
type File interface {
	io.Writer
	// Size is the length of the file in bytes.
	Size() int64
}

// Start is where a run starts, or continues after a checkpoint.
type Start struct {
	Folder
	// Rounds reads all rounds of the run so far from its folder, at any time.
	// Candidates are not known.
	Rounds iter.Seq2[round.Report, error]
	// Elapsed is the wall time of the attempts before; 0 for a new run.
	Elapsed time.Duration
	// Last is the last round, with the losses that were measured last, nil for a
	// new run. It has no tasks.
	Last *Round
	// Clients is the last evaluation on the clients' own samples, without scores; nil: none yet.
	Clients *ClientEvaluation
}

// Round is a round that has closed.
type Round struct {
	round.Report
	// Ended is how many tasks ended in the round, including the probes of candidates.
	Ended int
	// Tasks are the tasks that outputs see: the slowest, all of real devices, and a sample of the
	// others. They are sorted by start, then by number.
	Tasks []Task
	// Usage is what the clients used from the run's start to the end of this round.
	Usage *Usage
}

// End is how a run ended.
type End struct {
	// Start is where this attempt of the run started; nil: it failed before.
	Start *Start
	// Completed is false if the run was interrupted or has failed.
	Completed bool
	// Err is why the run is not complete; nil for a complete run.
	Err error
	// Elapsed is the wall time of all attempts together.
	Elapsed time.Duration
	// Summary is the content of summary.json.
	Summary []byte
	// Params are the parameters of the final model; nil if there is none.
	Params []float32

	// Evaluated says that the final model was measured on held-out samples. ValidationLoss and Metrics, in
	// the order of Run.Metrics, then hold its loss and its metrics.
	Evaluated      bool
	ValidationLoss float64
	Metrics        []float64
}
