package eventlog

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"fedpace/coordinator/round"
	"fedpace/metrics/timeline"
)

// A round is written field by field, in a third of the time that the generated
// code takes for forty small messages. A test holds the bytes to be the same.

// appendRound appends a Record with a round.
func (w *Writer) appendRound(b []byte, r *timeline.Record) []byte {
	m := w.body[:0]
	for i, v := range [...]int64{int64(r.Round), int64(r.Start), int64(r.End - r.Start), int64(r.LocalSteps)} {
		m = appendInt(m, protowire.Number(i+1), v)
	}
	m = appendMeasured(m, 5, r.LearningRate, r.LearningRate != 0)
	m = appendInt(m, 6, int64(r.Cohort))
	m = appendInt(m, 7, int64(r.Candidates))
	packed := w.task[:0]
	for _, n := range r.Outcomes {
		packed = protowire.AppendVarint(packed, uint64(n))
	}
	w.task = packed
	m = appendBytes(m, 8, packed)
	m = appendMeasured(m, 9, r.TrainingLoss, true)
	m = appendMeasured(m, 10, r.WindowLoss, true)
	m = appendMeasured(m, 11, r.ValidationLoss, r.Evaluated)
	m = appendMeasured(m, 12, r.ValidationAccuracy, r.Evaluated)
	m = appendInt(m, 13, r.SGDSteps)
	m = appendInt(m, 14, int64(r.Ended))
	thinned := !Detailed(r.Round)
	m = appendInt(m, 15, whole(thinned))
	slowest := slowestOf(r.Tasks)
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if thinned && !t.Real && i != slowest {
			continue
		}
		w.task = appendTask(w.task[:0], t, r.Start)
		m = appendBytes(m, 16, w.task)
	}
	w.body = m
	return appendBytes(b, 2, m)
}

// appendTask appends a Task.
func appendTask(m []byte, t *timeline.Task, start round.Time) []byte {
	for i, v := range [...]int64{
		int64(t.Task), int64(t.Client), int64(t.Class), int64(t.LocalSteps), int64(t.Outcome),
		int64(protowire.EncodeZigZag(int64(t.Start - start))), int64(t.End - t.Start),
		int64(t.Plan.Download), int64(t.Plan.Compute), int64(t.Plan.Upload),
		whole(t.Plan.Drops), int64(t.Plan.Dropout), whole(t.Probe), whole(t.Real), whole(t.Slow),
	} {
		m = appendInt(m, protowire.Number(i+1), v)
	}
	return m
}

// whole is how a boolean is written.
func whole(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// appendInt appends a whole number; like all of proto3's fields without
// presence, none where it is 0.
func appendInt(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

// appendMeasured appends a value that may not exist: 0 is written, too.
func appendMeasured(b []byte, field protowire.Number, v float64, exists bool) []byte {
	if !exists || math.IsNaN(v) {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
