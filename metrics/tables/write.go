package tables

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

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

// Sink is the output "tables" of a configuration; it has no options.
type Sink struct{}

// Files implements [metrics.Sink].
func (Sink) Files() []string { return []string{RoundsFile, ClientsFile} }

// Open implements [metrics.Sink].
func (Sink) Open(run *metrics.Run) (metrics.Output, error) { return New(run), nil }

const (
	// batch is the number of rows that are given to the writer at a time.
	batch = 1 << 10
	// groupRows is the number of rows of a row group, which a writer keeps in memory.
	groupRows = 1 << 16
)

// codec compresses with the fastest level: it takes half of the default level's time, for files that are
// a few percent larger, since virtual times have hardly any pattern.
var codec = zstd.Codec{Level: zstd.SpeedFastest}

// write writes the table of the values in rows to w as Parquet, batch by batch. rowType is the struct
// type from which the schema follows; T is that type, or any for one made by reflection. The file's
// metadata say what the columns mean and which run it is of. It ends at the first error that rows
// yields.
func write[T any](w io.Writer, run *metrics.Run, rowType reflect.Type, rows iter.Seq2[T, error]) error {
	metadata := parquet.KeyValueMetadata
	p := parquet.NewGenericWriter[T](
		w,
		parquet.SchemaOf(reflect.New(rowType).Interface()),
		parquet.CreatedBy("fedpace", run.Version, ""),
		parquet.Compression(&codec),
		parquet.MaxRowsPerRowGroup(groupRows),
		metadata("columns", columns(rowType)),
		metadata("run", run.Name),
		metadata("task", run.Task),
		metadata("schedule", run.Schedule),
		metadata("seed", strconv.FormatUint(run.Seed, 10)),
		metadata("clients", strconv.Itoa(run.Clients)),
		metadata("version", run.Version),
	)
	buffer := make([]T, 0, batch)
	for row, err := range rows {
		if err != nil {
			return err
		}
		buffer = append(buffer, row)
		// The buffer is full, so it is written and its memory is reused.
		if len(buffer) == batch {
			if _, err := p.Write(buffer); err != nil {
				return fmt.Errorf("tables: %w", err)
			}
			buffer = buffer[:0]
		}
	}
	// The last batch is not full.
	_, err := p.Write(buffer)
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return fmt.Errorf("tables: %w", err)
	}
	return nil
}

// WriteRounds writes rounds.parquet to w: a row for each round that rounds yields, with the columns
// of the run. It ends at the first error among the rounds.
func WriteRounds(w io.Writer, run *metrics.Run, rounds iter.Seq2[round.Report, error]) error {
	columns := run.Columns()
	row := rowType(columns)
	return write(w, run, row, func(yield func(any, error) bool) {
		for report, err := range rounds {
			values := reflect.New(row).Elem()
			for i := range columns {
				setField(values.Field(i), columns[i].Kind, columns[i].Get(&report))
			}
			if !yield(values.Interface(), err) {
				return
			}
		}
	})
}

// rowType returns a struct type with a field for each column, from which parquet-go derives the
// schema of the table. The tags of the fields hold the column's name, meaning and unit.
func rowType(columns []metrics.Column) reflect.Type {
	types := map[metrics.Kind]reflect.Type{
		metrics.Count: reflect.TypeFor[int32](),
		metrics.Total: reflect.TypeFor[int64](),
		metrics.Real:  reflect.TypeFor[float64](),
		metrics.Time:  reflect.TypeFor[float64](),
	}
	var fields []reflect.StructField
	for i, c := range columns {
		field := types[c.Kind]
		name := c.Name
		// The value of an optional column is a pointer, which is nil where nothing was measured.
		if c.Optional {
			field = reflect.PointerTo(field)
			name = name + ",optional"
		}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprint("Column", i),
			Type: field,
			Tag:  reflect.StructTag(fmt.Sprintf("parquet:%q about:%q unit:%q", name, c.Help, c.Unit)),
		})
	}
	return reflect.StructOf(fields)
}

// setField puts the number v of a column of this kind into field, as an integer for counts and as a
// float otherwise. A field of an optional column is a pointer and stays nil (null in the table)
// where v is NaN: not measured.
func setField(field reflect.Value, kind metrics.Kind, v metrics.Number) {
	if field.Kind() == reflect.Pointer {
		if math.IsNaN(v.Float) {
			return
		}
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	if kind == metrics.Count || kind == metrics.Total {
		field.SetInt(v.Int)
	} else {
		field.SetFloat(v.Float)
	}
}

// Client is a row of clients.parquet. Useful is what went into updates that
// count, and wasted all else.
type Client struct {
	Client int32  `parquet:"client" about:"number of the client, from 0"`
	Class  string `parquet:"class,dict" about:"class of its device; empty where all are alike or none is known"`
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

// about is what a table's metadata say of a column.
type about struct {
	// Meaning is a phrase that says what the column holds.
	Meaning string `json:"meaning"`
	// Unit is the unit of the values; empty: they have none.
	Unit string `json:"unit,omitempty"`
}

// columns returns a JSON object that gives each column of the struct type row its meaning and unit,
// as the tags of the fields say.
func columns(row reflect.Type) string {
	list := map[string]about{}
	for _, f := range reflect.VisibleFields(row) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		list[name] = about{f.Tag.Get("about"), f.Tag.Get("unit")}
	}
	// Marshal sorts the keys by name.
	text, err := json.Marshal(list)
	if err != nil {
		panic("tables: a map of strings has no JSON")
	}
	return string(text)
}
