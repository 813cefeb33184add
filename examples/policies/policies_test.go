//go:build unix

package policies

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/installed"
)

// small is a run of clients of whom a third are slow, which takes a fraction of a second.
func small(t *testing.T, sets ...string) config.Config {
	t.Helper()
	return runtest.Small(t, append([]string{
		"clients=30", "cohort=6", "schedule.k0=6", "schedule.k=fixed", "model=[flatten, dense]",
		"fleet=[{name: slow, weight: 1, seconds_per_step: 0.4}, {name: fast, weight: 2, seconds_per_step: 0.05}]",
	}, sets...)...)
}

// play plays a small run and returns its folder and its rounds.csv.
func play(t *testing.T, sets ...string) (dir string, rounds []byte) {
	t.Helper()
	c := small(t, sets...)
	if _, err := run.Run(t.Context(), c, run.Options{}); err != nil {
		t.Fatal(err)
	}
	rounds, err := os.ReadFile(filepath.Join(c.Out, "rounds.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Out, rounds
}

// needsPython skips a test where the policies' interpreter is missing.
func needsPython(t *testing.T) {
	t.Helper()
	installed.Program(t, "python3", "python3")
}

// twin is a policy in Python and the component in Go that it is to equal.
type twin struct {
	// file is that of the policy, in this folder.
	file string
	// python is the setting of the policy, in which FILE stands for the file, and golang that of its twin.
	python, golang string
	// common are settings of both runs.
	common []string
}

var twins = map[string]twin{
	"schedule of K": {
		file:   "schedule.py",
		python: "schedule.k={rule: python, path: FILE}",
		golang: "schedule.k=rounds",
	},
	"schedule of eta": {
		file:   "rate.py",
		python: "schedule.eta={rule: python, path: FILE}",
		golang: "schedule.eta=rounds",
	},
	"steps by client": {
		file:   "clients.py",
		python: "select={rule: client_schedule, path: FILE}",
		golang: "select={rule: fit}",
		common: []string{"close={rule: deadline, seconds: 1.5}"},
	},
	"closing rule": {
		file:   "closing.py",
		python: "close={rule: python, path: FILE, arguments: 'n=5, m=2', deadline_seconds: 1.5}",
		golang: "close={rule: quorum, n: 5, m: 2, seconds: 1.5}",
	},
	"selection": {
		file:   "selection.py",
		python: "select={rule: python, path: FILE}",
		golang: "select=round_robin",
	},
	"combining rule": {
		file:   "combine.py",
		python: "aggregate.combine={rule: python, path: FILE, arguments: liars=0.3}",
		golang: "aggregate.combine={rule: trimmed_mean, liars: 0.3}",
	},
	"server": {
		file:   "server.py",
		python: "aggregate={algorithm: python, path: FILE, vectors: 1, arguments: 'momentum=0.8, rate=0.7'}",
		golang: "aggregate={algorithm: fedavgm, momentum: 0.8, server_rate: 0.7}",
	},
}

// The same rounds come of a policy in Python as of the component in Go that decides alike.
func TestExamples_TwinsInGo(t *testing.T) {
	needsPython(t)
	_, plain := play(t)
	for name, twin := range twins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(twin.file)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(source, []byte("\n")); lines > 25 {
				t.Errorf("%s has %d lines, want at most 25", twin.file, lines)
			}
			_, want := play(t, append(twin.common, twin.golang)...)
			if bytes.Equal(plain, want) {
				t.Error("the twin does nothing")
			}
			_, got := play(t, append(twin.common, strings.ReplaceAll(twin.python, "FILE", twin.file))...)
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\n%s\nits twin:\n%s", twin.file, got, want)
			}
		})
	}
}

// Every plug point that takes a policy has an example here.
func TestExamples_EveryKind(t *testing.T) {
	files, err := filepath.Glob("*.py")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(twins) {
		t.Errorf("%d files and %d twins", len(files), len(twins))
	}
	for name, twin := range twins {
		if _, err := config.Load("", []string{"task=femnist", strings.ReplaceAll(twin.python, "FILE", twin.file)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// remembering is a configuration with policies that remember: clients that were slow are asked last, and
// the server has a momentum. FILE stands for the selection's file.
var remembering = []string{
	"select={rule: python, path: FILE, reads: losses}",
	"aggregate={algorithm: python, path: server.py, vectors: 1}",
	"stop.rounds=8",
}

// slowLast is a selection with a memory.
const slowLast = `import fedpace

class SlowLast(fedpace.Selection):
    def select(self, now, memory):
        for task in now.ended:
            memory[str(task.client)] = [task.seconds, task.loss]
        return sorted(range(now.clients), key=lambda c: (memory.get(str(c), [0]), c))
`

// A run with policies that is interrupted goes on to the bits of one that was not, if the user trusts the
// folder and the policy's file is the same.
func TestResume_Policies(t *testing.T) {
	t.Parallel()
	needsPython(t)
	file := filepath.Join(t.TempDir(), "slow_last.py")
	if err := os.WriteFile(file, []byte(slowLast), 0o666); err != nil {
		t.Fatal(err)
	}
	var sets []string
	for _, s := range remembering {
		sets = append(sets, strings.ReplaceAll(s, "FILE", file))
	}
	whole, want := play(t, sets...)
	// The second run is stopped in round 5.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	c := small(t, sets...)
	options := run.Options{}
	options.Round = func(r *round.Report) {
		if r.Round == 5 {
			stop()
		}
	}
	if _, err := run.Run(ctx, c, options); !errors.Is(err, context.Canceled) {
		t.Fatalf("it was stopped: %v", err)
	}
	if _, err := run.Resume(t.Context(), c.Out, run.Options{}); err == nil || !strings.Contains(err.Error(), "say --trust") {
		t.Errorf("a folder that nobody trusts: %v", err)
	}
	trusting := run.Options{}
	trusting.Trust = true
	if err := os.WriteFile(file, []byte(slowLast+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Resume(t.Context(), c.Out, trusting); err == nil || !strings.Contains(err.Error(), "had other content") {
		t.Errorf("another policy: %v", err)
	}
	if err := os.WriteFile(file, []byte(slowLast), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Resume(t.Context(), c.Out, trusting); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rounds.csv", "policies.jsonl", "model.safetensors"} {
		whole, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		resumed, err := os.ReadFile(filepath.Join(c.Out, name))
		if err != nil || !bytes.Equal(whole, resumed) {
			t.Errorf("%s is not that of a run that was never stopped, %v", name, err)
		}
	}
	if bytes.Count(want, []byte("\n")) != 9 {
		t.Errorf("%s", want)
	}
}

// A policy that fails as the third round opens ends the run with its name and line. The folder has the
// rounds up to the step before, in which the second one was complete.
func TestRun_PolicyFails(t *testing.T) {
	needsPython(t)
	file := filepath.Join(t.TempDir(), "fails.py")
	source := strings.ReplaceAll(slowLast, "for task in", "assert now.round < 3, 'no more'\n        for task in")
	if err := os.WriteFile(file, []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	c := small(t, "select={rule: python, path: "+file+"}")
	summary, err := run.Run(t.Context(), c, run.Options{})
	want := "select: policy " + file + ", line 5: AssertionError: no more"
	if err == nil || !strings.Contains(err.Error(), want) || summary.Rounds != 1 {
		t.Errorf("after %d rounds: %v, want %s", summary.Rounds, err, want)
	}
}
