package checkpoint

import (
	"os"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/aggregate"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/simclock"
)

// What a checkpoint holds a run up for, the disk's part included; beside ten
// seconds, the default from one to the next. The state of the machine is copied
// before, which is part of it.
func BenchmarkCheckpoint(b *testing.B) {
	for _, x := range []struct {
		name                      string
		clients, stepped, tasks   int
		versions, params, vectors int
	}{
		{"a million clients, timing", 1_000_000, 100_000, 1000, 0, 0, 0},
		{"a million clients, all stepped", 1_000_000, 1_000_000, 1000, 0, 0, 0},
		{"femnist", 3000, 3000, 60, 1, 206_922, 0},
		{"femnist, fedadam", 3000, 3000, 60, 1, 206_922, 2},
		{"cifar100, buffered", 500, 500, 50, 10, 1_250_000, 0},
	} {
		b.Run(x.name, func(b *testing.B) {
			r, err := folder.CreateResults(b.TempDir(), config.Demonstration(), false)
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			c := &Checkpoint{Head: Head{Config: string(config.Demonstration().YAML())}}
			done := make([]int64, x.clients)
			for i := range x.stepped {
				done[i*(x.clients/x.stepped)] = int64(1000 + i)
			}
			for range x.vectors {
				c.State.Server = append(c.State.Server, make([]float64, x.params))
			}
			for i := range x.versions {
				c.State.Models = append(c.State.Models, aggregate.Version{Number: uint64(i), Params: make([]float32, x.params)})
			}
			for i := range x.tasks {
				c.State.Machine.Simulated.List = append(c.State.Machine.Simulated.List, round.TaskState{
					Task: uint64(1_000_000 + i), Client: int32(i), Round: 1000, LocalSteps: 30, LearningRate: 0.1, StepsDone: 4000,
					Status: round.TaskPlanned, Start: 1e15, Download: 1e9, Compute: 1e9, Upload: 1e9, Timer: uint64(1_000_000 + i),
				})
			}
			c.State.Clock.Events = make([]simclock.Event, x.tasks)
			for b.Loop() {
				c.State.Machine.StepsDone = append([]int64(nil), done...) // as State copies it
				if err := r.Checkpoint(true, c.WriteWith); err != nil {
					b.Fatal(err)
				}
			}
			info, err := os.Stat(r.Path(folder.CheckpointFile))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(info.Size())/1e6, "MB")
		})
	}
}
