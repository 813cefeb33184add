package grafana

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
)

// Kinds of runs beside those that dashboards are tried with.
const (
	devicesAlone = `
name: alone
clients: 0
cohort: fit
schedule: {k: fixed, k0: 100}
stop: {rounds: 1000000}
devices: {names: [pi1]}
nats: {listen: "127.0.0.1:0"}
`
	twoHosts = `
name: hosts
clients: 30
cohort: 4
schedule: {k: fixed, k0: 4}
stop: {rounds: 1000000}
nats: {listen: "127.0.0.1:0"}
http: "127.0.0.1:0"
pace: 10
`
	// Its learning rate is another when it has been scraped, which takes less than half a minute.
	victim = `
name: %s
clients: 30
cohort: 4
schedule: {k: fixed, k0: 4, eta: {rule: expression, formula: "r > 200 ? %g : 0.1"}}
stop: {rounds: 1000000}
http: %s
checkpoint: {seconds: 1}
pace: 10
`
)

// A run that dies, one that hangs, one that fails and one that diverges each raise their alert; going
// on ends the first two, and time the others. Nothing is said of runs of each kind that are well, or stopped.
func TestAlerts_FireAndResolve(t *testing.T) {
	slow.Test(t, "alerts wait for half a minute before they fire")
	prometheus := installed.Program(t, "prometheus", "prometheus")
	keys := t.TempDir()
	targets := startWell(t, keys)
	alone := startRun(t, devicesAlone, keys)
	background(t, "actor", "--nats", alone.join, "--client", "pi1", "--creds", filepath.Join(keys, "pi1.creds"))
	hosts := startRun(t, twoHosts, keys, "coordinator")
	var boxes []string // of which Prometheus hears, too
	for range 2 {
		boxes = append(boxes, testport.Held(t))
		background(t, "host", "--nats", hosts.join, "--creds", filepath.Join(keys, "box.creds"), "--http", boxes[len(boxes)-1])
	}
	targets["alone"], targets["hosts"] = alone.at, hosts.at
	rates, victims := map[string]float64{"dies": 0.1, "hangs": 0.1, "ends": 0.1, "fails": -1, "diverges": 1e9}, map[string]*played{}
	for name := range rates {
		targets[name] = testport.Held(t)
	}
	base := startPrometheus(t, prometheus, slices.AppendSeq(slices.Clone(boxes), maps.Values(targets)), []string{"[15m]", "[15s]"})
	for name, rate := range rates {
		victims[name] = startRun(t, fmt.Sprintf(victim, name, rate, targets[name]), keys, "run")
	}
	victims["dies"].code, victims["fails"].code, victims["diverges"].code = -1, 1, 1
	for name := range targets {
		await(t, base, fmt.Sprintf(`last_over_time(fedpace_round{run=%q}[1h]) > 1`, name), true)
	}
	for _, box := range boxes {
		await(t, base, fmt.Sprintf(`fedpace_host_jobs_total{instance=%[1]q} > 0 and on (instance) fedpace_host_job_seconds_total{instance=%[1]q} > 0 and on (instance) fedpace_host_nats_messages_total{instance=%[1]q, direction="out"} > 0`, box), true)
	}
	send := func(name string, s syscall.Signal) {
		if err := victims[name].process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	send("dies", syscall.SIGKILL)
	send("hangs", syscall.SIGSTOP)
	send("ends", syscall.SIGINT)
	fired := map[string]string{"FedpaceRunDied": "dies", "FedpaceRunHangs": "hangs", "FedpaceRunFailed": "fails", "FedpaceRunDiverged": "diverges"}
	firing := func(alert string) string {
		return fmt.Sprintf(`ALERTS{alertname=%q, run=%q, alertstate="firing"}`, alert, fired[alert])
	}
	for alert := range fired {
		await(t, base, "last_over_time("+firing(alert)+"[1h])", true)
	}
	await(t, base, `last_over_time(fedpace_run_state{run="ends", state="stopped"}[1h]) == 1 unless fedpace_run_state`, true)
	send("hangs", syscall.SIGCONT)
	background(t, "resume", victims["dies"].dir)
	for alert := range fired {
		await(t, base, firing(alert), false)
	}
	await(t, base, `fedpace_resumed_round{run="dies"} > 0`, true)
	var told struct {
		Result []struct{ Metric map[string]string }
	}
	const others = `count_over_time(ALERTS{run!~"dies|hangs|fails|diverges", alertstate="firing", ` + notSlow + `}[1h])`
	if err := get(base+"/api/v1/query?query="+url.QueryEscape(others), &told); err != nil || len(told.Result) > 0 {
		t.Errorf("of runs that are well is told %v, %v", told.Result, err)
	}
}

// notSlow leaves out what a run that is well has on a machine with other work.
const notSlow = `alertname!~"FedpacePaceLost|FedpaceRunStalled"`

// await waits until a query has an answer, or none: as long as the test may take.
func await(t *testing.T, base, expr string, answer bool) {
	t.Helper()
	deadline, limited := t.Deadline()
	for deadline = deadline.Add(-30 * time.Second); (answered(base, expr) == nil) != answer; time.Sleep(time.Second) {
		if limited && time.Now().After(deadline) {
			t.Fatalf("%s: has an answer: %v, to the end", expr, !answer)
		}
	}
}

// atOnce is a run that diverges in its first round, before any Prometheus knows of it.
const atOnce = `
name: at-once
clients: 30
cohort: 4
schedule: {k: fixed, k0: 4, eta0: 1e6}
stop: {rounds: 10}
http: %s
`

// A run that has diverged before it was scraped first still raises its alert: it serves its end until it is scraped.
func TestAlerts_DivergedBeforeScrape(t *testing.T) {
	t.Parallel()
	prometheus := installed.Program(t, "prometheus", "prometheus")
	at := testport.Held(t)
	run := startRun(t, fmt.Sprintf(atOnce, at), t.TempDir(), "run")
	run.code = 1
	// Its end is there to be read before a Prometheus is.
	for ; ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`fedpace_run_state\{.*state="diverged".*\} 1`).Match(page) {
			break
		}
	}
	base := startPrometheus(t, prometheus, []string{at}, nil)
	await(t, base, `ALERTS{alertname="FedpaceRunDiverged", run="at-once", alertstate="firing"}`, true)
}

// unrecovered is a run with secure aggregation of whose clients nearly all drop out in each round, so that none is
// recovered. Its first round has K local steps of 0.03 s, and its second does not end in the time of a test.
const unrecovered = `
name: %s
train: false
clients: 100
cohort: 10
schedule: {k: {rule: expression, formula: "r > 1 ? 1e7 : %d"}}
secure_aggregation: {on: true}
dropout: {probability: 0.97}
stop: {rounds: 2}
nats: {url: none}
http: %s
pace: 1
`

// A round that could not be recovered raises its alert, whether a Prometheus has scraped the run before it or not.
func TestAlerts_RoundNotRecovered(t *testing.T) {
	t.Parallel()
	prometheus := installed.Program(t, "prometheus", "prometheus")
	// The first round takes 9 s at the most in one run, and next to nothing in the other.
	steps := map[string]int{"after": 300, "before": 1}
	targets := map[string]string{}
	for name, k := range steps {
		targets[name] = testport.Held(t)
		startRun(t, fmt.Sprintf(unrecovered, name, k, targets[name]), t.TempDir(), "run")
	}
	// One of the two runs has its round before a Prometheus is there.
	for ; ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + targets["before"] + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`fedpace_secure_unrecovered_rounds_total\{.*\} 1\n`).Match(page) {
			break
		}
	}
	base := startPrometheus(t, prometheus, slices.Collect(maps.Values(targets)), nil)
	for name := range steps {
		await(t, base, fmt.Sprintf(`ALERTS{alertname="FedpaceRoundNotRecovered", run=%q, alertstate="firing"}`, name), true)
	}
}
