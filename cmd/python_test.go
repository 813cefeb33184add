//go:build unix

package cmd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// Every example of a trainer in Python takes the steps of simulated clients, and those
// of a real device in a process of its own, in one run.
func TestPython_Examples(t *testing.T) {
	slow.Test(t, "it plays whole examples in Python")
	t.Parallel()
	python := installed.Python(t, "torch")
	for name, of := range map[string]struct{ data, device []string }{
		"femnist":     {[]string{"task: femnist", "clients: 12"}, nil},
		"batchnorm":   {[]string{"task: femnist", "clients: 12"}, nil},
		"transformer": {[]string{"task: shakespeare", "clients: 12"}, nil},
		"regression":  {[]string{"task: femnist", "data: trainer", "clients: all"}, []string{"--data", "trainer", "--owner", "room03"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := filepath.Abs("../examples/python/" + name + ".py")
			if err != nil {
				t.Fatal(err)
			}
			s := &site{T: t, dir: t.TempDir()}
			s.keys = s.path("keys")
			text := fmt.Sprintf(pythonConfig, python+" "+script)
			for _, line := range of.data {
				text += line + "\n"
			}
			s.run = fedpace(t, "run", "--config", s.config("run.yaml", text), "--keys", s.keys, "--out", s.path("run"))
			s.run.Env = append(s.run.Env, "GOMAXPROCS=1") // one worker, and so one process of the trainer's
			s.lines = s.listen(s.run)
			s.url = s.lines.await(t, `(nats://127\.0\.0\.1:\d+)`)[1]
			args := append([]string{"actor", "--nats", s.url, "--client", "pi", "--creds", s.creds("pi"), "--once", "--trainer", python + " " + script}, of.device...)
			device := fedpace(t, args...)
			device.Stderr = os.Stderr
			s.start(device)
			summary := s.end()
			if n := summary.Outcomes[round.Accepted]; n != 2*(2+1) {
				t.Errorf("%d updates were accepted, want 6:\n%v", n, s.lines)
			}
			if _, real := s.tasks("run"); len(real) != 2 {
				t.Errorf("the device did %d tasks, want 2", len(real))
			}
			if err := device.Wait(); err != nil {
				t.Errorf("the device ends with %v", err)
			}
		})
	}
}

// The example of a language model plays, in its small form, to its table and figure.
func TestPython_LanguageExample(t *testing.T) {
	slow.Test(t, "it plays a whole example in Python")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "language")
	if err := os.CopyFS(dir, os.DirFS("../examples/language")); err != nil {
		t.Fatal(err)
	}
	table, figure := filepath.Join(dir, "language.csv"), filepath.Join(dir, "language.svg")
	if err := errors.Join(os.Remove(table), os.Remove(figure)); err != nil { // so that those that stand later are new
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "run.sh"), "small")
	c.Env = append(fedpace(t).Env, "FEDPACE="+os.Args[0], "PYTHON="+installed.Python(t, "torch"), "LINKS=10", "OUT="+filepath.Join(dir, "runs"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	header := func(file string) string { first, _, _ := strings.Cut(read(t, file), "\n"); return first }
	if played, kept := header(table), header("../examples/language/language.csv"); played != kept {
		t.Errorf("the table has the columns %s, the one kept %s", played, kept)
	}
	has(t, read(t, figure), "</svg>")
}

// FedProx and SCAFFOLD through PyTorch make the models that they make in Go.
// (TestTrainer_Python does the same with numpy, and python/test_torch.py holds PyTorch's
// steps to plain ones.)
func TestPython_AlgorithmsThroughPyTorch(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	trainer := installed.Python(t, "torch") + " ../examples/python/femnist.py"
	dir := t.TempDir()
	model, err := learn.Parse("mlp:784,200,200,62")
	if err != nil {
		t.Fatal(err)
	}
	play := func(name string, args ...string) ([]float32, folder.Summary) {
		t.Helper()
		out := filepath.Join(dir, name)
		c := fedpace(t, append([]string{"run", "--quiet", "--out", out, "--set", "clients=6", "--set", "cohort=3", "--set", "batch=4", "--set", "network.model_megabits=6.71",
			"--set", "schedule.k=fixed", "--set", "schedule.k0=3", "--set", "stop.rounds=3", "--set", "evaluate.samples=20", "--set", "nats.url=none"}, args...)...)
		c.Env = append(c.Env, "GOMAXPROCS=1")
		if _, stderr, exit := finish(t, c); exit != 0 {
			t.Fatal(stderr)
		}
		params, err := folder.ReadModel(filepath.Join(out, "model.safetensors"), model.Tensors())
		if err != nil {
			t.Fatal(err)
		}
		summary, err := folder.ReadSummary(filepath.Join(out, folder.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		return params, summary
	}
	play("initial", "--set", "schedule.eta0=1e-20", "--set", "stop.rounds=1")
	same := []string{"--set", "init=" + filepath.Join(dir, "initial", "model.safetensors")}
	plain, _ := play("plain", same...)
	for name, algorithm := range map[string]string{"fedprox": "{algorithm: fedprox, mu: 5}", "scaffold": "{algorithm: scaffold}"} {
		args := append(same[:len(same):len(same)], "--set", "aggregate="+algorithm)
		here, summary := play(name+"-go", args...)
		there, other := play(name+"-torch", append(args, "--trainer", trainer)...)
		if summary.Fingerprint != other.Fingerprint {
			t.Errorf("%s: the fingerprint is %s in Go and %s in PyTorch", name, summary.Fingerprint, other.Fingerprint)
		}
		off := farthest(here, there)
		if off > 1e-5 {
			t.Errorf("%s: a parameter is off by %g", name, off)
		}
		t.Logf("%s: the model is off by %.2g", name, off)
		if off := farthest(here, plain); off < 1e-4 {
			t.Errorf("%s: no parameter is farther than %g from FedAvg's", name, off)
		}
	}
}

// A model with batch norm becomes what a plain loop of FedAvg, and of FedProx, makes of
// it, its running statistics included. (python/test_torch.py does the same without
// fedpace, and package actors averages what is not trained.)
func TestPython_BatchNormAveraged(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	t.Parallel()
	python := installed.Python(t, "torch")
	const script = "../python/testdata/batchnorm_fedavg.py"
	dir := t.TempDir()
	play := func(name string, args ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		c := fedpace(t, append([]string{"run", "--quiet", "--out", out, "--trainer", python + " " + script, "--set", "data=trainer", "--set", "clients=all",
			"--set", "cohort=4", "--set", "batch=8", "--set", "schedule.k=fixed", "--set", "schedule.k0=3", "--set", "nats.url=none"}, args...)...)
		c.Env = append(c.Env, "GOMAXPROCS=1")
		if _, stderr, exit := finish(t, c); exit != 0 {
			t.Fatal(stderr)
		}
		return filepath.Join(out, "model.safetensors")
	}
	first := play("first", "--set", "stop.rounds=1", "--set", "schedule.eta0=0.1")
	for name, of := range map[string]struct{ mu, algorithm string }{"fedavg": {"0", "{algorithm: fedavg}"}, "fedprox": {"2", "{algorithm: fedprox, mu: 2}"}} {
		last := play(name, "--set", "init="+first, "--set", "stop.rounds=4", "--set", "schedule.eta0=0.2", "--set", "aggregate="+of.algorithm)
		c := exec.CommandContext(t.Context(), python, "-B", script, first, last, "4", "3", "0.2", of.mu)
		c.Env = append(os.Environ(), "PYTHONPATH=../python")
		stdout, stderr, exit := finish(t, c)
		if off, err := strconv.ParseFloat(strings.TrimSpace(stdout), 64); exit != 0 || err != nil || !(off <= 1e-5) {
			t.Errorf("%s is off by %q:\n%s", name, stdout, stderr)
		} else {
			t.Logf("%s: the model is off by %.2g", name, off)
		}
	}
}

// farthest is the largest distance of two models' parameters.
func farthest(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// FEMNIST through PyTorch has the history of the run in Go and, from the same initial
// model, its accuracy; and the same bits with one process and with two.
func TestPython_RealFEMNIST(t *testing.T) {
	slow.Test(t, "it trains in PyTorch")
	data := realdata.Path(t, "femnist/femnist.parquet")
	trainer := installed.Python(t, "torch") + " ../examples/python/femnist.py"
	s := &site{T: t, dir: t.TempDir()}
	play := func(name, processors string, args ...string) folder.Summary {
		t.Helper()
		c := fedpace(t, append([]string{"run", "--quiet", "--out", s.path(name), "--set", "task=femnist", "--set", "data=" + s.path("femnist.fedpace"),
			"--set", "schedule.k=fixed", "--set", "nats.url=none", "--set", "network.model_megabits=6.71"}, args...)...)
		c.Env = append(c.Env, "GOMAXPROCS="+processors)
		if _, stderr, exit := finish(t, c); exit != 0 {
			t.Fatal(stderr)
		}
		return s.summary(name)
	}
	if _, stderr, exit := finish(t, fedpace(t, "data", "prepare", data, "--out", s.path("femnist.fedpace"))); exit != 0 {
		t.Fatal(stderr)
	}
	// Steps of almost no length leave the initial model.
	play("initial", "2", "--set", "schedule.eta0=1e-20", "--set", "schedule.k0=1", "--set", "stop.rounds=1")
	rounds := []string{"--set", "stop.rounds=12", "--set", "evaluate.every=12", "--set", "init=" + filepath.Join(s.path("initial"), "model.safetensors")}
	here, there := play("go", "2", rounds...), play("torch", "2", append(rounds, "--trainer", trainer)...)
	t.Logf("accuracy %.4f in Go, %.4f in PyTorch", *here.ValidationAccuracy, *there.ValidationAccuracy)
	if here.Fingerprint != there.Fingerprint {
		t.Errorf("the fingerprint is %v in Go and %v in PyTorch", here.Fingerprint, there.Fingerprint)
	}
	if math.Abs(*here.ValidationAccuracy-*there.ValidationAccuracy) > 0.002 {
		t.Error("the accuracies differ by more than 0.002")
	}
	short := []string{"--set", "cohort=6", "--set", "stop.rounds=2", "--set", "evaluate.samples=500", "--trainer", trainer}
	if one, two := play("one", "1", short...), play("two", "2", short...); *one.ModelSHA256 != *two.ModelSHA256 {
		t.Errorf("one process makes the model %s, two make %s", *one.ModelSHA256, *two.ModelSHA256)
	}
}

// pythonConfig is a run that takes a few steps of a trainer.
const pythonConfig = `name: python
trainer: {command: '%s'}
cohort: 2
batch: 4
schedule: {k: fixed, k0: 2, eta0: 0.01}
stop: {rounds: 2}
evaluate: {every: 2, samples: 20}
nats: {listen: '127.0.0.1:0'}
devices: {names: [pi], liveness_seconds: 300}
`
