package bus

import (
	"testing"

	"fedpace/bus/wire"
)

func BenchmarkTask(b *testing.B) {
	t := Task{Task: 123456789, Round: 3000, LocalSteps: 80, LearningRate: 0.3, StepsDone: 16000, Model: Digest{1}, ModelBits: 6_710_000}
	var w wire.Task
	var buf []byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			buf, _ = appendTask(buf[:0], &t, &w)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := decodeTask(buf, &t, &w); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPlan(b *testing.B) {
	p := Plan{Task: 123456789, DownloadNs: 335_500_000, ComputeNs: 80 * 17_000_000, UploadNs: 1_342_000_000}
	var w wire.Plan
	var d wire.Dropout
	var buf []byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			buf, _ = appendPlan(buf[:0], &p, &w, &d)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := decodePlan(buf, &p, &w); err != nil {
				b.Fatal(err)
			}
		}
	})
}
