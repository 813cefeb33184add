//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// flwrPython is a Python that has flwr and what an app needs: the one that the environment variable
// names, or one of this machine's. Without any the test is skipped.
func flwrPython(t *testing.T, variable, module string) string {
	t.Helper()
	slow.Test(t, "it plays Flower apps with flwr")
	for _, name := range []string{os.Getenv(variable), "python3", "/usr/bin/python3"} {
		if name != "" && exec.CommandContext(t.Context(), name, "-c", "import flwr, "+module).Run() == nil {
			return name
		}
	}
	installed.Missing(t, fmt.Sprintf("no Python has flwr and %s: .ci/long makes one, and names it by %s", module, variable))
	return ""
}

// flowerRun plays an app and returns the digest of its model, and its rounds.
func flowerRun(t *testing.T, out, app, python string, more ...string) (digest, rounds string) {
	t.Helper()
	args := []string{"flower", app, "--quiet", "--out", out, "--set", "flower.python=" + python}
	if _, stderr, exit := finish(t, fedpace(t, append(args, more...)...)); exit != 0 {
		log, _ := os.ReadFile(filepath.Join(out, "app.log"))
		t.Fatalf("exit %d: %s\n%s", exit, stderr, log)
	}
	return flowerResult(t, out)
}

// flowerResult reads the digest of a run's model, and its rounds. An app without a strategy writes its
// digest itself.
func flowerResult(t *testing.T, out string) (digest, rounds string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Digest string `json:"model_sha256"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if own, err := os.ReadFile(filepath.Join(out, "files", "digest.txt")); err == nil {
		s.Digest = strings.TrimSpace(string(own))
	}
	table, err := os.ReadFile(filepath.Join(out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Digest, string(table)
}

// pinned plays an app in flwr's own runtime, with what never repeats there pinned.
func pinned(t *testing.T, app, python string, nodes int, run map[string]any) string {
	t.Helper()
	if run == nil {
		run = map[string]any{}
	}
	values, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), python, "../python/testdata/flwr_pinned.py", app, fmt.Sprint(nodes), string(values), "1")
	c.Env = append(os.Environ(), "FLWR_HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("flwr's own runtime: %v\n%s", err, said.String())
	}
	lines := strings.Fields(string(out))
	return lines[len(lines)-1]
}

// Apps have the bits of flwr's own runtime, where that is pinned.
func TestFlower_BitsOfFlowersRuntime(t *testing.T) {
	withTorch := flwrPython(t, "FEDPACE_FLWR_TORCH", "torch")
	// PyTorch's sums depend on the number of threads, which is one for fedpace's clients.
	t.Setenv("OMP_NUM_THREADS", "1")
	const nodes = 8
	for _, c := range []struct {
		app string
		run map[string]any
	}{
		{"../examples/flower/softmax", map[string]any{"strategy": "fedavg"}},
		{"../examples/flower/softmax", map[string]any{"strategy": "fedadam"}},
		{"../examples/flower/softmax", map[string]any{"strategy": "fedprox"}},
		{"../examples/flower/softmax", map[string]any{"strategy": "krum"}},
		{"../examples/flower/softmax", map[string]any{"fraction-train": 0.5}},
		{"testdata/flower/sklearn-digits", nil},
		{"testdata/flower/torch-blobs", nil},
		{"testdata/flower/old-numpyclient", map[string]any{"fraction-fit": 1.0}},
		{"../examples/flower/own_loop", map[string]any{"enough": 1.0}},
		{"../examples/flower/secagg", nil},
	} {
		t.Run(fmt.Sprint(filepath.Base(c.app), c.run), func(t *testing.T) {
			python := flwrPython(t, "FEDPACE_FLWR", "sklearn")
			if c.app == "testdata/flower/torch-blobs" {
				python = withTorch
			}
			more := []string{"--set", fmt.Sprintf("clients=%d", nodes), "--set", "flower.order=sent"}
			for key, value := range c.run {
				more = append(more, "--set", fmt.Sprintf("flower.run.%s=%v", key, value))
			}
			got, _ := flowerRun(t, filepath.Join(t.TempDir(), "run"), c.app, python, more...)
			if want := pinned(t, c.app, python, nodes, c.run); got != want {
				t.Errorf("the model is %s, flwr's own %s", got, want)
			}
		})
	}
}

// Other hash seeds and other numbers of workers change nothing, under stragglers that drop out.
func TestFlower_SameBits(t *testing.T) {
	for _, c := range []struct{ app, variable, module string }{
		{"../examples/flower/softmax", "FEDPACE_FLWR", "numpy"},
		{"testdata/flower/sklearn-digits", "FEDPACE_FLWR", "sklearn"},
		{"testdata/flower/old-numpyclient", "FEDPACE_FLWR", "numpy"},
		{"testdata/flower/torch-blobs", "FEDPACE_FLWR_TORCH", "torch"},
		{"../examples/flower/own_loop", "FEDPACE_FLWR", "numpy"},
		{"../examples/flower/secagg", "FEDPACE_FLWR", "numpy"},
	} {
		t.Run(filepath.Base(c.app), func(t *testing.T) {
			python := flwrPython(t, c.variable, c.module)
			dir := t.TempDir()
			more := []string{"--config", "../examples/flower/fleet.yaml", "--set", "clients=40"}
			digest, rounds := flowerRun(t, filepath.Join(dir, "one"), c.app, "env PYTHONHASHSEED=1 "+python, more...)
			t.Setenv("GOMAXPROCS", "3")
			again, roundsAgain := flowerRun(t, filepath.Join(dir, "two"), c.app, "env PYTHONHASHSEED=77 "+python, more...)
			if digest == "" || digest != again {
				t.Errorf("models %s and %s", digest, again)
			}
			if diff := cmp.Diff(rounds, roundsAgain); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run that is killed goes on to the same bits and virtual times.
func TestFlower_KilledRunsGoOn(t *testing.T) {
	python := flwrPython(t, "FEDPACE_FLWR", "numpy")
	const app = "../examples/flower/softmax"
	more := []string{"--config", "../examples/flower/fleet.yaml", "--set", "flower.run.num-server-rounds=12"}
	digest, rounds := flowerRun(t, filepath.Join(t.TempDir(), "whole"), app, python, more...)
	var out string
	for tries, isKilled := 0, false; !isKilled; tries++ { // a run that was over before its kill is played again
		if tries == 20 {
			t.Fatal("the runs were over before they were killed")
		}
		out = filepath.Join(t.TempDir(), "killed")
		args := append([]string{"flower", app, "--quiet", "--out", out, "--set", "flower.python=" + python}, more...)
		isKilled = killAfter(t, fedpace(t, args...), out, 2)
	}
	if _, stderr, exit := finish(t, fedpace(t, "resume", "--quiet", "--trust", out)); exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	again, roundsAgain := flowerResult(t, out)
	if digest != again {
		t.Errorf("the model is %s, want %s", again, digest)
	}
	if diff := cmp.Diff(rounds, roundsAgain); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(out, "journal.log")); err == nil {
		t.Error("the journal is left in the folder of a run that is complete")
	}
}

// flwr's arrays are read and written as flwr does it, byte for byte, by a shorter way.
func TestFlower_ArraysEqualFlowers(t *testing.T) {
	python := flwrPython(t, "FEDPACE_FLWR", "numpy")
	out, err := exec.CommandContext(t.Context(), python, "../python/testdata/flwr_arrays.py").CombinedOutput()
	if strings.TrimSpace(string(out)) != "86" || err != nil {
		t.Errorf("%s, %v; want 86 arrays that are equal", out, err)
	}
}

// A ClientApp takes the local steps of a run whose schedule decays K.
func TestFlower_AsTrainer(t *testing.T) {
	python := flwrPython(t, "FEDPACE_FLWR", "numpy")
	out := filepath.Join(t.TempDir(), "run")
	args := []string{
		"run", "--quiet", "--out", out,
		"--trainer", "flower:../examples/flower/softmax nodes=12 learning-rate=eta local-epochs=epochs",
	}
	for _, set := range strings.Fields("task=custom data=trainer clients=all cohort=6 batch=10 schedule.k0=8 " +
		"schedule.eta0=0.1 compute.seconds_per_step=0.01 network.download_mbps=20 network.upload_mbps=5 " +
		"stop.rounds=4 evaluate.every=1 schedule.window=1") {
		args = append(args, "--set", set)
	}
	c := fedpace(t, args...)
	c.Env = append(c.Env, "FEDPACE_PYTHON="+python)
	if _, stderr, exit := finish(t, c); exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	_, rounds := flowerResult(t, out)
	// K falls by the schedule rounds: 8, then 7, 6 and 6 (Table 3: K_0 / cube root of r, rounded up).
	for number, steps := range map[int]string{1: "8", 2: "7", 3: "6", 4: "6"} {
		if cells := strings.Split(strings.Split(rounds, "\n")[number], ","); cells[3] != steps {
			t.Errorf("round %d has K = %s, want %s", number, cells[3], steps)
		}
	}
}

// What the user got wrong is said in words.
func TestFlower_Mistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no app":         {[]string{"flower", t.TempDir()}, "pyproject.toml"},
		"no such Python": {[]string{"flower", "../examples/flower/softmax", "--set", "flower.python=/none/python"}, "cannot be started"},
		"another task":   {[]string{"run", "--set", "flower.app=x"}, "set task: flower"},
		"no folder":      {[]string{"run", "--set", "task=flower"}, "flower.app: is not set"},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			_, stderr, exit := finish(t, fedpace(t, append(c.args, "--out", out)...))
			if exit == 0 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, said %q, want %q", exit, stderr, c.want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("it leaves a folder")
			}
		})
	}
}

// A key that the app does not have is refused by name.
func TestFlower_UnknownKey(t *testing.T) {
	python := flwrPython(t, "FEDPACE_FLWR", "numpy")
	out := filepath.Join(t.TempDir(), "run")
	_, stderr, exit := finish(t, fedpace(t, "flower", "../examples/flower/softmax", "--out", out,
		"--set", "flower.python="+python, "--set", "flower.run.local-epoch=3"))
	if exit == 0 || !strings.Contains(stderr, "did you mean 'local-epochs'?") {
		t.Errorf("exit %d, said %q", exit, stderr)
	}
}
