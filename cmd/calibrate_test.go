//go:build unix

package cmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/calibrate"
	"fedpace/actors/external/externaltest"
	"fedpace/experiment/fit/calibration"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/throttle"
)

// Two devices are calibrated by way of the server of their run, one of them over a slow
// link. What the link cannot carry faster does not come faster; the model that is measured
// is that of the run; and the class that is written can be run.
func TestCalibrate_Devices(t *testing.T) {
	t.Parallel()
	s := &site{T: t, dir: t.TempDir()}
	s.keys = s.path("keys")
	config := s.config("exp.yaml", "task: femnist\nclients: 20\ncohort: 5\nbatch: 8\nmodel: [flatten, dense: 8, relu, dense]\ndevices: {names: [pi1, pi2]}\nnats: {listen: '127.0.0.1:0'}\n")
	server := fedpace(t, "calibrate", "serve", "--config", config, "--keys", s.keys, "--seconds", "0.5", "--pause", "0", "--json")
	stderr, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := os.Create(s.path("measured.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	server.Stdout = stdout
	s.start(server)
	said := follow(stderr)
	s.url = said.await(t, `(nats://127\.0\.0\.1:\d+)`)[1]
	const down, up = 40, 20
	link, err := throttle.Start(throttle.Config{Server: strings.TrimPrefix(s.url, "nats://"), Download: down, Upload: up})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	results := map[string]*calibrate.Result{"pi1": {}, "pi2": {}}
	for id, at := range map[string]string{"pi1": "nats://" + link.Address(), "pi2": s.url} {
		out, stderr, exit := finish(t, fedpace(t, "calibrate", "--nats", at, "--client", id, "--creds", s.creds(id), "--seconds", "0.1", "--pause", "0.001",
			"--name", id, "--out", s.path(id+".yaml"), "--json"))
		if exit != 0 || strings.Contains(stderr, "is lost") { // the server ends with what it measures
			t.Fatalf("exit %d: %s", exit, stderr)
		}
		if err := json.Unmarshal([]byte(out), results[id]); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Wait(); err != nil {
		t.Fatalf("%v:\n%v", err, said)
	}
	for id, r := range results {
		n := r.Network
		if n == nil || len(r.Compute) != 1 || !strings.HasSuffix(r.Compute[0].Model, "flatten,dense(8),relu,dense(62)") || r.Compute[0].Batch != 8 || r.Machine.Processors < 1 {
			t.Fatalf("%s: %+v", id, r)
		}
		// The configuration's K_0 is the paper's: tasks have no more steps.
		if n.LocalSteps != 80 || r.Compute[0].Steps > 80 || !(r.Compute[0].FirstTask >= 0) {
			t.Errorf("%s: tasks have up to %d local steps, and %d were measured: %+v", id, n.LocalSteps, r.Compute[0].Steps, r.Compute[0])
		}
		if n.Params != 784*8+8+8*62+62 || n.Download.Transfers < 3 || !(n.Upload.Mbps.Value > 0) {
			t.Errorf("%s: %+v", id, n)
		}
		if _, stderr, exit := finish(t, fedpace(t, "run", "--config", s.path(id+".yaml"), "--set", "train=false", "--set", "clients=20", "--set", "cohort=5", "--set", "stop.rounds=3", "--out", s.path("run-"+id), "--quiet")); exit != 0 {
			t.Errorf("%s: %s", id, stderr)
		}
	}
	slow := results["pi1"].Network
	bits := 32 * float64(slow.Params)
	if slow.Download.ModelSeconds.Value < bits/down/1e6 || slow.Upload.ModelSeconds.Value < bits/up/1e6 {
		t.Errorf("%g bits come in %g s and go in %g s: more than the link carries", bits, slow.Download.ModelSeconds.Value, slow.Upload.ModelSeconds.Value)
	}
	text, err := os.ReadFile(s.path("measured.json"))
	if err != nil {
		t.Fatal(err)
	}
	var measured struct{ Measured []calibration.Measured }
	if err := json.Unmarshal(text, &measured); err != nil || len(measured.Measured) != 2 {
		t.Errorf("%v: %s", err, text)
	}
}

// An external trainer's steps are measured in its own process, on made samples, on its own or on
// those of the run's data, whose classes have names.
func TestCalibrate_Trainer(t *testing.T) {
	slow.Test(t, "it plays Python")
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"own.csv": "site,a,b,kind\n" + strings.Repeat("s,1,2,cat\ns,2,1,dog\n", 8),
		"own.yaml": "task: custom\ndata: {path: " + filepath.Join(dir, "own.csv") + ", client: site, features: [a, b], label: kind}\n" +
			"schedule: {k0: 1, eta0: 0.1}\ncompute.seconds_per_step: 1\nnetwork: {download_mbps: 1, upload_mbps: 1, model_megabits: exact}\nstop.rounds: 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, args := range map[string][]string{
		"on its run's":      {"--config", filepath.Join(dir, "own.yaml"), "--trainer", externaltest.Command("-model", "mlp:2,4,2"), "--batch", "4"},
		"on made samples":   {"--task", "femnist", "--trainer", femnistTrainer()},
		"on its own":        {"--trainer", externaltest.Command("-model", "mlp:784,16,62", "-own", "femnist"), "--owner", "0", "--batch", "4"},
		"of its own config": {"--config", filepath.Join(configWithTrainer(t), "exp.yaml")},
	} {
		out, stderr, exit := finish(t, fedpace(t, append([]string{"calibrate", "--seconds", "0.05", "--json", "--quiet"}, args...)...))
		var r calibrate.Result
		if err := json.Unmarshal([]byte(out), &r); exit != 0 || err != nil {
			t.Errorf("%s: exit %d, %v: %s", name, exit, err, stderr)
			continue
		}
		if c := r.Compute[0]; c.Kernel != "go1_0-cpu" || !strings.HasPrefix(c.Model, "external:") || !(c.SecondsPerStep.Value > 0) || c.PaperSeconds != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func configWithTrainer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(map[string]any{"task": "femnist", "clients": 20, "cohort": 5, "trainer": map[string]string{"command": femnistTrainer()}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "exp.yaml"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCalibrate_Mistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"--task", "quadratic"}, 2, `--task: "quadratic": want one of sent140, femnist, cifar100, shakespeare`},
		{[]string{"--task", "femnist", "--model", "mlp:4,16,3"}, 2, "--task, --model, --app and --config: want one of them"},
		{[]string{"--out", "/none/x.yaml"}, 2, "--out needs --task"},
		{[]string{"--model", "mlp:4,16,3", "--batch", "8,0"}, 2, "--batch 0: want 1 to 100000"},
		{[]string{"--model", "mlp:4", "--seconds", "0.05"}, 1, "mlp"},
		{[]string{"--pause", "-1"}, 2, "--pause -1: want 0 to 3600"},
		{[]string{"--seconds", "0"}, 2, "--seconds 0: want 0.01 to 86400"},
		{[]string{"--name", "a b"}, 2, `--name: calibrate: name: "a b" is not a name`},
		{[]string{"--nats", "nats://x:1"}, 2, "--client is missing"},
		{[]string{"--nats", "nats://x:1", "--client", "7"}, 2, "starts with '7', want a letter"},
		{[]string{"--nats", "nats://x:1", "--client", "pi", "--run", "a.b"}, 2, "--run"},
		{[]string{"--model", "mlp:4,16,3", "--seconds", "0.05", "--out", "/none/x.yaml"}, 1, "--out: open /none/x.yaml"},
		{[]string{"--config", "/none.yaml"}, 1, "/none.yaml"},
		{[]string{"serve"}, 2, "--devices is missing"},
		{[]string{"serve", "--devices", "pi"}, 2, "the devices need a server"},
		{[]string{"serve", "--devices", "pi,pi", "--listen", "127.0.0.1:0"}, 2, `"pi" is named twice`},
		{[]string{"serve", "--devices", "7", "--listen", "127.0.0.1:0"}, 2, "--devices"},
		{[]string{"serve", "--devices", "pi", "--listen", "127.0.0.1:0", "--nats", "nats://x:1"}, 2, "--nats and --listen: want one of them"},
		{[]string{"serve", "--devices", "pi", "--listen", "127.0.0.1:0", "--pause", "-1"}, 2, "--pause -1: want 0 to 3600"},
	} {
		_, stderr, exit := finish(t, fedpace(t, append([]string{"calibrate", "--quiet"}, c.args...)...))
		if exit != c.exit || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, said %q; want exit %d and one line with %q", c.args, exit, stderr, c.exit, c.want)
		}
	}
}
