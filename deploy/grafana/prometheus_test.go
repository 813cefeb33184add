package grafana

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fedpace/cmd"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/slow"
	"fedpace/metrics"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/web"
)

const prometheusFolder = "../prometheus"

func TestPromtool(t *testing.T) {
	t.Parallel()
	promtool := installed.Program(t, "promtool", "prometheus")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "--lint-fatal", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		c := exec.CommandContext(t.Context(), promtool, args...)
		c.Dir = prometheusFolder
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	// What a run with devices and a host serve, in words that Prometheus likes.
	host := prometheus.HostPage("box", "v1", func() prometheus.HostCounts { return prometheus.HostCounts{} })
	for _, shown := range []http.Handler{withDevices(t.Context()).Handler(), host.Handler} {
		answer := httptest.NewRecorder()
		shown.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		c := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		c.Stdin = answer.Body
		if out, err := c.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
}

// withDevices is metrics that are told of a run with real devices, whose rounds
// go on until the context ends.
func withDevices(ctx context.Context) *prometheus.Metrics {
	var number atomic.Int64
	mean := round.Plan{Download: 3e8, Compute: 1e9, Upload: 1e9}
	m := prometheus.New(&metrics.Run{
		Name: "devices", Task: "femnist", Schedule: "fixed", Train: true, Clients: 10, Devices: []string{"pi1", "pi2"},
		DeviceClass: func(int) int { return -1 }, MeanPlan: func(int, int) (round.Plan, error) { return mean, nil },
		Stats: func() (metrics.Stats, bool) {
			n := number.Load()
			return metrics.Stats{Checkpoint: time.Now(), NATS: &metrics.NATSStats{}, Devices: metrics.DeviceStats{
				Present: 1, Silent: 1, Heartbeats: n, Oldest: time.Now(), Refused: 2, Held: time.Duration(n) * 1e8,
			}}, true
		},
	})
	step := func() {
		n := round.Time(number.Add(1))
		for c := range 4 {
			p := mean
			p.Compute += round.Time(c) * 1e7
			m.Task(&round.TaskReport{Client: c, LocalSteps: 8, Plan: p, End: p.Total()})
		}
		p := round.Plan{Download: 4e8, Compute: 2e9, Upload: 12e8}
		m.Task(&round.TaskReport{Client: 10, LocalSteps: 8, Plan: p, End: p.Total()})
		_ = m.Round(&metrics.Round{Report: round.Report{
			Round: int(n), Start: (n - 1) * 4e9, End: n * 4e9, LocalSteps: 8, LearningRate: 0.1, Outcomes: [round.Outcomes]int{5}, TrainingLoss: 1,
		}, Usage: &metrics.Usage{}})
	}
	step()
	go func() {
		for tick := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
				step()
			}
		}
	}()
	return m
}

// asProgram in the environment makes the test's binary fedpace itself, so that the
// tests need not link another.
const asProgram = "FEDPACE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		cmd.Main()
	}
	slow.Beside(6) // the tests wait for scrapes more than they compute
	os.Exit(m.Run())
}

// fedpace is the program with these arguments, not started yet.
func fedpace(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

// Three paced runs, one of them with a real device: what a dashboard asks for is
// in one of them.
var runs = map[string]string{
	"plain": `
name: plain
clients: 30
cohort: 5
schedule: {k: rounds, k0: 4}
stop: {rounds: 1000000}
evaluate: {every: 2, samples: 100, clients: {every: 4, samples: 10}}
pace: 10
`,
	"stragglers": `
name: stragglers
train: false
clients: 500
cohort: 40
schedule: {k: fixed, k0: 40}
stop: {rounds: 1000000}
close: {rule: deadline, seconds: 3}
nats: {url: none}
dropout: {probability: 0.05}
fleet:
  - {name: phone, weight: 3, seconds_per_step: {dist: lognormal, mean: 0.02, sigma: 0.8}, watts: 4}
  - {name: board, weight: 1, upload_mbps: {dist: lognormal, mean: 10, sigma: 1}, watts: 6}
pace: 20
`,
	"devices": `
name: devices
clients: 30
cohort: 4
schedule: {k: fixed, k0: 4}
stop: {rounds: 1000000}
evaluate: {samples: 100}
fleet: [{name: board, weight: 1, seconds_per_step: 0.02}]
devices: {names: {pi1: board}}
nats: {listen: "127.0.0.1:0"}
checkpoint: {seconds: 1}
pace: 10
`,
}

// Every query of every panel has an answer, in a Prometheus that scrapes runs as deploy/prometheus has
// it: in each run, or in one at least where the panel says for which runs it is.
func TestPanels_HaveAnswers(t *testing.T) {
	t.Parallel()
	prometheus := installed.Program(t, "prometheus", "prometheus")
	targets := startWell(t, t.TempDir())
	base := startPrometheus(t, prometheus, slices.Collect(maps.Values(targets)), nil)

	open := map[string][]string{} // queries, of which one has an answer, by where they stand
	all := slices.Collect(maps.Keys(runs))
	for _, d := range dashboards(t) {
		of := all
		switch d.UID {
		case virtualTime:
			continue
		case "fedpace-devices":
			of = []string{"devices"}
		}
		ask := func(where, expr string, each bool) {
			where = d.UID + ": " + where
			for _, run := range of {
				if each {
					open[where+" of "+run] = []string{chosen(expr, run, targets)}
				}
			}
			for _, run := range all {
				if !each {
					open[where] = append(open[where], chosen(expr, run, targets))
				}
			}
		}
		for _, a := range d.Annotations.List {
			if a.Name != "Resume" && a.Name != "Device banned" { // which no run here does
				ask(a.Name, a.Expr, false)
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				ask(p.Title+" "+q.RefID, q.Expr, !strings.Contains(strings.ToLower(p.Description), "for runs "))
			}
		}
	}
	if len(open) < 200 {
		t.Fatalf("%d queries of all dashboards", len(open))
	}
	last := map[string]error{}
	for deadline := time.Now().Add(90 * time.Second); len(open) > 0 && time.Now().Before(deadline); time.Sleep(time.Second) {
		for where, exprs := range open {
			for _, expr := range exprs {
				last[where] = answered(base, expr)
				if last[where] == nil {
					delete(open, where)
					break
				}
			}
		}
	}
	for where, expr := range open {
		t.Errorf("%s\n  %s\n  %v", where, expr, last[where])
	}
	for label, match := range map[string]string{"run": "fedpace_round", "schedule": `fedpace_round{run="plain"}`} {
		var values []string
		if err := get(base+"/api/v1/label/"+label+"/values?match[]="+url.QueryEscape(match), &values); err != nil || len(values) == 0 {
			t.Errorf("variable %s: %v, %v", label, values, err)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := get(base+"/api/v1/rules", &rules); err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
		t.Fatalf("rules %+v, %v", rules, err)
	}
	for _, r := range rules.Groups[0].Rules {
		if r.Health == "err" {
			t.Errorf("rule %s: %s", r.Name, r.LastError)
		}
	}
	if err := answered(base, `ALERTS{alertstate="firing", `+notSlow+`}`); err == nil {
		t.Error("an alert about runs that are well")
	}
}

// A Prometheus that takes native histograms gets them: quantiles need no buckets
// of their own.
func TestNativeHistograms_Arrive(t *testing.T) {
	t.Parallel()
	prometheus := installed.Program(t, "prometheus", "prometheus")
	server, err := web.Serve(t.Context(), "127.0.0.1:0", web.Page{Path: "/metrics", Handler: withDevices(t.Context()).Handler()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	base := startPrometheus(t, prometheus, []string{server.Addr()}, nil, "--enable-feature=native-histograms")
	for _, expr := range []string{
		`histogram_quantile(0.5, fedpace_client_phase_seconds{phase="compute", kind="real"}) > 1.9 < 2.1`, // 2 s
		`histogram_count(fedpace_round_duration_seconds) > 0`,
	} {
		var problem error
		for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
			problem = answered(base, expr)
			if problem == nil {
				break
			}
		}
		if problem != nil {
			t.Errorf("%s: %v", expr, problem)
		}
	}
}

// background has a host or a device work until the test ends.
func background(t *testing.T, args ...string) {
	t.Helper()
	var said bytes.Buffer
	c := fedpace(args...)
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt) // it may have ended: then what it said matters
		if err := c.Wait(); err != nil || t.Failed() {
			t.Logf("%v: %v\n%s", args, err, said.String())
		}
	})
}

// startWell starts runs that are well, with a device where one can join, and returns where they are
// scraped, by their names.
func startWell(t *testing.T, keys string) map[string]string {
	t.Helper()
	for _, args := range [][]string{{"pi1"}, {"--host", "box"}} {
		if out, err := fedpace(append([]string{"enroll", "--keys", keys}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	targets := map[string]string{}
	for name, config := range runs {
		r := startRun(t, config, keys)
		targets[name] = r.at
		if r.join != "" {
			background(t, "actor", "--nats", r.join, "--client", "pi1", "--creds", filepath.Join(keys, "pi1.creds"))
		}
	}
	return targets
}

// played is a paced run.
type played struct {
	at, join string // where it is scraped, and where devices and hosts join it, if they do
	dir      string
	process  *os.Process
	code     int // with which it is to end, by an interrupt unless it has ended by then; -1: any
}

// startRun starts a run by "fedpace run", or by the command that is given.
func startRun(t *testing.T, config, keys string, command ...string) *played {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(path, []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	r := &played{dir: filepath.Join(dir, "out"), code: 130}
	if command == nil {
		command = []string{"run", "--set", "http=127.0.0.1:0"}
	}
	c := fedpace(append(command, "--config", path, "--out", r.dir, "--keys", keys)...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r.process = c.Process
	found, ended := make(chan struct{}), make(chan struct{})
	var said []string
	go func() {
		defer close(ended)
		page, server := regexp.MustCompile(`http://([^/\s]+)`), regexp.MustCompile(`nats://\S+`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said = append(said, lines.Text())
			if m := page.FindStringSubmatch(lines.Text()); m != nil && r.at == "" {
				r.at = m[1]
				close(found)
			} else if r.at == "" { // where to join comes first
				r.join = cmp.Or(server.FindString(lines.Text()), r.join)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt) // it may have ended: then what it said matters
		_ = c.Process.Signal(syscall.SIGCONT)
		<-ended
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); r.code >= 0 && code != r.code {
			t.Errorf("a run ended with %d:\n%s%s", code, config, strings.Join(said, "\n"))
		}
	})
	select {
	case <-found:
	case <-ended:
		t.Fatalf("a run ended: %s%s", config, strings.Join(said, "\n"))
	case <-time.After(60 * time.Second):
		t.Fatalf("a run is not served: %s", config)
	}
	return r
}

// startPrometheus starts one with the files of deploy/prometheus, scraping the
// targets each second, and returns its address. sooner are times of the alerts, each with another.
func startPrometheus(t *testing.T, program string, targets, sooner []string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yml", "alerts.yml"} {
		text, err := os.ReadFile(filepath.Join(prometheusFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("scrape_interval: 2s"), []byte("scrape_interval: 1s"), 1)
		text = bytes.Replace(text, []byte("scrape_timeout: 2s"), []byte("scrape_timeout: 1s"), 1)
		text = []byte(strings.NewReplacer(sooner...).Replace(string(text)))
		text = bytes.Replace(text, []byte("scrape_duration_seconds > 1.9"), []byte("scrape_duration_seconds > 0.9"), 2)
		text = bytes.Replace(text, []byte("evaluation_interval: 5s"), []byte("evaluation_interval: 1s"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	list := "- targets: [" + strings.Join(targets, ", ") + "]\n"
	if err := os.WriteFile(filepath.Join(dir, "targets.yml"), []byte(list), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	c := exec.Command(program, append(flags, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)...)
	c.Stderr = &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil || t.Failed() {
			t.Logf("prometheus: %v\n%s", err, log.String())
		}
	})
	base := "http://" + addr
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(base + "/-/ready")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return base
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("prometheus does not get ready: %v\n%s", err, log.String())
		}
	}
}

// chosen is a panel's query of a run.
func chosen(expr, run string, targets map[string]string) string {
	schedule := "fixed"
	if run == "plain" {
		schedule = "rounds"
	}
	return strings.NewReplacer("$run", run, "$schedule", schedule, "$seed", "1", "$instance", targets[run], "$__rate_interval", "6s").Replace(expr)
}

// answered says whether a query has a number.
func answered(base, expr string) error {
	var result struct {
		Result []struct {
			Value [2]any
		}
	}
	if err := get(base+"/api/v1/query?query="+url.QueryEscape(expr), &result); err != nil {
		return err
	}
	for _, r := range result.Result {
		text, _ := r.Value[1].(string)
		if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return nil
		}
	}
	return errors.New("no number")
}

// get reads the data of an answer of Prometheus' API.
func get(address string, data any) error {
	response, err := http.Get(address)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}
