package tables

import (
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// The names of the tables in a run's folder.
const (
	RoundsFile  = "rounds.parquet"
	ClientsFile = "clients.parquet"
)

func init() {
	metrics.Sinks.Register("tables", "rounds and clients as tables in Parquet", Sink{})
}

// Sink is the output's entry; it has no options.
type Sink struct{}

func (Sink) Files() []string { return []string{RoundsFile, ClientsFile} }

func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return New(run), nil }

const (
	batch    = 1 << 10
	groupSet = 1 << 16 // rows of a row group: what a writer keeps in memory
)

// write writes the rows of a table. Its metadata say which run it is of.
func write[T any](w io.Writer, run *metrics.Run, rows iter.Seq2[T, error]) error {
	said := parquet.KeyValueMetadata
	p := parquet.NewGenericWriter[T](w, parquet.CreatedBy("fedpace", run.Version, ""),
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupSet), said("columns", columns[T]()),
		said("run", run.Name), said("task", run.Task), said("schedule", run.Schedule),
		said("seed", strconv.FormatUint(run.Seed, 10)), said("clients", strconv.Itoa(run.Clients)), said("version", run.Version))
	buffer := make([]T, 0, batch)
	for row, err := range rows {
		if err != nil {
			return err
		}
		if buffer = append(buffer, row); len(buffer) == batch {
			if _, err := p.Write(buffer); err != nil {
				return fmt.Errorf("tables: %w", err)
			}
			buffer = buffer[:0]
		}
	}
	_, err := p.Write(buffer)
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	return nil
}

// WriteRounds writes rounds.parquet.
func WriteRounds(w io.Writer, run *metrics.Run, rounds iter.Seq2[round.Report, error]) error {
	return write(w, run, func(yield func(Round, error) bool) {
		for r, err := range rounds {
			if !yield(rowOf(&r), err) {
				return
			}
		}
	})
}

func rowOf(r *round.Report) Round {
	row := Round{
		Round: int32(r.Round), StartSeconds: r.Start.Seconds(), VirtualSeconds: r.End.Seconds(), RoundSeconds: (r.End - r.Start).Seconds(),
		LocalSteps: int32(r.LocalSteps), LearningRate: r.LearningRate, Cohort: int32(r.Cohort),
		Accepted: int32(r.Outcomes[round.Accepted]), Late: int32(r.Outcomes[round.Late]), Dropped: int32(r.Outcomes[round.Dropped]),
		Lost: int32(r.Outcomes[round.Lost]), Cancelled: int32(r.Outcomes[round.Cancelled]), Refused: int32(r.Outcomes[round.Refused]),
		TrainingLoss: metrics.Measured(r.TrainingLoss), SGDSteps: r.SGDSteps,
	}
	if r.Evaluated {
		row.ValidationLoss, row.ValidationAccuracy = metrics.Measured(r.ValidationLoss), metrics.Measured(r.ValidationAccuracy)
	}
	return row
}
