package outputs

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/structpb"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// definitions are those of TensorFlow and TensorBoard, as far as the file uses them.
func definitions(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("testdata/tensorboard.textproto")
	if err != nil {
		t.Fatal(err)
	}
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	d, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// records reads TFRecords one by one: what does not end with a record, or has another checksum,
// is an error.
func records(b []byte) (list [][]byte, err error) {
	sum := func(b []byte) uint32 {
		crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return (crc>>15 | crc<<17) + 0xa282ead8
	}
	for len(b) > 0 {
		if len(b) < 16 {
			return list, errors.New("a frame is cut")
		}
		n := binary.LittleEndian.Uint64(b)
		if sum(b[:8]) != binary.LittleEndian.Uint32(b[8:]) || uint64(len(b)) < 16+n {
			return list, errors.New("a length is damaged")
		}
		record := b[12 : 12+n]
		if sum(record) != binary.LittleEndian.Uint32(b[12+n:]) {
			return list, errors.New("a record is damaged")
		}
		list, b = append(list, record), b[16+n:]
	}
	return list, nil
}

// folder is a run's folder in a temporary one.
type folder struct {
	metrics.Folder
	dir string
}

type file struct{ *os.File }

func (f file) Size() int64 {
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	return info.Size()
}

func (f folder) Append(name string) (metrics.File, error) {
	to, err := os.OpenFile(filepath.Join(f.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return file{to}, err
}

var run = &metrics.Run{Task: "femnist", Schedule: "rounds", Close: "all", Seed: math.MaxUint64, Clients: 3000, Cohort: 60, Metrics: []metric.Metric{{Name: metric.Accuracy}}}

var rounds = []round.Report{
	{Round: 1, End: 2500e6, LocalSteps: 80, LearningRate: 0.25, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 2}, LateUsed: 1, Steps: metric.Spread{Tasks: 2, Smallest: 64, Largest: 80, Sum: 144}, TrainingLoss: 4.25, WindowLoss: 4.25, SGDSteps: 80},
	{Round: 2, Start: 2500e6, End: 4e9, LocalSteps: 64, LearningRate: 0.25, Outcomes: [round.Outcomes]int{round.Late: 1}, TrainingLoss: math.NaN(), WindowLoss: 4.25, SGDSteps: 144, Evaluated: true, ValidationLoss: 3.5, Metrics: []float64{0.75}},
}

// write writes the rounds, and is opened anew for each, as by a run that is resumed.
func write(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for i := range rounds {
		o, err := TensorBoard{}.Open(run)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(o.(metrics.Starter).Start(&metrics.Start{Folder: folder{dir: dir}}), o.Round(&metrics.Round{Report: rounds[i]}), o.(*tensorboard).file.(file).Close()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, TensorBoardFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The file is read by the published definitions, without this package's field numbers.
func TestEvents_ByDefinition(t *testing.T) {
	list, err := records(write(t))
	if err != nil {
		t.Fatal(err)
	}
	d := definitions(t)
	want := []string{
		`file_version:"brain.Event:2"`,
		`summary{value{tag:"_hparams_/session_start_info" metadata{plugin_data{plugin_name:"hparams" content:"hparams"}}}}`,
		`wall_time:2.5 step:1 summary{` + values("time/virtual_seconds 2.5", "time/round_seconds 2.5", "schedule/local_steps 80", "schedule/learning_rate 0.25", "tasks/cohort 2",
			"tasks/accepted 2", "tasks/late 0", "tasks/dropped 0", "tasks/lost 0", "tasks/cancelled 0", "tasks/refused 0", "loss/training 4.25", "loss/window 4.25", "schedule/sgd_steps 80",
			"schedule/smallest_local_steps 64", "schedule/mean_local_steps 72", "schedule/largest_local_steps 80", "tasks/late_used 1") + `}`,
		`wall_time:4 step:2 summary{` + values("time/virtual_seconds 4", "time/round_seconds 1.5", "schedule/local_steps 64", "schedule/learning_rate 0.25", "tasks/cohort 0",
			"tasks/accepted 0", "tasks/late 1", "tasks/dropped 0", "tasks/lost 0", "tasks/cancelled 0", "tasks/refused 0", "loss/window 4.25", "loss/validation 3.5", "accuracy/validation 0.75", "schedule/sgd_steps 144",
			"tasks/late_used 0") + `}`,
	}
	if len(list) != len(want) {
		t.Fatalf("%d records", len(list))
	}
	hparams := dynamicpb.NewMessage(d.Messages().ByName("HParamsPluginData"))
	for i, record := range list {
		got, expected := dynamicpb.NewMessage(d.Messages().ByName("Event")), dynamicpb.NewMessage(d.Messages().ByName("Event"))
		if err := errors.Join((proto.UnmarshalOptions{}).Unmarshal(record, got), prototext.Unmarshal([]byte(want[i]), expected)); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			takeContent(t, got, hparams)
		}
		if diff := cmp.Diff(prototext.Format(expected), prototext.Format(got)); diff != "" {
			t.Errorf("record %d: %s", i, diff)
		}
	}
	expected := dynamicpb.NewMessage(hparams.Descriptor())
	if err := prototext.Unmarshal([]byte(`session_start_info{
		hparams{key:"task" value{string_value:"femnist"}} hparams{key:"schedule" value{string_value:"rounds"}} hparams{key:"close" value{string_value:"all"}}
		hparams{key:"seed" value{string_value:"18446744073709551615"}} hparams{key:"clients" value{number_value:3000}} hparams{key:"cohort" value{number_value:60}}}`), expected); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(expected, hparams) {
		t.Errorf("hyperparameters %v, want %v", hparams, expected)
	}
}

func values(list ...string) (text string) {
	for _, s := range list {
		name, v, _ := strings.Cut(s, " ")
		text += `value{tag:"` + name + `" simple_value:` + v + `} `
	}
	return text
}

// takeContent decodes the plug-in's content of an event into a message, and puts a word in its place.
func takeContent(t *testing.T, event, into *dynamicpb.Message) {
	t.Helper()
	field := func(m protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
		return m.Descriptor().Fields().ByName(name)
	}
	summary := event.Mutable(field(event, "summary")).Message()
	value := summary.Mutable(field(summary, "value")).List().Get(0).Message()
	metadata := value.Mutable(field(value, "metadata")).Message()
	plugin := metadata.Mutable(field(metadata, "plugin_data")).Message()
	content := plugin.Get(field(plugin, "content")).Bytes()
	if err := (proto.UnmarshalOptions{}).Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
	plugin.Set(field(plugin, "content"), protoreflect.ValueOfBytes([]byte("hparams")))
}

// The checksums of TFRecords that TensorFlow's own test of CRC-32C gives: 32 bytes of zeros, of
// ones, and a record's mask of a known sum.
func TestChecksums(t *testing.T) {
	for text, want := range map[string]uint32{
		"0000000000000000000000000000000000000000000000000000000000000000": 0x8a9136aa,
		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff": 0x62a8ab43,
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := masked(b), (want>>15|want<<17)+0xa282ead8; got != want {
			t.Errorf("%s: %08x, want %08x", text[:2], got, want)
		}
	}
}
