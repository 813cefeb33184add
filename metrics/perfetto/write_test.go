package perfetto

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/perfetto/trace"
)

// slice is a slice of a track as a viewer builds it of its events.
type slice struct {
	name     string
	from, to uint64
	flows    []uint64
	values   map[string]any
	in       []*slice
}

// view is a trace as a viewer shows it.
type view struct {
	tracks   map[uint64]*trace.TrackDescriptor
	slices   map[uint64][]*slice
	counters map[uint64]map[uint64]float64 // by track and time
	flows    map[uint64][]string           // what each passes through, by time
}

type failer interface{ Fatalf(string, ...any) }

// open reads a trace back with its definition. It refuses what a viewer would
// not understand.
func open(t failer, file []byte) view {
	var m trace.Trace
	if err := proto.Unmarshal(file, &m); err != nil {
		t.Fatalf("%v", err)
	}
	v := view{map[uint64]*trace.TrackDescriptor{}, map[uint64][]*slice{}, map[uint64]map[uint64]float64{}, map[uint64][]string{}}
	type step struct {
		at   uint64
		what string
	}
	flows := map[uint64][]step{}
	ended := map[uint64]bool{}
	// A viewer sorts by time; what has the same time stays in the file's order.
	var events []*trace.TracePacket
	for _, p := range m.Packet {
		if p.TrustedPacketSequenceId != sequence {
			t.Fatalf("a packet of sequence %d", p.TrustedPacketSequenceId)
		}
		if d := p.TrackDescriptor; d != nil {
			if v.tracks[d.Uuid] != nil {
				t.Fatalf("track %d is described twice", d.Uuid)
			}
			if d.ParentUuid != 0 && v.tracks[d.ParentUuid] == nil {
				t.Fatalf("track %d has the parent %d, which does not exist", d.Uuid, d.ParentUuid)
			}
			v.tracks[d.Uuid] = d
			continue
		}
		if p.TrackEvent == nil || p.Timestamp == nil || v.tracks[p.TrackEvent.TrackUuid] == nil {
			t.Fatalf("%v is no event, or of no track", p)
		}
		events = append(events, p)
	}
	slices.SortStableFunc(events, func(a, b *trace.TracePacket) int { return cmp.Compare(*a.Timestamp, *b.Timestamp) })
	open := map[uint64][]*slice{}
	for _, p := range events {
		e, at, track := p.TrackEvent, *p.Timestamp, p.TrackEvent.TrackUuid
		for _, flow := range slices.Concat(e.FlowIds, e.TerminatingFlowIds) {
			if ended[flow] {
				t.Fatalf("flow %d goes on after its end", flow)
			}
			flows[flow] = append(flows[flow], step{at, e.Name})
		}
		for _, flow := range e.TerminatingFlowIds {
			ended[flow] = true
		}
		if (e.Type == trace.TrackEvent_TYPE_COUNTER) != (v.tracks[track].Counter != nil) {
			t.Fatalf("%v on track %q", e, v.tracks[track].Name)
		}
		switch e.Type {
		case trace.TrackEvent_TYPE_SLICE_BEGIN:
			s := &slice{name: e.Name, from: at, flows: e.FlowIds, values: map[string]any{}}
			for _, a := range e.DebugAnnotations {
				switch {
				case a.IntValue != nil:
					s.values[a.Name] = *a.IntValue
				case a.DoubleValue != nil:
					s.values[a.Name] = *a.DoubleValue
				case a.StringValue != nil:
					s.values[a.Name] = *a.StringValue
				}
			}
			if outer := open[track]; len(outer) > 0 {
				outer[len(outer)-1].in = append(outer[len(outer)-1].in, s)
			} else {
				v.slices[track] = append(v.slices[track], s)
			}
			open[track] = append(open[track], s)
		case trace.TrackEvent_TYPE_SLICE_END:
			n := len(open[track])
			if n == 0 {
				t.Fatalf("an end without a beginning on %q at %d", v.tracks[track].Name, at)
			}
			open[track][n-1].to = at
			open[track] = open[track][:n-1]
		case trace.TrackEvent_TYPE_INSTANT:
			if len(open[track]) == 0 {
				t.Fatalf("%q at %d is in no slice", e.Name, at)
			}
		case trace.TrackEvent_TYPE_COUNTER:
			value := float64(e.GetCounterValue())
			if e.DoubleCounterValue != nil {
				value = *e.DoubleCounterValue
			}
			if v.counters[track] == nil {
				v.counters[track] = map[uint64]float64{}
			}
			v.counters[track][at] = value
		default:
			t.Fatalf("an event of type %v", e.Type)
		}
	}
	for track, left := range open {
		if len(left) > 0 {
			t.Fatalf("%d slices of %q never end", len(left), v.tracks[track].Name)
		}
	}
	for flow, steps := range flows {
		for _, s := range steps { // sorted by time, for events are
			v.flows[flow] = append(v.flows[flow], s.what)
		}
	}
	return v
}

// logOf writes rounds and reads them as a log.
func logOf(t failer, run *metrics.Run, rounds []metrics.Round) *eventlog.Reader {
	var b bytes.Buffer
	w, err := eventlog.NewWriter(&b, run)
	for i := range rounds {
		if err == nil {
			err = w.Round(&rounds[i])
		}
	}
	if err == nil {
		err = w.Flush()
	}
	var r *eventlog.Reader
	if err == nil {
		r, err = eventlog.NewReader(&b)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

func traceOf(t failer, run *metrics.Run, rounds []metrics.Round, from, to int) (view, Written) {
	var b bytes.Buffer
	wrote, err := Write(&b, logOf(t, run, rounds), from, to)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return open(t, b.Bytes()), wrote
}

const s = round.Time(1e9)

// Two rounds of two clients with a deadline of 5 s: the second client is late.
var twoRounds = []metrics.Round{
	{
		Report: round.Report{
			Round: 1, Start: 0, End: 5 * s, LocalSteps: 80, LearningRate: 0.3, Cohort: 2, Outcomes: [round.Outcomes]int{round.Accepted: 1, round.Late: 1},
			TrainingLoss: 4.25, WindowLoss: 4.25, SGDSteps: 80, Evaluated: true, ValidationLoss: 4, Metrics: []float64{0.125},
		},
		Ended: 2,
		Tasks: []metrics.Task{
			{TaskReport: round.TaskReport{Task: 1, Client: 7, LocalSteps: 80, Outcome: round.Accepted, End: 4 * s, Plan: round.Plan{Download: s, Compute: 2 * s, Upload: s}}},
			{TaskReport: round.TaskReport{Task: 2, Client: 3, LocalSteps: 80, Outcome: round.Late, End: 5 * s, Plan: round.Plan{Download: s, Compute: 6 * s, Upload: s}}, Class: 1, Slow: true},
		},
	},
	{
		Report: round.Report{
			Round: 2, Start: 5 * s, End: 9 * s, LocalSteps: 64, LearningRate: 0.3, Cohort: 1, Outcomes: [round.Outcomes]int{round.Accepted: 1},
			TrainingLoss: 4, WindowLoss: 4.125, SGDSteps: 144, ValidationLoss: math.NaN(),
		},
		Ended: 1,
		Tasks: []metrics.Task{
			{TaskReport: round.TaskReport{Task: 3, Client: 7, LocalSteps: 64, Outcome: round.Accepted, Start: 5 * s, End: 9 * s, Plan: round.Plan{Download: s, Compute: 2 * s, Upload: s}}},
		},
	},
}

func TestWrite_Trace(t *testing.T) {
	v, wrote := traceOf(t, &metrics.Run{Name: "demo", Task: "femnist", Schedule: "rounds", Classes: []string{"phone", "tablet"}, Metrics: []metric.Metric{{Name: metric.Accuracy}}}, twoRounds, 0, 0)
	if wrote != (Written{Rounds: 2, Tasks: 3, Clients: 2}) {
		t.Errorf("%+v", wrote)
	}
	var names []string
	for _, uuid := range slices.Sorted(maps.Keys(v.tracks)) {
		names = append(names, v.tracks[uuid].Name)
	}
	if diff := gocmp.Diff([]string{
		"demo: femnist, rounds", "rounds", "K_r", "eta_r", "training loss", "validation loss", "validation accuracy", "clients",
		"client 3, tablet", "client 7, phone",
	}, names); diff != "" {
		t.Error(diff)
	}
	second := uint64(s)
	phases := func(from uint64) []*slice {
		return []*slice{{name: "download", from: from, to: from + second, values: map[string]any{}}, {name: "compute", from: from + second, to: from + 3*second, values: map[string]any{}}, {name: "upload", from: from + 3*second, to: from + 4*second, values: map[string]any{}}}
	}
	accepted := func(task, number, steps int64, from uint64) *slice {
		one := &slice{name: "accepted", from: from, to: from + 4*second, flows: []uint64{uint64(task)}, in: phases(from), values: map[string]any{"task": task, "round": number, "K": steps, "class": "phone"}}
		one.in[2].flows = one.flows
		return one
	}
	late := &slice{
		name: "late", to: 5 * second, values: map[string]any{"task": int64(2), "round": int64(1), "K": int64(80), "class": "tablet", "seconds planned": 8.},
		in: []*slice{{name: "download", to: second, values: map[string]any{}}, {name: "compute", from: second, to: 5 * second, values: map[string]any{}}},
	}
	got := map[string][]*slice{}
	for track, list := range v.slices {
		if track >= firstClient {
			got[v.tracks[track].Name] = list
		}
	}
	want := map[string][]*slice{
		"client 7, phone":  {accepted(1, 1, 80, 0), accepted(3, 2, 64, 5*second)},
		"client 3, tablet": {late},
	}
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(slice{})); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff(map[uint64][]string{1: {"accepted", "upload", "aggregate"}, 3: {"accepted", "upload", "aggregate"}}, v.flows); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff(map[uint64]map[uint64]float64{
		stepsTrack: {0: 80, 5 * second: 64}, rateTrack: {0: 0.3}, trainingLossTrack: {5 * second: 4.25, 9 * second: 4},
		validationLossTrack: {5 * second: 4}, metricTrack: {5 * second: 0.125},
	}, v.counters); diff != "" {
		t.Error(diff)
	}
}

func TestWrite_SomeRounds(t *testing.T) {
	for _, test := range []struct {
		from, to int
		want     Written
	}{{2, 0, Written{1, 1, 1}}, {0, 1, Written{1, 2, 2}}, {1, 2, Written{2, 3, 2}}, {5, 0, Written{}}} {
		if _, wrote := traceOf(t, &metrics.Run{}, twoRounds, test.from, test.to); wrote != test.want {
			t.Errorf("rounds %d to %d: %+v", test.from, test.to, wrote)
		}
	}
}

// Whatever the tasks of a run are: every client has one track, on it its tasks
// follow each other, and phases tile each task without gap or overlap; rounds
// tile the run.
func TestWrite_EverythingTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Map(rapid.Int64Range(0, 5), func(n int64) round.Time { return round.Time(n) })
		var rounds []metrics.Round
		number := uint64(0)
		tasks := 0
		at := round.Time(0)
		for i := range rapid.IntRange(1, 5).Draw(t, "rounds") {
			r := metrics.Round{Report: round.Report{Round: i + 1, Start: at, LocalSteps: 1, TrainingLoss: math.NaN()}}
			takes := length.Draw(t, "round")
			for client := range rapid.IntRange(0, 4).Draw(t, "cohort") {
				number++
				e := round.TaskReport{
					Task: number, Client: client, Start: at, Outcome: round.Outcome(rapid.IntRange(0, round.Outcomes-1).Draw(t, "outcome")),
					Plan: round.Plan{Download: length.Draw(t, "download"), Compute: length.Draw(t, "compute"), Upload: length.Draw(t, "upload")},
				}
				e.End = at + min(takes, e.Plan.Total()+length.Draw(t, "silence"))
				r.Tasks = append(r.Tasks, metrics.Task{TaskReport: e})
				r.Outcomes[e.Outcome]++
				tasks++
			}
			at += takes
			r.End = at
			rounds = append(rounds, r)
		}
		v, wrote := traceOf(t, &metrics.Run{Metrics: []metric.Metric{{Name: metric.Accuracy}}}, rounds, 0, 0)
		if wrote.Tasks != tasks || wrote.Clients != len(v.tracks)-8 {
			t.Fatalf("%+v, %d tracks", wrote, len(v.tracks))
		}
		shown := 0
		for track, list := range v.slices {
			before := uint64(0)
			for _, task := range list {
				if task.from < before || task.to < task.from {
					t.Fatalf("%q: a slice from %d to %d after one to %d", v.tracks[track].Name, task.from, task.to, before)
				}
				if track == roundsTrack && task.from != before {
					t.Fatalf("a round from %d after one to %d", task.from, before)
				}
				before = task.to
				if track == roundsTrack {
					continue
				}
				shown++
				at := task.from
				for _, phase := range task.in {
					if phase.from != at || phase.to <= phase.from || len(phase.in) > 0 {
						t.Fatalf("%+v in %+v", phase, task)
					}
					at = phase.to
				}
				if at != task.to {
					t.Fatalf("phases end at %d: %+v", at, task)
				}
			}
		}
		if shown != tasks {
			t.Fatalf("%d of %d tasks are shown", shown, tasks)
		}
	})
}
