package eventlog

import (
	"bytes"
	"math"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

// kept is a folder of one file in memory.
type kept struct {
	metrics.Folder
	bytes.Buffer
}

func (k *kept) Append(string) (metrics.File, error) { return k, nil }

func (k *kept) Size() int64 { return int64(k.Len()) }

// mixedRound is a round of so many real devices, and of so many simulated clients.
func mixedRound(number, devices, others int) *metrics.Round {
	start := round.Time(number) * 12_345_678_901
	r := &metrics.Round{Report: round.Report{
		Round: number, Start: start, End: start + 12_000_000_001, LocalSteps: 20, LearningRate: 0.3, Cohort: devices + others,
		TrainingLoss: 1. / 3, WindowLoss: 1. / 7, ValidationLoss: math.NaN(), SGDSteps: int64(20 * number),
	}, Ended: devices + others}
	plan := round.Plan{Download: 1_000_000_001, Compute: 10_000_000_001, Upload: 1_000_000_001}
	for i := range devices {
		r.Tasks = append(r.Tasks, metrics.Task{Real: true, TaskReport: round.TaskReport{
			Task: round.FirstDeviceTask + uint64(devices*number+i), Client: i, LocalSteps: 20, Start: start, End: r.End, Plan: plan,
		}})
	}
	for i := range others {
		r.Tasks = append(r.Tasks, metrics.Task{Class: i % 3, Slow: i < 10, TaskReport: round.TaskReport{
			Task: uint64(others*number + i), Client: number * (i + 1) % 10_000, LocalSteps: 20, Start: start, End: r.End - round.Time(i)*100_000_001, Plan: plan,
		}})
	}
	return r
}

// A log that has its size keeps only rounds that are detailed from there on, in a run that
// is stopped and goes on as in one that is not, and Bytes says how large it becomes.
func TestWriter_SizeLimit(t *testing.T) {
	const rounds = 4000
	for _, test := range []struct {
		devices, others int
		megabytes       float64
	}{{2, 0, 0.05}, {2, 0, 0.3}, {2, 0, 256}, {0, 20, 0.3}, {4, 40, 256}} {
		run := &metrics.Run{Name: "weeks", Task: "femnist", Train: true, Clients: 10_000, Classes: []string{"a", "b", "c"}, Devices: []string{"a", "b"}, Cohort: test.devices + test.others}
		megabytes := test.megabytes
		sink := Sink{Megabytes: megabytes}
		play := func(stopAt int) *kept {
			file := new(kept)
			var o metrics.Output
			for number := 1; number <= rounds; number++ {
				if number == 1 || number == stopAt {
					if o != nil {
						if err := o.(metrics.Flusher).Flush(); err != nil {
							t.Fatal(err)
						}
					}
					var err error
					o, err = sink.Open(run)
					if err != nil {
						t.Fatal(err)
					}
					if err := o.(metrics.Starter).Start(&metrics.Start{Folder: file}); err != nil {
						t.Fatal(err)
					}
				}
				if err := o.Round(mixedRound(number, test.devices, test.others)); err != nil {
					t.Fatal(err)
				}
			}
			if err := o.(metrics.Flusher).Flush(); err != nil {
				t.Fatal(err)
			}
			return file
		}
		whole := play(0)
		for _, at := range []int{100, 2500} {
			if stopped := play(at); !bytes.Equal(stopped.Bytes(), whole.Bytes()) {
				t.Errorf("%g MB, stopped before round %d: %d bytes, of a whole run %d", megabytes, at, stopped.Len(), whole.Len())
			}
		}
		_, list, err := read(whole.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		gap := 0
		for i := range list {
			if n := list[i].Round; n != i+1 && gap == 0 {
				gap = n
			}
			if gap > 0 && !Detailed(list[i].Round) {
				t.Fatalf("%g MB: round %d is there", megabytes, list[i].Round)
			}
		}
		if full := float64(whole.Len()) >= megabytes*1e6; full != (gap > 0) {
			t.Errorf("%g MB: %d bytes, the first gap before round %d", megabytes, whole.Len(), gap)
		}
		if got, said := float64(whole.Len()), sink.Bytes(test.devices, test.others, rounds); math.Abs(got-said) > 0.1*got {
			t.Errorf("%+v: %.0f bytes, foreseen were %.0f", test, got, said)
		}
	}
}
