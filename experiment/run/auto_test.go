package run

import (
	"math"
	"testing"

	"fedpace/experiment/runtest"
	"fedpace/metrics/tables"
)

// With auto and fit each client has a K of its own: the fastest takes the round's, which auto chooses, and
// the others as many steps as fit into the same time, while K falls over the run.
func TestAuto_PerClient(t *testing.T) {
	t.Parallel()
	secondsPerStep := map[string]float64{"slow": 0.11, "middle": 0.05, "fast": 0.02}
	c := runtest.Small(
		t, "train=false", "schedule.k=auto", "schedule.k0=60", "select=fit", "stop.rounds=40", "cohort=6", "clients=6",
		"outputs=[tasks]", "fleet=[{name: slow, count: 2, seconds_per_step: 0.11}, "+
			"{name: middle, count: 2, seconds_per_step: 0.05}, {name: fast, count: 2, seconds_per_step: 0.02}]",
	)
	mustRun(t, c, Options{})
	byRound := map[int32][]tables.Task{}
	for _, task := range readTable[tables.Task](t, c.Out, tables.TasksFile) {
		byRound[task.Round] = append(byRound[task.Round], task)
	}
	first, last := int32(0), int32(0)
	for round := int32(1); round <= 40; round++ {
		k, limit := int32(0), 0.
		for _, task := range byRound[round] {
			k = max(k, task.LocalSteps)
			if task.Class == "fast" {
				limit = max(limit, task.EndSeconds-task.StartSeconds)
			}
		}
		if round == 1 {
			first = k
		}
		last = k
		for _, task := range byRound[round] {
			transfers := task.DownloadSeconds + task.UploadSeconds
			step := secondsPerStep[task.Class]
			// A client that cannot do a single step in that time makes all wait for it.
			limit := max(limit, transfers+0.11)
			want := min(k, int32(math.Floor((limit-transfers)/step+1e-6)))
			if task.LocalSteps != max(1, want) {
				t.Fatalf("round %d: a %s client takes %d of %d steps, want %d", round, task.Class, task.LocalSteps, k, want)
			}
		}
	}
	if first <= last || last != 1 {
		t.Errorf("K goes from %d to %d: the test says little", first, last)
	}
}
