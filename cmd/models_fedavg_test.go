//go:build unix

package cmd

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/tables"
)

// acceptedTask is a task as the loop in PyTorch takes it.
type acceptedTask struct {
	Client int32 `json:"client"`
	Steps  int32 `json:"steps"`
	Model  int64 `json:"model"`
}

// acceptedTasks lists the accepted tasks of a run by round, in the order of their base models as the
// coordinator has them.
func acceptedTasks(t *testing.T, path string) (rounds [][]acceptedTask) {
	t.Helper()
	rows, err := parquet.ReadFile[tables.Task](path)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for len(rounds) < int(row.Round) {
			rounds = append(rounds, []acceptedTask{})
		}
		if row.Outcome == "accepted" {
			task := acceptedTask{row.Client, row.LocalSteps, row.Model}
			rounds[row.Round-1] = append(rounds[row.Round-1], task)
		}
	}
	return rounds
}

// modelsScript has the models of these tests, as trainers and in a loop of FedAvg in PyTorch.
const modelsScript = "../python/testdata/models_fedavg.py"

// fedAvgClosings are the closing rules that the loop can play, for 6 clients of which 4 are asked.
var fedAvgClosings = map[string]string{
	"all":      "{rule: all}",
	"deadline": "{rule: deadline, seconds: 0.6}",
	"first":    "{rule: first, n: 3}",
	"quorum":   "{rule: quorum, n: 4, m: 2, seconds: 0.5}",
	"buffered": "{rule: buffered, n: 2}",
}

// few are some of the closing rules.
func few(names ...string) map[string]string {
	some := map[string]string{}
	for _, name := range names {
		some[name] = fedAvgClosings[name]
	}
	return some
}

// pytorch is the command of the script of models.
func pytorch(t *testing.T, python string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), python, append([]string{"-B", modelsScript}, args...)...)
	c.Env = append(os.Environ(), "PYTHONPATH=../python")
	return c
}

// equalsPyTorch plays rounds of FedAvg of a model under each closing rule, and the same tasks in PyTorch.
// source says where the run has its model and data from.
func equalsPyTorch(t *testing.T, python, model string, closings map[string]string, source ...string) {
	t.Helper()
	dir := t.TempDir()
	play := func(name string, args ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		c := fedpace(t, append(append([]string{
			"run", "--quiet", "--out", out,
			"--set", "clients=all", "--set", "cohort=4", "--set", "batch=8",
			"--set", "schedule.k=fixed", "--set", "schedule.k0=3", "--set", "nats.url=none", "--set", "outputs=[tasks]",
			"--set", "network.model_megabits=0.01",
			"--set", "fleet=[{name: fast, count: 3, seconds_per_step: 0.1}, {name: slow, count: 3, seconds_per_step: 0.25}]",
		}, source...), args...)...)
		c.Env = append(c.Env, "GOMAXPROCS=1")
		if _, stderr, exit := finish(t, c); exit != 0 {
			t.Fatal(stderr)
		}
		return out
	}
	first := filepath.Join(play("initial", "--set", "stop.rounds=1"), "model.safetensors")
	for name, closing := range closings {
		const rate = "0.1"
		out := play(name, "--set", "init="+first, "--set", "stop.rounds=5", "--set", "schedule.eta0="+rate, "--set", "close="+closing)
		list, err := json.Marshal(acceptedTasks(t, filepath.Join(out, tables.TasksFile)))
		if err != nil {
			t.Fatal(err)
		}
		tasks := filepath.Join(out, "accepted.json")
		if err := os.WriteFile(tasks, list, 0o666); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, exit := finish(t, pytorch(t, python, model, first, filepath.Join(out, "model.safetensors"), tasks, rate))
		off, err := strconv.ParseFloat(strings.TrimSpace(stdout), 64)
		if exit != 0 || err != nil || !(off <= 1e-5) {
			t.Errorf("%s: off by %q:\n%s", name, stdout, stderr)
			continue
		}
		t.Logf("%s: off by %.2g; tasks %s", name, off, list)
	}
}

// Models with batch norms, group norms, tied weights and masks become what a loop of FedAvg in PyTorch
// makes of them, from the same tasks: to 1e-5, with all of PyTorch's names and types in the file, under
// each closing rule. The loop loads both files strictly.
func TestBuffers_EqualPyTorch(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	python := installed.Python(t, "torch")
	some := few("all", "buffered")
	for model, closings := range map[string]map[string]string{
		"batchnorm1d": fedAvgClosings,
		"masked":      fedAvgClosings,
		"raw":         some,
		"cumulative":  some,
		"batchnorm2d": some,
		"groupnorm":   some,
		"tied":        some,
	} {
		t.Run(model, func(t *testing.T) {
			equalsPyTorch(t, python, model, closings, "--trainer", python+" "+modelsScript+" "+model, "--set", "data=trainer")
		})
	}
}

// Batch norms in models of our own become what the same loop makes of PyTorch's.
func TestBuffers_OwnNormsEqualPyTorch(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	python := installed.Python(t, "torch")
	for model, play := range map[string]struct {
		layers, shape string
		closings      map[string]string
	}{
		"batchnorm1d": {"[dense: 5, batch_norm, relu, dense]", "", fedAvgClosings},
		"raw":         {"[batch_norm, dense]", "", few("all", "buffered")},
		"images":      {"[conv: {maps: 3, size: 2}, batch_norm, relu, flatten, dense]", ", shape: [1, 3, 4]", few("all", "deadline", "buffered")},
	} {
		t.Run(model, func(t *testing.T) {
			table := filepath.Join(t.TempDir(), "samples.csv")
			if _, stderr, exit := finish(t, pytorch(t, python, model, table)); exit != 0 {
				t.Fatal(stderr)
			}
			equalsPyTorch(t, python, model, play.closings, "--set", "task=custom", "--set", "compute.seconds_per_step=0.1", "--set", "network.download_mbps=20", "--set", "network.upload_mbps=5",
				"--set", "schedule.eta0=0.1", "--set", "model="+play.layers,
				"--set", "data={path: "+table+", client: client, split: split, features: x*, label: y"+play.shape+"}")
		})
	}
}
