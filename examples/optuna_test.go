//go:build unix

package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"fedpace/internal/testkit/slow"
)

// standIn is as much of Optuna as the example needs: it asks for the ends of ranges in turn.
const standIn = `
class trial:
    class TrialState: FAIL = "fail"
class samplers:
    class TPESampler:
        def __init__(self, seed): pass
class Trial:
    def __init__(self, n): self.n, self.params = n, {}
    def suggest_int(self, name, low, high, log): return self.params.setdefault(name, high if self.n % 2 else low)
    def suggest_float(self, name, low, high, log): return self.params.setdefault(name, high if self.n // 2 % 2 else low)
class Study:
    trials = ()
    def __init__(self): self.told, self.asked = [], 0
    def ask(self): self.asked += 1; return Trial(self.asked)
    def tell(self, trial, value=None, state=None): self.told += [(value, trial.params)] if state is None else []
    best_params = property(lambda self: max(self.told, key=lambda t: t[0])[1])
    best_value = property(lambda self: max(self.told, key=lambda t: t[0])[0])
def create_study(study_name, direction, storage, load_if_exists): assert direction == "maximize"; return Study()
`

// What the search says is best is so by what its runs have left, and it plays nothing twice.
func TestOptuna(t *testing.T) {
	slow.Test(t, "it plays a search in Python")
	t.Parallel()
	const python = "/usr/bin/python3"
	dir := t.TempDir()
	env := append(os.Environ(), "FEDPACE="+filepath.Join(dir, "fedpace"), "OUT="+filepath.Join(dir, "runs"))
	if exec.CommandContext(t.Context(), python, "-c", "import optuna; optuna.create_study").Run() != nil {
		t.Log("with a stand-in: python3-optuna is not here")
		if err := os.WriteFile(filepath.Join(dir, "optuna.py"), []byte(standIn), 0o600); err != nil {
			t.Fatal(err)
		}
		env = append(env, "PYTHONPATH="+dir)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "fedpace"), "../cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var said [2][]byte
	for i := range said {
		c := exec.CommandContext(t.Context(), python, "-B", "optuna/search.py", "4")
		c.Env, c.Stderr = env, os.Stderr
		var err error
		said[i], err = c.Output()
		if err != nil {
			t.Fatal(err)
		}
	}
	var best struct {
		Params struct {
			K0   int     `json:"k0"`
			Eta0 float64 `json:"eta0"`
		}
		Value float64
	}
	err := json.Unmarshal(said[0], &best)
	if string(said[0]) != string(said[1]) || err != nil || best.Value < 0.5 || best.Value > 1 || best.Params.K0 < 5 || best.Params.K0 > 80 {
		t.Errorf("it says %s, then %s (%v)", said[0], said[1], err)
	}
	if trials, err := os.ReadDir(filepath.Join(dir, "runs")); err != nil || len(trials) < 3 || len(trials) > 4 {
		t.Errorf("%d trials were played, %v", len(trials), err)
	}
}

// A search with the real Optuna that is stopped after three trials goes on with points that it has not
// tried, which one that begins with the same seed does not (findings/optuna-resumed-search-repeats.sh).
func TestOptuna_RealPackageGoesOn(t *testing.T) {
	slow.Test(t, "it installs Optuna from PyPI")
	t.Parallel()
	dir := t.TempDir()
	fedpace := filepath.Join(dir, "fedpace")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", fedpace, "../cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, trials := range []string{"3", "6"} {
		c := exec.CommandContext(t.Context(), "uv", "run", "--quiet", "--no-project", "--python", "3.11",
			"--with", "optuna==5.0.0", "python", "-B", "optuna/search.py", trials)
		c.Env = append(os.Environ(), "FEDPACE="+fedpace, "OUT="+filepath.Join(dir, "runs"))
		c.Stderr = os.Stderr
		if out, err := c.Output(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		tried, err := filepath.Glob(filepath.Join(dir, "runs", "*-*"))
		if want := 3 * (i + 1); err != nil || len(tried) != want {
			t.Errorf("%d points were tried, want %d: %v", len(tried), want, tried)
		}
	}
}
