//go:build unix

package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/external/externaltest"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
)

// homes is the configuration of examples/regression in few rounds, without its model
// and its end.
func homes(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../examples/regression")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "regression.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config, _, found := strings.Cut(strings.NewReplacer("path: ", "path: "+folder+"/", "model: [dense]\n", "").Replace(string(text)), "stop:")
	if !found {
		t.Fatalf("no stop in %s", text)
	}
	return config + "cohort: 4\n"
}

// measures fails unless a run is measured by its mean absolute error alone.
func measures(t *testing.T, s folder.Summary) {
	t.Helper()
	if s.ValidationAccuracy != nil || len(s.Metrics) != 1 || s.Metrics[0].Name != "mean_absolute_error" || s.Metrics[0].Better != metric.Lower || *s.Metrics[0].Best <= 0 {
		t.Errorf("an accuracy of %v, and metrics %+v", s.ValidationAccuracy, s.Metrics)
	}
}

// A regression is one thing from a CSV file, from the prepared file of it, and through a
// trainer of another process, which reads the columns by the mapping. All that is said
// about it names its metric, and no accuracy.
func TestRegression_OwnData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := homes(t) + "stop: {rounds: 6}\n"
	putFile(t, at("homes.yaml"), []byte(text))
	putFile(t, at("linear.yaml"), []byte(text+"model: [dense]\n"))
	run := func(config, name string, more ...string) folder.Summary {
		t.Helper()
		args := append([]string{"run", "--config", at(config), "--out", at(name)}, more...)
		status, stdout, stderr := callAll(t, args...)
		if status != 0 {
			t.Fatal(stderr)
		}
		if said := strings.ToLower(stdout + stderr); !strings.Contains(said, "mean_absolute_error") || strings.Contains(said, "accuracy") {
			t.Errorf("%s says:\n%s%s", name, stdout, stderr)
		}
		s, err := folder.ReadSummary(filepath.Join(at(name), folder.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		measures(t, s)
		return s
	}
	want := run("linear.yaml", "csv")
	prepared := at("homes.fedpace")
	status, stdout, stderr := callAll(t, "data", "prepare", "--config", at("linear.yaml"), "--out", prepared)
	if status != 0 {
		t.Fatal(stderr)
	}
	has(t, stdout, "target price 35 to 449.2, quartiles 132.7, 229.7, 309.3\n", "use        fedpace run --config "+at("linear.yaml")+" --set data="+prepared+"\n")
	for name, got := range map[string]folder.Summary{
		"prepared": run("linear.yaml", "prepared", "--set", "data="+prepared),
		"trainer":  run("homes.yaml", "trainer", "--trainer", externaltest.Command("-model", "layers:values=4,targets=1;dense(1)")),
	} {
		if got.Fingerprint != want.Fingerprint || *got.ModelSHA256 != *want.ModelSHA256 || *got.Metrics[0].Validation != *want.Metrics[0].Validation {
			t.Errorf("%s: history %s, model %s; want %s, %s", name, got.Fingerprint, *got.ModelSHA256, want.Fingerprint, *want.ModelSHA256)
		}
	}
}

// A real device trains beside simulated clients on a regression's table of its own.
func TestRegression_Device(t *testing.T) {
	t.Parallel()
	s := siteOf(t, homes(t)+"model: [dense]\nstop: {rounds: 3}\ndevices: {names: [pi], liveness_seconds: 300}\n")
	table := filepath.Join(s.dir, "own.csv")
	putFile(t, table, []byte("price;age;area;rooms;distance\n300.5;20;100.5;4;3.2\n150;55;60;2;9.5\n210.5;40;80;3;6\n90;60;35.5;1;4\n"))
	device := fedpace(t, "actor", "--nats", s.url, "--client", "pi", "--creds", s.creds("pi"), "--once", "--data", table)
	device.Stderr = os.Stderr
	s.start(device)
	summary := s.end()
	measures(t, summary)
	if _, real := s.tasks("run"); len(real) != 3 || summary.Outcomes[round.Accepted] != 3*(4+1) {
		t.Errorf("%d tasks of the device, outcomes %v:\n%v", len(real), summary.Outcomes, s.lines)
	}
	if err := device.Wait(); err != nil {
		t.Errorf("the device ends with %v", err)
	}
}

// The example's model in PyTorch learns from the table by the mapping.
func TestRegression_Python(t *testing.T) {
	slow.Test(t, "it plays a trainer in Python")
	t.Parallel()
	python := installed.Python(t, "torch")
	dir := t.TempDir()
	config, out := filepath.Join(dir, "homes.yaml"), filepath.Join(dir, "run")
	putFile(t, config, []byte(homes(t)+"stop: {rounds: 10}\n"))
	s := ends(t, out, "run", "--quiet", "--config", config, "--out", out, "--trainer", python+" ../examples/regression/prices.py", "--set", "nats.url=none")
	measures(t, s)
	if best := *s.Metrics[0].Best; best > 30 {
		t.Errorf("a mean absolute error of %g, where prices deviate by 103", best)
	}
}
