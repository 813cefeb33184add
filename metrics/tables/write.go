package tables

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"fedpace/actors/measure"
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
	return writeRows(w, run, reflect.TypeFor[T](), rows)
}

// writeRows is write for rows that are values of a struct.
func writeRows[T any](w io.Writer, run *metrics.Run, row reflect.Type, rows iter.Seq2[T, error]) error {
	said := parquet.KeyValueMetadata
	p := parquet.NewGenericWriter[T](w, parquet.SchemaOf(reflect.New(row).Interface()), parquet.CreatedBy("fedpace", run.Version, ""),
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupSet), said("columns", columns(row)),
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
	row := rowType(run.Metrics)
	return writeRows(w, run, row, func(yield func(any, error) bool) {
		for r, err := range rounds {
			v := reflect.New(row).Elem()
			fields := reflect.ValueOf(rowOf(&r))
			for i := range fields.NumField() {
				v.FieldByName(fields.Type().Field(i).Name).Set(fields.Field(i))
			}
			for i := range run.Metrics {
				v.FieldByName(metricField(i)).Set(reflect.ValueOf(metrics.Measured(measure.At(r.Metrics, i))))
			}
			if !yield(v.Interface(), err) {
				return
			}
		}
	})
}

// rowType is [Round] with a column for each metric behind that of the validation loss.
func rowType(list []measure.Metric) reflect.Type {
	fields := reflect.VisibleFields(reflect.TypeFor[Round]())
	at := 1 + slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Name == "ValidationLoss" })
	for i, m := range list {
		about := m.Name + " on held-out samples"
		if m.Name == measure.Accuracy {
			about = "top-1 accuracy on held-out samples, 0 to 1"
		}
		fields = slices.Insert(fields, at+i, reflect.StructField{
			Name: metricField(i), Type: reflect.TypeFor[*float64](),
			Tag: reflect.StructTag(fmt.Sprintf(`parquet:"validation_%s,optional" about:%q`, m.Name, about)),
		})
	}
	return reflect.StructOf(fields)
}

func metricField(i int) string { return fmt.Sprintf("Metric%d", i) }

func rowOf(r *round.Report) Round {
	row := Round{
		Round: int32(r.Round), StartSeconds: r.Start.Seconds(), VirtualSeconds: r.End.Seconds(), RoundSeconds: (r.End - r.Start).Seconds(),
		LocalSteps: int32(r.LocalSteps), LearningRate: r.LearningRate, Cohort: int32(r.Cohort),
		Accepted: int32(r.Outcomes[round.Accepted]), Late: int32(r.Outcomes[round.Late]), Dropped: int32(r.Outcomes[round.Dropped]),
		Lost: int32(r.Outcomes[round.Lost]), Cancelled: int32(r.Outcomes[round.Cancelled]), Refused: int32(r.Outcomes[round.Refused]),
		TrainingLoss: metrics.Measured(r.TrainingLoss), SGDSteps: r.SGDSteps, LateUsed: int32(r.LateUsed),
	}
	if r.Evaluated {
		row.ValidationLoss = metrics.Measured(r.ValidationLoss)
	}
	if r.KnowsSteps() {
		smallest, mean, largest := int32(r.Steps.Smallest), r.Steps.Mean(), int32(r.Steps.Largest)
		row.SmallestLocalSteps, row.MeanLocalSteps, row.LargestLocalSteps = &smallest, &mean, &largest
	}
	return row
}

// Round is a row of rounds.parquet, without its metrics.
type Round struct {
	Round              int32    `parquet:"round" about:"number of the round, from 1"`
	StartSeconds       float64  `parquet:"start_seconds" about:"virtual time of its first task; rounds that overlap: of the close before" unit:"s"`
	VirtualSeconds     float64  `parquet:"virtual_seconds" about:"virtual time at its close" unit:"s"`
	RoundSeconds       float64  `parquet:"round_seconds" about:"its virtual duration" unit:"s"`
	LocalSteps         int32    `parquet:"local_steps" about:"local SGD steps a client, K_r" unit:"steps"`
	LearningRate       float64  `parquet:"learning_rate" about:"eta_r"`
	Cohort             int32    `parquet:"cohort" about:"tasks that ended in it" unit:"tasks"`
	Accepted           int32    `parquet:"accepted" about:"tasks whose update counts" unit:"tasks"`
	Late               int32    `parquet:"late" about:"tasks that would have ended after the deadline, or from too old a model" unit:"tasks"`
	Dropped            int32    `parquet:"dropped" about:"tasks whose client left" unit:"tasks"`
	Lost               int32    `parquet:"lost" about:"tasks of devices that fell silent" unit:"tasks"`
	Cancelled          int32    `parquet:"cancelled" about:"tasks that the close made needless" unit:"tasks"`
	Refused            int32    `parquet:"refused" about:"tasks whose update was not valid" unit:"tasks"`
	TrainingLoss       *float64 `parquet:"training_loss,optional" about:"mean first-step loss of the accepted clients"`
	ValidationLoss     *float64 `parquet:"validation_loss,optional" about:"mean loss on held-out samples"`
	SGDSteps           int64    `parquet:"sgd_steps" about:"sum of K_r up to here" unit:"steps"`
	SmallestLocalSteps *int32   `parquet:"smallest_local_steps,optional" about:"smallest K of the tasks that ended in it" unit:"steps"`
	MeanLocalSteps     *float64 `parquet:"mean_local_steps,optional" about:"their mean K" unit:"steps"`
	LargestLocalSteps  *int32   `parquet:"largest_local_steps,optional" about:"their largest K" unit:"steps"`
	LateUsed           int32    `parquet:"late_used" about:"late updates of earlier rounds that count in it" unit:"tasks"`
}

// Client is a row of clients.parquet. Useful is what went into updates that
// count, and wasted all else.
type Client struct {
	Client int32  `parquet:"client" about:"number of the client, from 0"`
	Class  string `parquet:"class,dict" about:"class of its device; empty where all are alike"`
	Real   bool   `parquet:"real" about:"whether it is a real device"`

	Tasks      int32 `parquet:"tasks" about:"tasks that ended" unit:"tasks"`
	Accepted   int32 `parquet:"accepted" about:"tasks whose update counts" unit:"tasks"`
	Late       int32 `parquet:"late" about:"tasks that would have ended after the deadline, or from too old a model" unit:"tasks"`
	Dropped    int32 `parquet:"dropped" about:"tasks that it left" unit:"tasks"`
	Lost       int32 `parquet:"lost" about:"tasks in which it fell silent" unit:"tasks"`
	Cancelled  int32 `parquet:"cancelled" about:"tasks that a round's close or the run's end made needless" unit:"tasks"`
	Refused    int32 `parquet:"refused" about:"tasks whose update was not valid" unit:"tasks"`
	Candidates int32 `parquet:"candidates" about:"times that it was asked for its loss" unit:"times"`

	StepsUseful int64 `parquet:"steps_useful" about:"local SGD steps in updates that count" unit:"steps"`
	StepsWasted int64 `parquet:"steps_wasted" about:"local SGD steps in vain" unit:"steps"`

	DownloadUseful float64 `parquet:"download_seconds_useful" about:"virtual time of downloads for updates that count" unit:"s"`
	DownloadWasted float64 `parquet:"download_seconds_wasted" about:"virtual time of downloads in vain" unit:"s"`
	ComputeUseful  float64 `parquet:"compute_seconds_useful" about:"virtual time of local steps in updates that count" unit:"s"`
	ComputeWasted  float64 `parquet:"compute_seconds_wasted" about:"virtual time of local steps in vain" unit:"s"`
	UploadUseful   float64 `parquet:"upload_seconds_useful" about:"virtual time of uploads that count" unit:"s"`
	UploadWasted   float64 `parquet:"upload_seconds_wasted" about:"virtual time of uploads in vain" unit:"s"`
	WaitingUseful  float64 `parquet:"waiting_seconds_useful" about:"virtual time of tasks that count in no known phase" unit:"s"`
	WaitingWasted  float64 `parquet:"waiting_seconds_wasted" about:"virtual time in vain in no known phase: silence" unit:"s"`
}

// about is a column in the metadata.
type about struct {
	Meaning string `json:"meaning"`
	Unit    string `json:"unit,omitempty"`
}

// columns is the metadata's JSON for a row's type.
func columns(row reflect.Type) string {
	list := map[string]about{}
	for _, f := range reflect.VisibleFields(row) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		list[name] = about{f.Tag.Get("about"), f.Tag.Get("unit")}
	}
	text, err := json.Marshal(list) // sorts by name
	if err != nil {
		panic("tables: a map of strings has no JSON")
	}
	return string(text)
}
