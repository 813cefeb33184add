package run

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/experiment/checkpoint"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics/outputs"
)

// A run that is stopped and resumed leaves TensorBoard the bytes of one that never stopped.
func TestTensorBoardAfterAStop(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const tensorboard = "outputs=[tensorboard]"
	whole, c := runtest.Small(t, tensorboard), runtest.Small(t, tensorboard, "pace=10") // a second: long enough to be stopped
	mustRun(t, whole, Options{Version: "v"})
	stopAt(t, 1, func(ctx context.Context, o Options) error { _, err := Run(ctx, c, o); return err })
	if _, err := Resume(t.Context(), c.Out, Options{Version: "v"}); err != nil {
		t.Fatal(err)
	}
	events, err := os.ReadFile(filepath.Join(whole.Out, outputs.TensorBoardFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Out, outputs.TensorBoardFile)); err != nil || !bytes.Equal(got, events) {
		t.Errorf("%s has %d other bytes than the %d of the run that never stopped, %v", outputs.TensorBoardFile, len(got), len(events), err)
	}
	if v, err := checkpoint.Verify(c.Out); err != nil || v.Damaged > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The lines of Python on the page bring every round of a run into MLflow and W&B: stand-ins
// for their clients record the calls.
func TestMLflowAndWandbOnThePage(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	python := installed.Program(t, "python3", "python3")
	page, err := os.ReadFile("../../python/README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{} // by the client
	for _, m := range regexp.MustCompile("(?s)```python\n(import csv, json, (\\w+)\n.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks[m[2]] = m[1]
	}
	c := runtest.Small(t)
	s := mustRun(t, c, Options{Version: "v"})
	text, err := os.ReadFile(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	first := map[string]any{}
	for i, name := range strings.Split(lines[0], ",") {
		if cell := strings.Split(lines[1], ",")[i]; cell != "" {
			var v float64
			if err := json.Unmarshal([]byte(cell), &v); err != nil {
				t.Fatal(err)
			}
			first[name] = v
		}
	}
	about := map[string]any{"schedule": s.Schedule, "seed": float64(s.Seed), "version": "v"}
	for client, want := range map[string]struct {
		log    string
		before []any // calls, each a name, arguments and named arguments
		after  int
	}{
		"mlflow": {"log_metrics", []any{
			[]any{"set_experiment", []any{string(s.Task)}, map[string]any{}},
			[]any{"start_run", []any{}, map[string]any{"run_name": c.Out}},
			[]any{"log_params", []any{about}, map[string]any{}},
		}, 2},
		"wandb": {"log", []any{
			[]any{"init", []any{}, map[string]any{"project": string(s.Task), "name": c.Out, "config": about}},
		}, 2},
	} {
		code := strings.Replace(blocks[client], `"runs/demo"`, "sys.argv[1]", 1)
		dir := t.TempDir()
		for name, text := range map[string]string{client + ".py": recordingClient, "page.py": "import sys\n" + code + "\nprint(" + client + ".told())\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.CommandContext(t.Context(), python, "-B", filepath.Join(dir, "page.py"), c.Out).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", client, err, code, out)
		}
		var calls []any
		if err := json.Unmarshal(out, &calls); err != nil {
			t.Fatalf("%s: %v in %s", client, err, out)
		}
		n := len(want.before)
		if len(calls) != n+s.Rounds+want.after {
			t.Fatalf("%s has %d calls of a run with %d rounds", client, len(calls), s.Rounds)
		}
		round := []any{want.log, []any{first}, map[string]any{"step": 1.0}}
		if diff := cmp.Diff(append(want.before, round), calls[:n+1]); diff != "" {
			t.Error(diff)
		}
	}
}

// recordingClient is a module that takes any call, also on what a call returns, and tells them.
const recordingClient = `import json, sys, types

calls = []

class Client(types.ModuleType):
    def __getattr__(self, name):
        def call(*args, **named):
            calls.append([name, args, named])
            return self
        return self if name == "summary" else call
    def __enter__(self):
        return self
    def __exit__(self, *why):
        pass
    def told(self):
        return json.dumps(calls)

sys.modules[__name__] = Client(__name__)
`
