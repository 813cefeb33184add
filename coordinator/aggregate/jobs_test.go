package aggregate

import (
	"testing"

	"fedpace/bus"
)

// presence says how many workers are present.
type presence struct {
	bus.Coordinator
	workers int
}

func (p presence) Hosts() (hosts, workers int) { return 1, p.workers }

// A round of few steps has a job for each worker, and one of many steps two.
func TestParts_ByLocalSteps(t *testing.T) {
	for _, c := range []struct{ steps, want int }{
		{0, 5}, {60, 5}, {5 * stepsPerJob, 5}, {6 * stepsPerJob, 6}, {1 << 20, 10},
	} {
		q := workQueue{bus: presence{workers: 3}, learning: &Learning{Jobs: 4}}
		if got := q.trainingJobCount(c.steps); got != c.want {
			t.Errorf("%d local steps are divided into %d jobs, want %d", c.steps, got, c.want)
		}
	}
}

// Where all trainers are in other processes, they alone count, and a round can wait for them.
func TestParts_RemoteWorkers(t *testing.T) {
	for _, c := range []struct{ workers, want int }{{0, 1}, {1, 1}, {2, 2}, {5, 5}} {
		q := workQueue{bus: presence{workers: c.workers}, learning: &Learning{}}
		if got := q.trainingJobCount(60); got != c.want {
			t.Errorf("60 steps for %d workers are divided into %d jobs, want %d", c.workers, got, c.want)
		}
	}
}
