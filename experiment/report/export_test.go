package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/deploy/grafana/dashboards"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/internal/atomicfile"
	"fedpace/internal/testkit/installed"
	"fedpace/internal/testkit/testport"
	"fedpace/learn/metric"
	"fedpace/metrics/eventlog"
)

// prometheusOn starts a Prometheus on a folder of blocks and returns its
// address.
func prometheusOn(t *testing.T, program, blocks string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte("storage: {tsdb: {out_of_order_time_window: 1d}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := testport.Held(t)
	ctx, stop := context.WithCancel(context.Background())
	var said bytes.Buffer
	server := exec.CommandContext(ctx, program, append(flags, "--config.file="+config, "--storage.tsdb.path="+blocks, "--web.listen-address="+addr, "--storage.tsdb.retention.time=100y")...)
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = 10 * time.Second
	if err := server.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		serves := sync.OnceFunc(func() { close(ready) })
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if strings.Contains(lines.Text(), "Server is ready to receive web requests") {
				serves()
			}
		}
		_ = server.Wait() // it is told to end
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("prometheus said:\n%s", said.String())
		}
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatal("prometheus ended before it was ready")
	}
	return addr
}

// scraped is a sample: milliseconds since 1970 and its value.
type scraped struct {
	At    int64
	Value float64
}

// query reads all samples of a selector up to a time, by the labels that tell
// its series apart.
func query(t *testing.T, addr, selector, apart string, until time.Time, over time.Duration) map[string][]scraped {
	t.Helper()
	q := url.Values{"query": {fmt.Sprintf("%s[%dms]", selector, over.Milliseconds())}, "time": {fmt.Sprintf("%.3f", float64(until.UnixMilli())/1e3)}}
	r, err := http.Get("http://" + addr + "/api/v1/query?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status string
		Data   struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%v: %s", err, text)
	}
	found := map[string][]scraped{}
	for _, series := range answer.Data.Result {
		for _, v := range series.Values {
			var value float64
			if _, err := fmt.Sscan(v[1].(string), &value); err != nil {
				t.Fatal(err)
			}
			at := int64(math.Round(v[0].(float64) * 1000))
			found[series.Metric[apart]] = append(found[series.Metric[apart]], scraped{at, value})
		}
	}
	return found
}

// A finished run is loaded into a real Prometheus, and its curves are read back
// as rounds.csv has them.
func TestExport_CurvesInPrometheus(t *testing.T) {
	promtool, prometheus := installed.Program(t, "promtool", "prometheus"), installed.Program(t, "prometheus", "prometheus")
	c := runtest.Small(t, "stop.rounds=12", "evaluate.every=4", "close={rule: first, n: 7}")
	mustRun(t, c, run.Options{})
	file := filepath.Join(t.TempDir(), folder.OpenMetricsFile)
	epoch := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	var e Exported
	if err := atomicfile.Write(file, func(w io.Writer) (err error) {
		e, err = ExportOpenMetrics(c.Out, w, epoch)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	blocks := t.TempDir()
	if said, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", file, blocks).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, said)
	}
	addr := prometheusOn(t, prometheus, blocks)

	reports, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) != 12 || e.Rounds != 12 || !e.Begin.Equal(epoch) {
		t.Fatalf("%d rounds, exported %+v", len(reports), e)
	}
	at := func(t round.Time) int64 { return epoch.UnixMilli() + int64(t)/1e6 }
	want := map[string][]scraped{}
	sum := [round.Outcomes]float64{}
	losses := schedule.NewWindow(schedule.WindowConfig{Size: c.Schedule.Window})
	add := func(name string, at int64, value float64) {
		if !math.IsNaN(value) {
			want[name] = append(want[name], scraped{at, value})
		}
	}
	for i := range reports {
		r := &reports[i]
		add("round", at(r.End), float64(r.Round))
		add("round_duration_seconds", at(r.End), (r.End - r.Start).Seconds())
		add("local_steps", at(r.Start), float64(r.LocalSteps))
		add("learning_rate", at(r.Start), r.LearningRate)
		add("training_loss", at(r.End), r.TrainingLoss)
		losses.Observe(r.TrainingLoss)
		add("window_loss", at(r.End), losses.Mean())
		add("validation_loss", at(r.End), r.ValidationLoss)
		add("validation_accuracy", at(r.End), metric.ValueAt(r.Metrics, 0))
		add("sgd_steps_total", at(r.End), float64(r.SGDSteps))
		for o, n := range r.Outcomes {
			sum[o] += float64(n)
			add("updates_total "+round.Outcome(o).String(), at(r.End), sum[o])
		}
	}
	if len(want) != 9+round.Outcomes {
		t.Fatalf("%d series to find", len(want))
	}
	got := map[string][]scraped{}
	for _, name := range []string{"round", "round_duration_seconds", "local_steps", "learning_rate", "training_loss", "window_loss", "validation_loss", "validation_accuracy", "sgd_steps_total", "updates_total"} {
		selector := fmt.Sprintf(`fedpace_virtual_%s{clock="virtual",run="demo",task="femnist",schedule="rounds",seed="1"}`, name)
		for apart, points := range query(t, addr, selector, "outcome", e.End.Add(time.Second), time.Hour) {
			got[strings.TrimSpace(name+" "+apart)] = points
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	// The dashboard for virtual time shows the run.
	text, err := dashboards.Files.ReadFile("fedpace-virtual.json")
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	for _, p := range shown.Panels {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$run", c.Name, "$schedule", ".*", "$seed", "1").Replace(q.Expr)
			if len(query(t, addr, expr, "outcome", e.End.Add(time.Second), time.Hour)) == 0 {
				t.Errorf("panel %s is empty: %s", p.Title, expr)
			}
		}
	}
}

// What runs write into a real Prometheus while they go on is what a backfill has, also of one whose
// time lies hours before that of another, and of one that is interrupted and resumed.
func TestExport_RemoteWrite(t *testing.T) {
	promtool, prometheus := installed.Program(t, "promtool", "prometheus"), installed.Program(t, "prometheus", "prometheus")
	live := prometheusOn(t, prometheus, t.TempDir(), "--web.enable-remote-write-receiver")
	now := time.Now().UTC().Truncate(time.Second)
	for name, ago := range map[string]time.Duration{"a": time.Hour, "b": 9 * time.Hour} {
		epoch := now.Add(-ago)
		c := runtest.Small(t, "name="+name, "stop.rounds=12", "evaluate.every=4", "close={rule: first, n: 7}",
			fmt.Sprintf("outputs=[{sink: remote_write, url: http://%s, epoch: %s}]", live, epoch.Format(time.RFC3339)))
		o := run.Options{Callbacks: run.Callbacks{Notice: func(line string) {
			if strings.HasPrefix(line, "remote_write") {
				t.Error(line)
			}
		}}}
		if name == "b" {
			o.Until = 10
			if _, err := run.Run(t.Context(), c, o); err == nil {
				t.Fatal("the run is not interrupted")
			}
			o.Until = 0
			if _, err := run.Resume(t.Context(), c.Out, o); err != nil {
				t.Fatal(err)
			}
		} else {
			mustRun(t, c, o)
		}
		file, blocks := filepath.Join(t.TempDir(), folder.OpenMetricsFile), t.TempDir()
		if err := atomicfile.Write(file, func(w io.Writer) error {
			_, err := ExportOpenMetrics(c.Out, w, epoch)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", file, blocks).CombinedOutput(); err != nil {
			t.Fatalf("promtool: %v\n%s", err, said)
		}
		backfilled := prometheusOn(t, prometheus, blocks)
		for selector, apart := range map[string]string{`{run=%q,outcome="",metric=""}`: "__name__", `{run=%q,outcome!=""}`: "outcome", `{run=%q,metric!=""}`: "metric"} {
			selector = fmt.Sprintf(selector, name)
			want := query(t, backfilled, selector, apart, epoch.Add(10*time.Minute), 10*time.Minute+time.Second)
			if diff := cmp.Diff(want, query(t, live, selector, apart, epoch.Add(10*time.Minute), 10*time.Minute+time.Second)); diff != "" || len(want) == 0 {
				t.Errorf("%s: %d series: %s", selector, len(want), diff)
			}
		}
	}
}

func TestExport_Trace(t *testing.T) {
	c := runtest.Uneven(t)
	s := mustRun(t, c, run.Options{})
	var b bytes.Buffer
	whole, torn, err := ExportTrace(c.Out, &b, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Rounds != s.Rounds || whole.Tasks != 20*s.Rounds || whole.Clients < 20 || torn {
		t.Errorf("%+v of %d rounds", whole, s.Rounds)
	}
	part, _, err := ExportTrace(c.Out, io.Discard, 2, 3)
	if err != nil || part.Rounds != 2 || part.Tasks != 40 {
		t.Errorf("%+v, %v", part, err)
	}

	// The same run, killed while it wrote.
	log := filepath.Join(c.Out, eventlog.File)
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(log, info.Size()-7); err != nil {
		t.Fatal(err)
	}
	if written, torn, err := ExportTrace(c.Out, io.Discard, 0, 0); err != nil || !torn || written.Rounds != s.Rounds-1 {
		t.Errorf("%+v, %v", torn, err)
	}
}

func TestExport_Impossible(t *testing.T) {
	empty := t.TempDir()
	quiet := runtest.Small(t, "train=false", "events.sample=off")
	mustRun(t, quiet, run.Options{})
	broken := runtest.Small(t, "train=false")
	mustRun(t, broken, run.Options{})
	if err := os.WriteFile(filepath.Join(broken.Out, eventlog.File), []byte("FPEVENTS\x01\x00\x00\x00and something else"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken.Out, folder.RoundsFile), []byte(folder.RoundsHeader("accuracy")+"\n1,x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, dir, trace, metrics string }{
		{"no run", empty, "holds no run", "holds no run"},
		{"no log", quiet.Out, "holds no events.log: the run kept none", ""},
		{"damaged", broken.Out, "the event log is damaged at byte 12", folder.RoundsFile + ":2"},
	} {
		_, _, err := ExportTrace(test.dir, io.Discard, 0, 0)
		if err == nil || !strings.Contains(err.Error(), test.trace) {
			t.Errorf("%s: trace: %v", test.name, err)
		}
		_, err = ExportOpenMetrics(test.dir, io.Discard, time.Time{})
		if test.metrics == "" && err != nil || test.metrics != "" && (err == nil || !strings.Contains(err.Error(), test.metrics)) {
			t.Errorf("%s: openmetrics: %v", test.name, err)
		}
	}
	if err := atomicfile.Write(filepath.Join(empty, "x"), func(io.Writer) error { return errFull }); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

var errFull = errors.New("no space left")

func mustRun(t testing.TB, c config.Config, o run.Options) folder.Summary {
	t.Helper()
	s, err := run.Run(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
