//go:build unix

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/internal/testkit/slow"
)

// evaluation starts a part of the paper's evaluation, small enough for seconds.
func evaluation(t *testing.T, out, cohort string, more ...string) *process {
	t.Helper()
	args := []string{
		"paper", "--tasks", "sent140", "--schedules", "fixed,rounds", "--seeds", "2", "--rounds", "20", "--out", out,
		"--set", "clients=200", "--set", "cohort=" + cohort, "--set", "schedule.k0=10", "--set", "schedule.window=5", "--set", "evaluate.every=5",
	}
	return fedpace(t, append(args, more...)...)
}

// evaluated is what an evaluation came to: its tables, and each cell's model by
// the name of its folder.
func evaluated(t *testing.T, out string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range []string{"cells.csv", "curves.csv"} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(text)
	}
	cells, err := filepath.Glob(filepath.Join(out, "cells", "*", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != 4 {
		t.Errorf("%s holds %d runs, want 2 schedules with 2 seeds", out, len(cells))
	}
	for _, path := range cells {
		dir := filepath.Dir(path)
		found[filepath.Base(dir)] = fmt.Sprintf("%+v", resultOf(t, dir))
	}
	return found
}

// completed counts the runs that have come to their end.
func completed(t *testing.T, out string) (n int) {
	t.Helper()
	cells, err := filepath.Glob(filepath.Join(out, "cells", "*", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range cells {
		if resultOf(t, filepath.Dir(path)).Completed {
			n++
		}
	}
	return n
}

// The paper's evaluation with hosts elsewhere is to the bit that of one process:
// with a host that is killed and others that join, interrupted, killed and begun
// again, and beside another on the same server that differs in nothing but its
// cohort.
func TestPaper_HostsElsewhere(t *testing.T) {
	slow.Test(t, "it plays the paper's runs on hosts elsewhere")
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	evaluation(t, at("alone6"), "6").finish(patience)
	evaluation(t, at("alone5"), "5").finish(patience)

	s := newServer(t, serverOptions{})
	w := watch(t, s)
	unpaced := []string{"--nats", s.url(), "--set", "nats.ack_seconds=1", "--set", "checkpoint.seconds=0.2"}
	elsewhere := slices.Concat(unpaced, []string{"--set", "pace=0.3"})
	first := evaluation(t, at("six"), "6", elsewhere...)
	first.until("This process drives the runs and trains nothing", patience)
	first.until("sent140: No host is there; the run waits for one", patience)
	other := evaluation(t, at("five"), "5", slices.Concat(unpaced, []string{"--set", "pace=0.8"})...)
	one := host(t, s.url(), "--name", "one")
	first.until("sent140: Host one is there with 1 trainer.", patience)
	w.tasks(30, first)
	one.kill()
	host(t, s.url(), "--name", "two")
	host(t, s.url(), "--name", "three")
	first.until("Host three is there", patience)
	if n := strings.Count(first.said(), "Host one is there"); n != 1 {
		t.Errorf("of one host it is said %d times that it is there", n)
	}

	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-first.done
	if code := first.cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(first.said(), "the same command goes on") {
		t.Fatalf("exit status %d of an evaluation that was interrupted", code)
	}
	if n := completed(t, at("six")); n == 4 {
		t.Fatal("it was over before it was interrupted")
	}
	second := evaluation(t, at("six"), "6", elsewhere...)
	second.until("Host three is there", patience)
	w.tasks(20, second)
	if err := second.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-second.done
	if n := completed(t, at("six")); n == 4 {
		t.Fatal("it was over before it was killed")
	}
	evaluation(t, at("six"), "6", unpaced...).finish(patience)
	other.finish(patience)
	for with, alone := range map[string]string{"six": "alone6", "five": "alone5"} {
		if diff := cmp.Diff(evaluated(t, at(alone)), evaluated(t, at(with))); diff != "" {
			t.Errorf("in one process (-), on hosts elsewhere (+):\n%s", diff)
		}
	}
}

// Without a server the evaluation waits, and has made nothing if it is interrupted; with
// one that comes later it does the same as ever.
func TestPaper_WithoutServer(t *testing.T) {
	slow.Test(t, "it plays the paper's runs without a server")
	t.Parallel()
	dir := t.TempDir()
	alone, out := filepath.Join(dir, "alone"), filepath.Join(dir, "paper")
	evaluation(t, alone, "4").finish(patience)
	s := &natsServer{t: t, options: serverOptions{Port: heldPort(t), Store: t.TempDir()}}
	waits := func() *process {
		p := evaluation(t, out, "4", "--nats", strings.Replace(s.url(), "//", "//me:secret@", 1))
		p.until("No server answers at "+s.url()+"; trying again for at most 2m0s.", patience)
		return p
	}
	p := waits()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit status %d of an evaluation that was interrupted", code)
	}
	if made, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(made) > 0 {
		t.Errorf("%v are left behind (%v)", made, err)
	}
	p = waits()
	s.start()
	host(t, s.url())
	p.finish(patience)
	if diff := cmp.Diff(evaluated(t, alone), evaluated(t, out)); diff != "" {
		t.Errorf("in one process (-), on hosts elsewhere (+):\n%s", diff)
	}
	if strings.Contains(p.said(), "secret") {
		t.Errorf("a password is told: %s", p.said())
	}
}
