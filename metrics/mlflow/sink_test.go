package mlflow

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"fedpace/actors/measure"
	"fedpace/coordinator/round"
	"fedpace/metrics"
)

var started = time.UnixMilli(1_700_000_000_000)

var rounds = []round.Report{
	{Round: 1, End: 2500e6, LocalSteps: 80, LearningRate: 0.1, TrainingLoss: 4.25},
	{Round: 2, Start: 2500e6, End: 4e9, LocalSteps: 64, LearningRate: 0.1, TrainingLoss: math.NaN(), Evaluated: true, ValidationLoss: 3.5, Metrics: []float64{1.0 / 3}},
}

type folder struct {
	metrics.Folder
	dir string
}

func (f folder) Path(name string) string { return filepath.Join(f.dir, name) }

// open starts the run of a folder that has had some rounds.
func open(t *testing.T, s Sink, dir string, before int, elapsed time.Duration) *output {
	t.Helper()
	o, err := s.Open(&metrics.Run{Name: "demo: [1]", Started: started.Add(elapsed), Metrics: []measure.Metric{{Name: measure.Accuracy}}})
	if err != nil {
		t.Fatal(err)
	}
	so := iter.Seq2[round.Report, error](func(yield func(round.Report, error) bool) {
		for _, r := range rounds[:before] {
			if !yield(r, nil) {
				return
			}
		}
	})
	if err := o.(metrics.Starter).Start(&metrics.Start{Folder: folder{dir: dir}, Rounds: so, Elapsed: elapsed}); err != nil {
		t.Fatal(err)
	}
	return o.(*output)
}

// newFolder is the folder of a run.
func newFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte("seed: 18446744073709551615\nname: \"7\"\nschedule:\n  k: {rule: rounds}\n  k0: 80\nfleet: [{name: phone, weight: 2}]\nhttp: null\nodd key!: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree reads the files below a folder, by their paths.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var text []byte
			text, err = os.ReadFile(filepath.Join(dir, path))
			list[path] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A run that was killed after its first round, whose last line is cut, is resumed: the store holds
// what MLflow's layout says, and nothing else.
func TestTheLayout(t *testing.T) {
	s := Sink{Store: filepath.Join(t.TempDir(), "ml [runs]"), Experiment: "a: b"}
	dir := newFolder(t)
	dead := open(t, s, dir, 0, 0)
	if err := errors.Join(dead.Round(&metrics.Round{Report: rounds[0]}), dead.Close(nil)); err != nil {
		t.Fatal(err)
	}
	o := open(t, s, dir, 1, time.Minute)
	err := errors.Join(o.Round(&metrics.Round{Report: rounds[1]}), o.Finish(&metrics.End{Completed: true, Elapsed: 2 * time.Minute, Summary: []byte("{}\n")}), o.Close(nil))
	if err != nil {
		t.Fatal(err)
	}
	experiments, err := os.ReadDir(s.Store)
	if err != nil || len(experiments) != 1 || !regexp.MustCompile(`^[1-9]\d{17}$`).MatchString(experiments[0].Name()) {
		t.Fatalf("experiments %v, %v", experiments, err)
	}
	id := experiments[0].Name()
	files := tree(t, filepath.Join(s.Store, id))
	run := filepath.Base(o.entry.dir)
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(run) {
		t.Errorf("run %q", run)
	}
	meta := func(path string) (m map[string]any) {
		if err := yaml.Unmarshal([]byte(files[path]), &m); err != nil {
			t.Fatal(err)
		}
		delete(files, path)
		return m
	}
	at := uint64(started.UnixMilli())
	location := (&url.URL{Scheme: "file", Path: filepath.Join(s.Store, id)}).String()
	if diff := cmp.Diff(map[string]any{"artifact_location": location, "creation_time": at, "experiment_id": id, "last_update_time": at, "lifecycle_stage": "active", "name": "a: b"}, meta("meta.yaml")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{
		"artifact_uri": location + "/" + run + "/artifacts", "end_time": at + 120_000, "entry_point_name": "", "experiment_id": id, "lifecycle_stage": "active",
		"run_id": run, "run_name": "demo: [1]", "run_uuid": run, "source_name": "fedpace", "source_type": uint64(4), "source_version": "", "start_time": at, "status": uint64(3), "tags": []any{}, "user_id": "",
	}, meta(run+"/meta.yaml")); diff != "" {
		t.Error(diff)
	}
	const times = "1700000002500 V 1\n1700000004000 W 2\n"
	want := map[string]string{
		"metrics/loss/training": "1700000002500 4.25 1\n", "metrics/loss/validation": "1700000004000 3.5 2\n", "metrics/accuracy/validation": "1700000004000 0.3333333333333333 2\n",
		"params/seed": "18446744073709551615", "params/name": "7", "params/schedule.k.rule": "rounds", "params/schedule.k0": "80", "params/fleet": "[{name: phone, weight: 2}]", "params/http": "null", "params/odd key_": "true",
		"tags/mlflow.runName": "demo: [1]", "tags/mlflow.source.name": "fedpace", "tags/mlflow.source.type": "LOCAL", "tags/fedpace.folder": dir,
		"artifacts/summary.json": "{}\n", "artifacts/config.yaml": tree(t, dir)[configFile],
	}
	for name, values := range map[string][2]string{"schedule/local_steps": {"80", "64"}, "schedule/learning_rate": {"0.1", "0.1"}, "schedule/sgd_steps": {"0", "0"}, "time/virtual_seconds": {"2.5", "4"}, "time/round_seconds": {"2.5", "1.5"},
		"tasks/accepted": {"0", "0"}, "tasks/late": {"0", "0"}, "tasks/dropped": {"0", "0"}, "tasks/lost": {"0", "0"}, "tasks/cancelled": {"0", "0"}, "tasks/refused": {"0", "0"}, "tasks/cohort": {"0", "0"}, "tasks/late_used": {"0", "0"}, "loss/window": {"0", "0"}} {
		want["metrics/"+name] = strings.NewReplacer("V", values[0], "W", values[1]).Replace(times)
	}
	got := map[string]string{}
	for path, text := range files {
		got[strings.TrimPrefix(path, run+"/")] = text
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Runs share a store, also one that MLflow made, whose ids are its own.
func TestRunsShareAStore(t *testing.T) {
	s := Sink{Store: t.TempDir(), Experiment: "own"}
	if err := os.Mkdir(filepath.Join(s.Store, "42"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Store, "42", metaFile), []byte("artifact_location: file:///x\nexperiment_id: '42'\nlifecycle_stage: active\nname: own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for why, status := range map[error]string{nil: "status: 3\n", context.Canceled: "status: 5\n", errors.New("diverged"): "status: 4\n"} {
		o := open(t, s, newFolder(t), 0, 0)
		if err := errors.Join(o.Finish(&metrics.End{Completed: why == nil, Why: why}), o.Close(why)); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(o.entry.dir, metaFile))
		if err != nil || !strings.Contains(string(text), status) || filepath.Dir(o.entry.dir) != filepath.Join(s.Store, "42") {
			t.Errorf("%s in %s holds %s, want %s (%v)", metaFile, o.entry.dir, text, status, err)
		}
	}
	if dirs, err := filepath.Glob(filepath.Join(s.Store, "42", "*", metaFile)); err != nil || len(dirs) != 3 {
		t.Errorf("runs %v (%v)", dirs, err)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"a/b.c-d e_1": "a/b.c-d e_1", "k:é": "k__", "../x": "__/x", "/x//y": "_/x/_/y", ".": "_", "": "_"} {
		if got := clean(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, s := range []Sink{{Experiment: "x"}, {Store: "x"}} {
		if _, err := s.Open(&metrics.Run{}); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
