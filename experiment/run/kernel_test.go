package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
)

// training is a small run of a network, whose arithmetic differs between classes.
func training(t *testing.T, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("", append([]string{
		"task=femnist", "clients=6", "cohort=3", "batch=4", "schedule.k0=2", "stop.rounds=4", "evaluate.samples=20",
		"out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each class has model bits of its own, and all have one history. Plain Go's bits are
// the same on every machine.
func TestKernels(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	fastest, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		t.Fatal(err)
	}
	const plain = "fb08d3de6826b37428f66112e9105215fa9d1ce7e58afd491819c2ca7eb1f244"
	var plainGo folder.Summary
	for kernel, class := range map[string]string{"go": "go", "auto": fastest.Class(), fastest.Class(): fastest.Class()} {
		c := training(t, "kernel="+kernel)
		s, err := Run(t.Context(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		written, err := config.Load(filepath.Join(c.Out, folder.ConfigFile), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Kernel != class || written.Kernel != class {
			t.Errorf("kernel %s: the summary has class %s and the configuration %s, want %s", kernel, s.Kernel, written.Kernel, class)
		}
		if got := *s.ModelSHA256; (got == plain) != (class == "go") {
			t.Errorf("kernel %s, class %s: the model is %s, and plain Go's %s", kernel, class, got, plain)
		}
		if plainGo.Fingerprint == "" {
			plainGo = s
		}
		if s.Fingerprint != plainGo.Fingerprint {
			t.Errorf("kernel %s: the fingerprint is %s, of another class %s", kernel, s.Fingerprint, plainGo.Fingerprint)
		}
	}
}

// A class that the machine does not have is refused before anything is done, unless
// other machines train. A run that learns nothing needs none.
func TestKernels_Missing(t *testing.T) {
	t.Parallel()
	lacking := 0
	for _, class := range []string{"go", "neon", "avx", "amx", "amx3"} {
		if _, err := learn.SelectKernel(class); err == nil {
			continue
		}
		lacking++
		c := training(t, "kernel="+class)
		_, err := Run(t.Context(), c, Options{})
		var key *config.KeyError
		if !errors.As(err, &key) || key.Key != "kernel" || !strings.HasPrefix(key.Problem, class+" needs ") || !strings.HasSuffix(key.Problem, "(set go, which every machine has, or auto)") {
			t.Errorf("class %s: %v", class, err)
		}
		if _, err := os.Stat(c.Out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("class %s: its folder is there: %v", class, err)
		}
		c.Train = false
		for _, run := range []struct {
			train, remote bool
		}{{true, true}, {false, false}} {
			c.Train = run.train
			p, err := prepare(c, run.remote)
			if err != nil {
				t.Errorf("class %s: %+v: %v", class, run, err)
				continue
			}
			if p.Config.Kernel != class {
				t.Errorf("class %s: %+v: it becomes %s", class, run, p.Config.Kernel)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if lacking == 0 {
		t.Error("this machine has all classes")
	}
}
