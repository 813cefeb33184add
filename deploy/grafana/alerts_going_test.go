package grafana

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// Runs with something that somebody should know, each of which the test mends again.
var troubled = map[string]string{
	// Its device stops in the middle of a task: no round ends until it goes on.
	"stalls": `
clients: 0
cohort: fit
schedule: {k: fixed, k0: 100}
devices: {names: [pi1], liveness_seconds: 600}
nats: {listen: "127.0.0.1:0"}
`,
	// Its device is killed, and comes back.
	"silent": `
clients: 20
cohort: 4
schedule: {k: fixed, k0: 4}
devices: {names: [pi1], liveness_seconds: 2}
nats: {listen: "127.0.0.1:0"}
pace: 10
`,
	// Clients leave until they are told to take a single step, which takes no time in which to leave.
	"leaves": `
train: false
clients: 100
cohort: 20
schedule: {k: {rule: expression, formula: "r > 60 ? 1 : 1000"}, k0: 1000}
availability: {model: markov, on_seconds: 20, off_seconds: 1}
dropout: {when_unavailable: true}
compute: {seconds_per_step: 0.1, std: 0}
pace: 100
`,
	// A round of it takes a microsecond of virtual time, and some more of any machine's.
	"lags": `
train: false
clients: 30
cohort: 4
schedule: {k: fixed, k0: 1}
compute: {seconds_per_step: 1e-6, std: 0}
network: {model_megabits: 1e-6}
pace: 1
`,
	// A folder stands where its checkpoint is written.
	"unsaved": `
clients: 30
cohort: 4
schedule: {k: fixed, k0: 4}
checkpoint: {seconds: 1}
pace: 10
`,
}

// Alerts of a run that goes on fire where they should, and end when their cause does.
func TestAlerts_ContinuedRuns(t *testing.T) {
	slow.Test(t, "alerts wait for what lasts")
	prometheus := installed.Program(t, "prometheus", "prometheus")
	keys := t.TempDir()
	if out, err := fedpace("enroll", "--keys", keys, "pi1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at, played := map[string]string{}, map[string]*played{}
	var targets []string
	for name, config := range troubled {
		at[name] = testport.Held(t)
		played[name] = startRun(t, fmt.Sprintf("name: %s\nstop: {rounds: 1000000000}\nhttp: %q\n%s", name, at[name], config), keys, "run")
		targets = append(targets, at[name])
	}
	device := func(run string) *os.Process {
		c := fedpace("actor", "--nats", played[run].join, "--client", "pi1", "--creds", filepath.Join(keys, "pi1.creds"))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c.Process
	}
	send := func(p *os.Process, s syscall.Signal) {
		t.Helper()
		if err := p.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	stalls, silent := device("stalls"), device("silent")
	base := startPrometheus(t, prometheus, targets, []string{ // what would take minutes takes seconds
		"300)", "10)", "[5m]", "[15s]", "for: 1m", "for: 3s", "timestamp_seconds > 900", "timestamp_seconds > 25",
	})
	for name := range troubled {
		await(t, base, fmt.Sprintf(`last_over_time(fedpace_round{run=%q}[1h]) > 1`, name), true)
	}
	blocked := filepath.Join(played["unsaved"].dir, ".checkpoint.unfinished")
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	send(stalls, syscall.SIGSTOP)
	send(silent, syscall.SIGKILL)
	fired := map[string]string{
		"FedpaceRunStalled": "stalls", "FedpaceDeviceLost": "silent", "FedpaceClientsDropOut": "leaves",
		"FedpaceCheckpointOld": "unsaved", "FedpacePaceLost": "lags",
	}
	firing := func(alert string) string {
		return fmt.Sprintf(`ALERTS{alertname=%q, run=%q, alertstate="firing"}`, alert, fired[alert])
	}
	for alert := range fired {
		await(t, base, "last_over_time("+firing(alert)+"[1h])", true)
	}
	send(stalls, syscall.SIGCONT)
	device("silent")
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	send(played["lags"].process, syscall.SIGINT)
	for alert := range fired {
		await(t, base, firing(alert), false)
	}
	// What was told of each run is what it has.
	for alert, run := range fired {
		others := fmt.Sprintf(`count_over_time(ALERTS{run=%q, alertstate="firing", alertname!=%q, %s}[1h])`, run, alert, notSlow)
		if answered(base, others) == nil {
			t.Errorf("of %s is told more than %s", run, strings.TrimPrefix(alert, "Fedpace"))
		}
	}
}
