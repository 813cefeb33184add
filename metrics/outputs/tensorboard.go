package outputs

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"fedpace/metrics"
	"fedpace/metrics/outputs/event"
)

//go:generate sh -c "protoc --plugin=protoc-gen-go=$(go tool -n protoc-gen-go) --go_out=../.. --go_opt=module=fedpace event.proto"

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

// Files names the file of TensorBoard's events.
func (TensorBoard) Files() []string { return []string{TensorBoardFile} }

// Open makes the output of one run.
func (TensorBoard) Open(run *metrics.Run) (metrics.Output, error) {
	return &tensorboard{run: run, columns: run.Columns()}, nil
}

// tensorboard writes each column of a round as a scalar of TensorBoard.
type tensorboard struct {
	run     *metrics.Run
	columns []metrics.Column
	file    metrics.File
}

// Start implements [metrics.Starter]: it begins the file with its version and the run's settings. A
// resumed run continues a file that has them.
func (o *tensorboard) Start(s *metrics.Start) (err error) {
	o.file, err = s.Append(TensorBoardFile)
	if err != nil || o.file.Size() > 0 {
		return err
	}
	settings, err := hparams(o.run)
	if err != nil {
		return err
	}
	// TensorBoard's plugin hparams reads the settings from this value.
	start := &event.Value{
		Tag:      "_hparams_/session_start_info",
		Metadata: &event.Metadata{PluginData: &event.Plugin{PluginName: "hparams", Content: settings}},
	}
	// Both events stand before the first round: at virtual time 0, as step 0.
	return o.write(
		0,
		0,
		&event.Event{FileVersion: "brain.Event:2"},
		&event.Event{Summary: &event.Summary{Value: []*event.Value{start}}},
	)
}

// hparams returns the settings of run in the form in which TensorBoard compares runs: what runs are
// usually compared by, and each setting that is not the task's default. A seed is text, because a
// double does not hold all.
func hparams(run *metrics.Run) ([]byte, error) {
	text := func(name, v string) *event.HParam {
		return &event.HParam{Key: name, Value: &event.Setting{StringValue: &v}}
	}
	number := func(name string, v int) *event.HParam {
		return &event.HParam{Key: name, Value: &event.Setting{NumberValue: proto.Float64(float64(v))}}
	}
	list := []*event.HParam{
		text("task", run.Task), text("schedule", run.Schedule), text("close", run.Close),
		text("seed", strconv.FormatUint(run.Seed, 10)),
		number("clients", run.Clients), number("cohort", run.Cohort),
	}
	for _, setting := range run.Settings {
		key, value, _ := strings.Cut(setting, "=")
		named := slices.ContainsFunc(list, func(p *event.HParam) bool { return p.Key == key })
		isCompared := slices.Contains(compared, key) || slices.Contains(run.NonDefault, setting)
		// The setting is in the list already, or has the task's default and is not compared by.
		if named || !isCompared {
			continue
		}
		if x, err := strconv.ParseFloat(value, 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
			list = append(list, &event.HParam{Key: key, Value: &event.Setting{NumberValue: &x}})
			continue
		}
		list = append(list, text(key, value))
	}
	return proto.Marshal(&event.HParams{SessionStartInfo: &event.Session{Hparams: list}})
}

// compared are keys by which runs are usually compared, beside those that differ from their defaults:
// K_0, eta_0, the minibatch, and the client's speed and links.
var compared = []string{
	"schedule.k0", "schedule.eta0", "batch",
	"compute.seconds_per_step", "network.download_mbps", "network.upload_mbps", "network.model_megabits",
}

// Round implements [metrics.Output]: it writes the values of round r as one event at the round's
// virtual time. What was not measured is left out.
func (o *tensorboard) Round(r *metrics.Round) error {
	s := &event.Summary{}
	for i := range o.columns {
		c := &o.columns[i]
		// A column without a tag ("-") has its value in the event in another form, such as the step.
		if v := c.Of(&r.Report); c.Tag != "-" && !math.IsNaN(v) {
			s.Value = append(s.Value, &event.Value{Tag: c.Tag, SimpleValue: proto.Float32(float32(v))})
		}
	}
	return o.write(r.End.Seconds(), r.Round, &event.Event{Summary: s})
}

// write appends events to the file, all at the virtual time seconds and the step round. It is one call of
// Write, so that a reader finds whole events. The file is a sequence of TFRecords: the length of an event as
// a uint64, the masked CRC-32C of the length, the event, and its masked CRC-32C, all in little endian.
func (o *tensorboard) write(seconds float64, round int, events ...*event.Event) error {
	var b []byte
	for _, e := range events {
		e.WallTime = &seconds
		e.Step = proto.Int64(int64(round))
		message, err := proto.Marshal(e)
		if err != nil {
			return err
		}
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(message)))
		b = append(b, length...)
		b = binary.LittleEndian.AppendUint32(b, masked(length))
		b = append(b, message...)
		b = binary.LittleEndian.AppendUint32(b, masked(message))
	}
	_, err := o.file.Write(b)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of a TFRecord: a CRC of data that hold CRCs is weak, so it is rotated and
// a constant is added (tensorflow/core/lib/hash/crc32c.h).
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}
