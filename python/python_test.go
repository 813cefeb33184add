package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
)

// The Python tests talk to trainers as fedpace does, and read runs. They need numpy, and most
// of them PyTorch (Debian: python3-torch).
func TestPython(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	for _, pattern := range []string{"*.py", "fedpace/*.py", "testdata/*.py"} { // read here, so that go test runs again when one changes
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, needs := range map[string]string{
		"test_numpy.py":   "numpy",
		"test_results.py": "numpy", "test_flower.py": "numpy",
		"test_simulate.py": "numpy",
		"test_torch.py":    "torch",
		"test_trackers.py": "numpy",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			python := installed.Python(t, needs)
			if out, err := exec.CommandContext(t.Context(), python, "-B", name).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, bytes.TrimSpace(out))
			}
		})
	}
}

// Runs enter the real MLflow and W&B, and TensorBoard's own reader has their hyperparameters.
func TestTrackers_RealPackages(t *testing.T) {
	slow.Test(t, "it installs trackers from PyPI")
	t.Parallel()
	c := exec.CommandContext(t.Context(), "uv", "run", "--quiet", "--no-project", "--python", "3.11",
		"--with", "mlflow==3.17.0", "--with", "wandb==0.31.0", "--with", "numpy", "python", "-B", "test_trackers.py", "-v")
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("\nRan 6 tests")) || !bytes.Contains(out, []byte("\nOK\n")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// What the binary writes is what the tests test.
func TestModules(t *testing.T) {
	files, err := filepath.Glob("fedpace/*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Modules() {
		if want, err := os.ReadFile(m.Path); err != nil || !bytes.Equal(m.Source, want) {
			t.Errorf("%s: %d bytes, want %d (%v)", m.Path, len(m.Source), len(want), err)
		}
	}
	if len(files) < 3 || len(Modules()) != len(files) {
		t.Errorf("%d modules of %d files", len(Modules()), len(files))
	}
}
