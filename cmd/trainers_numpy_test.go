//go:build unix

package cmd

import (
	"io"
	"math"
	"path/filepath"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/internal/atomicfile"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
)

// numpy is the command of the trainer in Python and numpy alone.
func numpy(t *testing.T) string {
	t.Helper()
	python := installed.Python(t, "numpy")
	script, err := filepath.Abs(filepath.Join("..", "python", "testdata", "mlp_numpy.py"))
	if err != nil {
		t.Fatal(err)
	}
	return python + " '" + script + "'"
}

// A trainer in Python comes to the history of the run without it and, from the same
// model, to its parameters up to 1e-5, whatever the clients' steps are. On a repeat it
// comes to the same bits.
func TestTrainer_Python(t *testing.T) {
	slow.Test(t, "it plays trainers in Python")
	t.Parallel()
	command, dir := numpy(t), t.TempDir()
	model, err := learn.Parse("mlp:784,200,200,62")
	if err != nil {
		t.Fatal(err)
	}
	params := make([]float32, model.Params())
	model.Init(params, 1)
	initial := filepath.Join(dir, "init.safetensors")
	if err := atomicfile.Write(initial, func(w io.Writer) error { return folder.EncodeModel(w, model.Tensors(), params, nil) }); err != nil {
		t.Fatal(err)
	}
	for name, sets := range map[string][]string{
		"fedavg":   nil,
		"fedprox":  {"--set", "aggregate={algorithm: fedprox, mu: 0.5}"},
		"scaffold": {"--set", "aggregate.algorithm=scaffold"},
		"adam":     {"--set", "aggregate={algorithm: fedprox, mu: 0.5}", "--set", "local={optimizer: adam, weight_decay: 0.01, eps: 1e-5}", "--set", "schedule.eta0=0.001"},
		"adamw":    {"--set", "local={optimizer: adamw, weight_decay: 0.1, eps: 1e-5, clip: 1}", "--set", "schedule.eta0=0.001"},
		"momentum": {"--set", "local={momentum: 0.9, nesterov: true, weight_decay: 0.01, clip: 1}", "--set", "schedule.eta0=0.01"},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(out string, more ...string) (folder.Summary, []float32) {
				out = filepath.Join(t.TempDir(), out)
				s := ends(t, out, digitsArgs("run", out, append(append([]string{"--set", "init=" + initial}, sets...), more...)...)...)
				params, err := folder.ReadModel(filepath.Join(out, outputs.ModelFile), model.Tensors())
				if err != nil {
					t.Fatal(err)
				}
				return s, params
			}
			want, here := play("here")
			got, there := play("there", "--trainer", command)
			if got.Fingerprint != want.Fingerprint {
				t.Errorf("history %s, want %s", got.Fingerprint, want.Fingerprint)
			}
			most := 0.
			for i := range here {
				most = max(most, math.Abs(float64(there[i])-float64(here[i])))
			}
			if !(most < 1e-5) {
				t.Errorf("a parameter is %g off", most)
			}
			t.Logf("off by %.2g", most)
			if again, _ := play("again", "--trainer", command); *again.ModelSHA256 != *got.ModelSHA256 {
				t.Error("a repeat comes to other bits")
			}
		})
	}
}
