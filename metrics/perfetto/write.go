package perfetto

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/proto"

	"fedpace/coordinator/round"
	"fedpace/metrics"
	"fedpace/metrics/eventlog"
	"fedpace/metrics/perfetto/trace"
)

// Written counts what a trace holds: rounds, the tasks in them, and clients with a track.
type Written struct{ Rounds, Tasks, Clients int }

// Write writes the trace of the rounds of a log, from the round first to the round last. With last 0 it
// writes all rounds from first on. If the log has an error, it returns the error, and the trace holds what
// precedes it. It also returns how much was written.
func Write(w io.Writer, log *eventlog.Reader, first, last int) (Written, error) {
	buffered := bufio.NewWriter(w)
	t := tracer{
		w:       buffered,
		run:     log.Run(),
		tracked: map[int]bool{},
		// The counters have no value yet, so the first round writes both.
		steps: -1,
		rate:  math.NaN(),
	}
	t.describe()
	var problem error
	for r, err := range log.Rounds() {
		problem = err
		if err != nil || t.err != nil {
			break
		}
		isBehindLast := last != 0 && r.Round > last
		if isBehindLast {
			break
		}
		// Rounds before the first are read and left out.
		if r.Round >= first {
			t.round(r)
		}
	}
	return t.written, errors.Join(problem, t.err, buffered.Flush())
}

// Tracks are numbered: those below firstClient are the run's own.
const (
	runTrack uint64 = iota + 1
	roundsTrack
	stepsTrack
	rateTrack
	trainingLossTrack
	validationLossTrack
	// metricTrack is the track of the first metric; the others follow otherMetrics.
	metricTrack
	clientsTrack

	otherMetrics uint64 = 1 << 16
	firstClient  uint64 = 1 << 32
)

// trackOf returns the number of the track of metric i of the run. The first metric has a number beside those of the
// other tracks of the run; all others are numbered from otherMetrics on, as a run may have very many.
func trackOf(i int) uint64 {
	if i == 0 {
		return metricTrack
	}
	return otherMetrics + uint64(i)
}

// sequence is the id under which all packets are written: the trace has one writer.
const sequence = 1

// tracer writes the packets of a trace. After an error it writes nothing more.
type tracer struct {
	// w takes the packets.
	w *bufio.Writer
	// run is the run that the log is of.
	run *metrics.Run
	// tracked is the set of the clients that have a track.
	tracked map[int]bool
	// steps is the last value of the counter of local steps; -1: none yet.
	steps int
	// rate is the last value of the counter of the learning rate; NaN: none yet.
	rate float64
	// written counts what was written so far.
	written Written

	// message is the encoding of the last packet, whose memory the next one uses.
	message []byte
	// err is the first error, after which nothing more is written.
	err error
}

// describe writes the tracks that every run has, in the order in which the viewer shows them.
func (t *tracer) describe() {
	name := fmt.Sprintf("%s: %s, %s", t.run.Name, t.run.Task, t.run.Schedule)
	t.track(&trace.TrackDescriptor{Uuid: runTrack, Name: name, ChildOrdering: trace.TrackDescriptor_EXPLICIT})
	tracks := []*trace.TrackDescriptor{
		{Uuid: roundsTrack, Name: "rounds"},
		{Uuid: stepsTrack, Name: "K_r", Counter: &trace.CounterDescriptor{UnitName: "local steps"}},
		{Uuid: rateTrack, Name: "eta_r", Counter: &trace.CounterDescriptor{}},
		{Uuid: trainingLossTrack, Name: "training loss", Counter: &trace.CounterDescriptor{}},
		{Uuid: validationLossTrack, Name: "validation loss", Counter: &trace.CounterDescriptor{}},
	}
	for i, m := range t.run.Metrics {
		tracks = append(
			tracks,
			&trace.TrackDescriptor{Uuid: trackOf(i), Name: "validation " + m.Name, Counter: &trace.CounterDescriptor{}},
		)
	}
	tracks = append(
		tracks,
		&trace.TrackDescriptor{Uuid: clientsTrack, Name: "clients", ChildOrdering: trace.TrackDescriptor_EXPLICIT},
	)
	// The rank makes the viewer show the tracks in the order of this list, below the run.
	for rank, d := range tracks {
		d.ParentUuid = runTrack
		d.SiblingOrderRank = proto.Int32(int32(rank))
		t.track(d)
	}
}

// round writes a round: its slice, its tasks, the aggregation of the accepted ones, and the counters.
func (t *tracer) round(r *metrics.Round) {
	t.written.Rounds++
	values := []*trace.DebugAnnotation{
		integer("round", r.Round), integer("K_r", r.LocalSteps), float("eta_r", r.LearningRate),
		integer("cohort", r.Cohort), integer("tasks in this trace", len(r.Tasks)),
	}
	// The arguments of the slice count the tasks of the round by outcome, also those that are not
	// traced.
	for o, n := range r.Outcomes {
		values = append(values, integer(round.Outcome(o).String(), n))
	}
	if !math.IsNaN(r.TrainingLoss) {
		values = append(values, float("training loss", r.TrainingLoss))
	}
	t.begin(r.Start, &trace.TrackEvent{
		TrackUuid:        roundsTrack,
		Name:             fmt.Sprintf("round %d", r.Round),
		Categories:       []string{"round"},
		DebugAnnotations: values,
	})
	// Tasks come before the aggregation, so that what happens at one instant stays in this order.
	for i := range r.Tasks {
		t.task(r, &r.Tasks[i])
	}
	aggregation := &trace.TrackEvent{
		TrackUuid:        roundsTrack,
		Type:             trace.TrackEvent_TYPE_INSTANT,
		Name:             "aggregate",
		Categories:       []string{"aggregate"},
		DebugAnnotations: []*trace.DebugAnnotation{integer("updates", r.Outcomes[round.Accepted])},
	}
	// The flow of each traced update that counts ends at the aggregation.
	for i := range r.Tasks {
		if task := &r.Tasks[i]; counts(task) {
			aggregation.TerminatingFlowIds = append(aggregation.TerminatingFlowIds, task.Task)
		}
	}
	// Without an accepted update there is nothing to aggregate.
	if r.Outcomes[round.Accepted] > 0 {
		t.event(r.End, aggregation)
	}
	t.end(r.End, roundsTrack)
	t.counters(r)
}

// counts reports whether a task's update is in the round's model.
func counts(t *metrics.Task) bool { return t.Outcome == round.Accepted && !t.Probe }

// counters writes the counters of a round: K_r and eta_r where they change, and what was measured.
func (t *tracer) counters(r *metrics.Round) {
	// A counter keeps its value in the viewer, so it is written only where it changes.
	if r.LocalSteps != t.steps {
		t.steps = r.LocalSteps
		t.event(
			r.Start,
			&trace.TrackEvent{
				TrackUuid:    stepsTrack,
				Type:         trace.TrackEvent_TYPE_COUNTER,
				CounterValue: proto.Int64(int64(r.LocalSteps)),
			},
		)
	}
	if r.LearningRate != t.rate {
		t.rate = r.LearningRate
		t.counter(r.Start, rateTrack, r.LearningRate)
	}
	t.counter(r.End, trainingLossTrack, r.TrainingLoss)
	t.counter(r.End, validationLossTrack, r.ValidationLoss)
	for i, v := range r.Metrics {
		t.counter(r.End, trackOf(i), v)
	}
}

// counter writes value v of the counter on this track at the virtual time now, unless it was not
// measured (NaN).
func (t *tracer) counter(now round.Time, track uint64, v float64) {
	if !math.IsNaN(v) {
		t.event(now, &trace.TrackEvent{TrackUuid: track, Type: trace.TrackEvent_TYPE_COUNTER, DoubleCounterValue: &v})
	}
}

// task writes the slice of a task with its phases. The flow of an accepted task leads from its slice over
// its upload to the aggregation.
func (t *tracer) task(r *metrics.Round, task *metrics.Task) {
	t.written.Tasks++
	track := t.client(task)
	values := []*trace.DebugAnnotation{
		integer("task", int(task.Task)),
		integer("round", r.Round),
		integer("K", task.LocalSteps),
	}
	if class := t.class(task); class != "" {
		values = append(values, &trace.DebugAnnotation{Name: "class", StringValue: &class})
	}
	// The task was broken off before its plan had ended, so its planned duration is shown, too.
	if took, planned := task.End-task.Start, task.Plan.Total(); took < planned {
		values = append(values, float("seconds planned", planned.Seconds()))
	}
	if task.Slow {
		values = append(values, &trace.DebugAnnotation{Name: "among the slowest", BoolValue: proto.Bool(true)})
	}
	category := "task"
	if task.Probe {
		category = "candidate"
	}
	begin := &trace.TrackEvent{
		TrackUuid:        track,
		Name:             task.Outcome.String(),
		Categories:       []string{category},
		DebugAnnotations: values,
	}
	// The flow begins at the slice of the task and has the number of the task.
	if counts(task) {
		begin.FlowIds = []uint64{task.Task}
	}
	t.begin(task.Start, begin)
	now := task.Start
	// The phases follow each other without gaps and sum to the duration of the task.
	for i, length := range metrics.PartsOf(&task.TaskReport) {
		if length == 0 {
			continue
		}
		p := metrics.Phase(i)
		phase := &trace.TrackEvent{TrackUuid: track, Name: p.String(), Categories: []string{"phase"}}
		if p == metrics.Upload && counts(task) {
			phase.FlowIds = []uint64{task.Task}
		}
		t.begin(now, phase)
		now += length
		t.end(now, track)
	}
	t.end(task.End, track)
}

// client returns the number of the track on which tasks of this task's client are drawn. It
// describes the track, with the client's name and class, before the first of them.
func (t *tracer) client(task *metrics.Task) uint64 {
	track := firstClient + uint64(task.Client)
	// The track was described with an earlier task of the client.
	if t.tracked[task.Client] {
		return track
	}
	t.tracked[task.Client] = true
	t.written.Clients++
	name := fmt.Sprintf("client %d", task.Client)
	if task.Real {
		name = fmt.Sprintf("device %d", task.Client)
	}
	if class := t.class(task); class != "" {
		name += ", " + class
	}
	t.track(&trace.TrackDescriptor{
		Uuid:             track,
		ParentUuid:       clientsTrack,
		Name:             name,
		SiblingOrderRank: proto.Int32(int32(task.Client)),
	})
	return track
}

// class returns the name of the class of the task's client; empty for a real device, or if the log
// names no such class.
func (t *tracer) class(task *metrics.Task) string {
	if task.Real || task.Class >= len(t.run.Classes) {
		return ""
	}
	return t.run.Classes[task.Class]
}

// begin writes the beginning of a slice at a virtual time.
func (t *tracer) begin(now round.Time, e *trace.TrackEvent) {
	e.Type = trace.TrackEvent_TYPE_SLICE_BEGIN
	t.event(now, e)
}

// end writes the end of the innermost open slice of a track.
func (t *tracer) end(now round.Time, track uint64) {
	t.event(now, &trace.TrackEvent{TrackUuid: track, Type: trace.TrackEvent_TYPE_SLICE_END})
}

// event writes event e at the virtual time now, which the trace has in nanoseconds.
func (t *tracer) event(now round.Time, e *trace.TrackEvent) {
	t.packet(&trace.TracePacket{Timestamp: proto.Uint64(uint64(now)), TrustedPacketSequenceId: sequence, TrackEvent: e})
}

// track writes the description of a track.
func (t *tracer) track(d *trace.TrackDescriptor) {
	t.packet(&trace.TracePacket{TrustedPacketSequenceId: sequence, TrackDescriptor: d})
}

// packet writes a trace of one packet. Concatenated traces are one trace, since protobuf appends the
// elements of a repeated field.
func (t *tracer) packet(p *trace.TracePacket) {
	if t.err == nil {
		t.message, t.err = proto.MarshalOptions{}.MarshalAppend(
			t.message[:0],
			&trace.Trace{Packet: []*trace.TracePacket{p}},
		)
	}
	if t.err == nil {
		_, t.err = t.w.Write(t.message)
	}
}

// integer is an argument of a slice with an integer.
func integer(name string, v int) *trace.DebugAnnotation {
	return &trace.DebugAnnotation{Name: name, IntValue: proto.Int64(int64(v))}
}

// float is an argument of a slice with a floating-point number.
func float(name string, v float64) *trace.DebugAnnotation {
	return &trace.DebugAnnotation{Name: name, DoubleValue: &v}
}
