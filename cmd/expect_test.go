package cmd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/bus/embedded"
	"fedpace/cmd/internal/cli"
)

var expecting = strings.Fields("--quiet --set task=sent140 --set clients=30 --set cohort=5 --set schedule.k0=6 --set schedule.window=2 --set stop.rounds=8 --set evaluate.every=1 --set synthetic.heterogeneity=0")

// What is expected is checked in runs, resumed ones and comparisons; what is missed is said, with
// an exit status of its own.
func TestExpected(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "x.yaml")
	if err := os.WriteFile(config, []byte("expect: [rounds >= 8, virtual_seconds < 0.001, \"gain('rounds', 'fixed', 'tail_accuracy') > -1\"]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := func(more ...string) []string { return append(append([]string{more[0]}, expecting...), more[1:]...) }
	run, compared := filepath.Join(dir, "run"), filepath.Join(dir, "compared")
	for _, of := range []struct {
		args   []string
		status int
		says   string
	}{
		{args("run", "--out", run, "--config", config), cli.ExitMissed, "expected virtual_seconds < 0.001: it is 0.8"},
		{[]string{"verify", run}, 0, ""},
		{[]string{"resume", run}, cli.ExitMissed, "expected virtual_seconds < 0.001: it is"},
		{[]string{"resume", run, "--expect", "tail_accuracy > 0", "--expect", "best_validation_accuracy <= 1"}, 0, ""},
		{[]string{"resume", run, "--expect", "rounds => 9"}, cli.ExitUsage, "expect[0]: character 8"},
		{args("run", "--out", run+"2", "--set", "evaluate.target=0.9999"), cli.ExitNotReached, "evaluate.target: 0.9999 was never reached"},
		{args("run", "--out", run+"3", "--expect", "tail_acuracy > 0"), cli.ExitUsage, `expect[0]: "tail_acuracy" is no value (did you mean "tail_accuracy"?)`},
		{args("compare", "--out", compared, "--config", config, "--seeds", "2"), cli.ExitMissed, "expected fixed: virtual_seconds < 0.001: it is"},
		{args("compare", "--out", compared, "--seeds", "2", "--expect", "gain('rounds', 'fixed', 'relative_sgd_steps') < -0.01"), 0, ""},
		{args("compare", "--out", compared, "--seeds", "2", "--expect", "gain('rounds', 'fixed', 'relative_sgd_steps') > 0"), cli.ExitMissed, "expected gain('rounds', 'fixed', 'relative_sgd_steps') > 0: it is -0."},
		{args("compare", "--out", compared, "--config", config), cli.ExitUsage, "expect[2]: a gain has an interval over two seeds"},
		{args("compare", "--out", compared, "--seeds", "2", "--expect", "gain('rouds', 'fixed', 'rounds') > 0"), cli.ExitUsage, `"rouds" is no schedule here (did you mean "rounds"?)`},
	} {
		status, _, stderr := callAll(t, of.args...)
		if status != of.status || !strings.Contains(stderr, of.says) {
			t.Errorf("%v: status %d, %s; want %d and %q", of.args, status, stderr, of.status, of.says)
		}
	}
	if _, err := os.Stat(run + "3"); err == nil {
		t.Error("a run with a typo began")
	}
	status, stdout, _ := callAll(t, "resume", run, "--json")
	if want := `"expected":[{"expression":"rounds \u003e= 8","passed":true,"value":8}`; status != cli.ExitMissed || !strings.Contains(stdout, want) {
		t.Errorf("status %d, %s; want %s", status, stdout, want)
	}
}

// Where hosts do the work, the same is expected.
func TestExpect_OverHosts(t *testing.T) {
	server, err := embedded.Start(t.Context(), embedded.Config{Listen: "127.0.0.1:0", Open: true})
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- execute(ctx, library, []string{"host", "--quiet", "--nats", url}, io.Discard, io.Discard)
	}()
	status, _, stderr := callAll(t, append([]string{"coordinator", "--nats", url, "--out", filepath.Join(t.TempDir(), "run"), "--expect", "rounds > 8", "--expect", "tail_accuracy > 0"}, expecting...)...)
	stop()
	<-ended
	if status != cli.ExitMissed || strings.TrimSpace(stderr[strings.LastIndex(stderr, "fedpace:"):]) != "fedpace: expected rounds > 8: it is 8" {
		t.Errorf("status %d, %s", status, stderr)
	}
}
