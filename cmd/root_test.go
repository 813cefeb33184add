package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"fedpace/cmd/internal/cli"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/experiment/run"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/study"
)

// recorder is a program that runs nothing and notes what it was asked for.
type recorder struct {
	configs   []config.Config
	options   run.Options
	schedules []string
	summary   folder.Summary
	err       error
}

func (r *recorder) program() program {
	return program{
		run: func(_ context.Context, c config.Config, o run.Options) (folder.Summary, error) {
			r.configs, r.options = append(r.configs, c), o
			return r.summary, r.err
		},
		dryRun: func(_ context.Context, c config.Config, o run.Options) (forecast.Forecast, error) {
			return forecast.Forecast{Config: c}, r.err
		},
		compare: func(_ context.Context, p study.Plan, o study.Options) (*study.Comparison, error) {
			r.options, r.schedules = o.Run, p.Schedules
			if _, err := p.Cells(); err != nil {
				return nil, err
			}
			return &study.Comparison{Reference: "fixed"}, r.err
		},
		plan: library.plan,
	}
}

func call(t *testing.T, r *recorder, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, signal := context.WithCancel(t.Context())
	defer signal()
	if errors.Is(r.err, context.Canceled) {
		signal()
	}
	status = execute(ctx, r.program(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestRun_WithoutArguments(t *testing.T) {
	r := &recorder{}
	if status, _, stderr := call(t, r, "run"); status != 0 || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	if diff := cmp.Diff([]config.Config{config.Demonstration()}, r.configs); diff != "" {
		t.Error(diff)
	}
	if r.options.Force || r.options.Progress == nil || r.options.Version == "" {
		t.Errorf("options %+v", r.options)
	}
}

func TestRun_Flags(t *testing.T) {
	r := &recorder{}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("exp.yaml", []byte("task: sent140\nseed: 7\nout: a\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := call(t, r, "run", "--config", "exp.yaml", "--set", "schedule={k: error, k0: 9}", "--set", "stop.rounds=5", "--out", "b", "--force")
	if status != 0 {
		t.Fatal(stderr)
	}
	c := r.configs[0]
	if c.Task != config.TaskSent140 || c.Seed != 7 || c.Schedule.Name() != "error" || c.Schedule.K0 != 9 || c.Stop.Rounds != 5 || c.Out != "b" || !r.options.Force {
		t.Errorf("got %+v, %+v", c, r.options)
	}
}

func TestCompare_Schedules(t *testing.T) {
	r := &recorder{}
	status, stdout, stderr := call(t, r, "compare", "--set", "task=femnist", "--schedules", "dsgd,fixed,rounds,error,step")
	if status != 0 {
		t.Fatal(stderr)
	}
	if diff := cmp.Diff([]string{"dsgd", "fixed", "rounds", "error", "step"}, r.schedules); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(stdout, "schedule") {
		t.Errorf("no table: %s", stdout)
	}
	own := []string{"fixed", "mine=max(5,k0/(1+t/5))", "half={k: {power: 1/2}, eta0: 0.1}", "error"}
	if status, _, stderr := call(t, r, "compare", "--set", "schedule.k=error", "--schedules", strings.Join(own[:2], ","), "--schedules", strings.Join(own[2:], ",")); status != 0 {
		t.Error(stderr)
	}
	if diff := cmp.Diff(own, r.schedules); diff != "" {
		t.Error(diff)
	}
}

// fullDisk is the error of a run of which three writers found the disk full.
var fullDisk = errors.Join(
	fmt.Errorf("output events: %w", &os.PathError{Op: "write", Path: "events.log", Err: syscall.ENOSPC}),
	fmt.Errorf("output tables: results: %w", &os.PathError{Op: "write", Path: "rounds.csv", Err: syscall.ENOSPC}),
	errors.Join(fmt.Errorf("results: %w", &os.PathError{Op: "write", Path: "events.log", Err: syscall.ENOSPC})),
	errors.New("go on"),
)

// The statuses and the one line that a mistake gives.
func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   []string
		err    error
		status int
		want   string
	}{
		{"unknown command", []string{"rnu"}, nil, 2, `fedpace: unknown command "rnu" for "fedpace" (did you mean run?) (see fedpace --help)`},
		{"a command like no other", []string{"quantise"}, nil, 2, `fedpace: unknown command "quantise" for "fedpace" (see fedpace --help)`},
		{"a mistyped flag", []string{"compare", "--seed", "5"}, nil, 2, `fedpace: unknown flag: --seed (did you mean --seeds?) (see fedpace compare --help)`},
		{"a key in the place of a flag", []string{"run", "--cohort", "5"}, nil, 2, `fedpace: unknown flag: --cohort (did you mean --set cohort=VALUE?) (see fedpace run --help)`},
		{"a grid of no key", []string{"compare", "--grid", "chort=3,4"}, nil, 1, `fedpace: --grid chort: unknown key (did you mean "cohort"?)`},
		{"a grid of a wrong value", []string{"compare", "--grid", "cohort=0,4"}, nil, 1, `fedpace: --grid cohort: 0 is out of range (a whole number from 1 to 1000000)`},
		{"a grid that is no YAML", []string{"compare", "--grid", `cohort="4,5`}, nil, 1, `fedpace: --grid cohort: not YAML: could not find end character of double-quoted text`},
		{"no such shell", []string{"completion", "foo"}, nil, 2, `fedpace: unknown command "foo" for "fedpace completion" (see fedpace completion --help)`},
		{"a flag that is no number", []string{"compare", "--seeds", "x"}, nil, 2, `fedpace: --seeds: "x" is not a whole number (see fedpace compare --help)`},
		{"a tag of two words", []string{"run", "--tag", "y z"}, nil, 2, `fedpace: --tag: "y z" is not a tag (1 to 64 letters, digits and . _ : = / + -, the first a letter or digit) (see fedpace run --help)`},
		{"no name", []string{"run", "--name", ""}, nil, 2, `fedpace: --name: "" is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit) (see fedpace run --help)`},
		{"unknown flag", []string{"run", "--fast"}, nil, 2, `fedpace: unknown flag: --fast (see fedpace run --help)`},
		{"flag without its value", []string{"run", "--set"}, nil, 2, `fedpace: flag needs an argument: --set (see fedpace run --help)`},
		{"an argument too many", []string{"run", "exp.yaml"}, nil, 2, `fedpace: fedpace run takes no argument, found "exp.yaml" (did you mean --config exp.yaml?) (see fedpace run --help)`},
		{"a set without a value", []string{"run", "--set", "cohort"}, nil, 2, `fedpace: --set: "cohort": want key=value, e.g. schedule.k=error (see fedpace run --help)`},
		{"a schedule that --schedules overrides", []string{"compare", "--set", "schedule.k=error"}, nil, 2,
			"fedpace: --set schedule.k=error: --schedules fixed,rounds takes its place (write --schedules 'fixed,rounds,error' to compare it, too, or choose by --schedules alone) (see fedpace compare --help)"},
		{"a schedule in a map that --schedules overrides", []string{"plan", "--set", "schedule={k0: 7, k: error}", "--schedules", "fixed"}, nil, 2, "fedpace: --set schedule={k0: 7, k: error}: --schedules fixed takes its place (write --schedules 'fixed,error' to compare it, too, or choose by --schedules alone) (see fedpace plan --help)"},
		{"a bracket in a schedule", []string{"compare", "--schedules", "fixed,mine=max(5"}, nil, 2, `fedpace: invalid argument "fixed,mine=max(5" for "--schedules" flag: a bracket is not closed (see fedpace compare --help)`},
		{"a misspelt schedule", []string{"compare", "--schedules", "round"}, nil, 2, `fedpace: --schedules: "round" is not a schedule (did you mean "rounds"?) (see fedpace compare --help)`},
		{"a wrong key", []string{"run", "--set", "chort=3"}, nil, 1, `fedpace: --set chort: unknown key (did you mean "cohort"?)`},
		{"a wrong value", []string{"compare", "--set", "cohort=0"}, nil, 1, `fedpace: --set cohort: 0 is out of range (a whole number from 1 to 1000000)`},
		{"no such file", []string{"run", "--config", "none.yaml"}, nil, 1, `fedpace: configuration: open none.yaml: no such file or directory`},
		{"a run that fails twice", []string{"run"}, errors.Join(errors.New("diverged"), errors.New("disk full")), 1, `fedpace: diverged; disk full`},
		{"a run that fails twice by one cause", []string{"run"}, errors.Join(errors.New("disk full"), errors.New("disk full")), 1, `fedpace: disk full`},
		{"a run on a full disk", []string{"run"}, fullDisk, 1, `fedpace: output events: write events.log: no space left on device; go on`},
		{"a paper's server that is none", []string{"paper", "--nats", "server"}, nil, 2, `fedpace: --nats: "server" is not a NATS server's URL (nats://host:4222) (see fedpace paper --help)`},
		{"hosts for a paper that trains nothing", []string{"paper", "--timing", "--nats", "nats://server"}, nil, 2, `fedpace: --timing trains nothing that hosts could do: leave out --nats (see fedpace paper --help)`},
		{"verdicts of two folders", []string{"paper", "--verdicts", "--from", "a", "--from", "b"}, nil, 2, `fedpace: --verdicts: want one --from, the folder of claims.yaml (see fedpace paper --help)`},
		{"no runs side by side", []string{"paper", "--beside", "0"}, nil, 2, `fedpace: --beside 0: want more than 0 (see fedpace paper --help)`},
		{"an interruption before anything", []string{"run"}, fmt.Errorf("preparing: %w", context.Canceled), 130, `fedpace: interrupted: nothing was written`},
		{"an interrupted dry run", []string{"run", "--dry-run"}, fmt.Errorf("forecast: %w", context.Canceled), 130, `fedpace: interrupted: nothing was written`},
		{"an interrupted comparison", []string{"compare"}, fmt.Errorf("compare: fixed: %w", context.Canceled), 130, `fedpace: interrupted: what was done is in runs/demo-compare, the same command goes on`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			status, stdout, stderr := call(t, &recorder{err: test.err}, test.args...)
			if status != test.status || stdout != "" || stderr != test.want+"\n" {
				t.Errorf("status %d, want %d\nstdout %q\n got %s\nwant %s", status, test.status, stdout, stderr, test.want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestRun_InterruptedIsSummarised(t *testing.T) {
	r := &recorder{err: errors.Join(context.Canceled, errors.New("disk full")), summary: folder.Summary{Version: "v", Rounds: 3}}
	status, stdout, stderr := call(t, r, "run")
	if status != 130 || stderr != "fedpace: interrupted: what was done is in runs/demo, to go on: fedpace resume runs/demo; disk full\n" {
		t.Errorf("status %d, %s", status, stderr)
	}
	if !strings.Contains(stdout, "stopped before its end") {
		t.Errorf("no summary: %s", stdout)
	}
}

func TestHelp_Examples(t *testing.T) {
	for _, c := range append(rootCommand(program{}).Commands(), rootCommand(program{})) {
		if !c.Runnable() {
			continue // a page of help
		}
		if !strings.Contains(c.Example, "fedpace") {
			t.Errorf("%s has no example", c.Name())
		}
		status, stdout, _ := call(t, &recorder{}, c.Name(), "--help")
		if shown := strings.ReplaceAll(stdout, " \\\n     ", ""); c.HasParent() && (status != 0 || !strings.Contains(shown, c.Example)) {
			t.Errorf("%s --help does not show it: %s", c.Name(), stdout)
		}
	}
	status, stdout, _ := call(t, &recorder{}, "help", "configuration")
	if status != 0 || !strings.Contains(stdout, "stop.equal_runtime_rounds") {
		t.Errorf("status %d: %s", status, stdout)
	}
	status, stdout, _ = call(t, &recorder{}, "version")
	if status != 0 || !strings.HasPrefix(stdout, "fedpace ") {
		t.Errorf("status %d: %s", status, stdout)
	}
	if status, flag, _ := call(t, &recorder{}, "--version"); status != 0 || flag != stdout {
		t.Errorf("--version: status %d, %q, and the command says %q", status, flag, stdout)
	}
}

// No line of help is wider than a page of 80 columns, but for examples that a shell could
// not read otherwise.
func TestHelp_FitsPage(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		args := append(strings.Fields(c.CommandPath())[1:], "--help")
		status, stdout, stderr := call(t, &recorder{}, args...)
		if status != 0 {
			t.Fatalf("%v: %s", args, stderr)
		}
		for line := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(c.Example, strings.TrimSpace(line)) {
				t.Errorf("%v: a line of %d columns: %s", args, n, line)
			}
		}
		for _, below := range c.Commands() {
			if below.Hidden { // it answers with what to use in its place
				continue
			}
			check(below)
		}
	}
	check(rootCommand(program{}))
	if _, stdout, _ := call(t, &recorder{}, "help", "schedule.k"); !strings.Contains(stdout, "schedule.k.formula") {
		t.Errorf("no help on a key: %s", stdout)
	}
	for topic, near := range map[string]string{"shcedule": "schedule", "compar": "compare", "data.pth": "data.path"} {
		if status, _, stderr := call(t, &recorder{}, "help", topic); status != 2 || !strings.Contains(stderr, "did you mean "+near+"?") {
			t.Errorf("help on %s: status %d, %s", topic, status, stderr)
		}
	}
}

// What a dry run prints is a configuration that can be run.
func TestRun_DryRun(t *testing.T) {
	r := &recorder{}
	status, stdout, stderr := call(t, r, "run", "--dry-run", "--set", "seed=5")
	if status != 0 || len(r.configs) > 0 {
		t.Fatalf("status %d, %d runs, %s", status, len(r.configs), stderr)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(stdout), 0o666); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load(path, nil); err != nil || c.Seed != 5 {
		t.Errorf("seed %d, %v", c.Seed, err)
	}
}

func TestSummary_Closing(t *testing.T) {
	var b bytes.Buffer
	s := folder.Summary{
		Task: "femnist", Schedule: "rounds", Seed: 1, Completed: true, Rounds: 1040, VirtualSeconds: 95.5, WallSeconds: 26,
		SGDSteps: 1110, RelativeSGDSteps: metrics.Measured(0.35), TrainingLoss: metrics.Measured(2.5), BestTrainingLoss: metrics.Measured(2.25),
		ValidationLoss: metrics.Measured(2.125), ValidationAccuracy: metrics.Measured(0.5), BestValidationAccuracy: metrics.Measured(0.5),
		Metrics:  []folder.Metric{{Name: metric.Accuracy, Validation: metrics.Measured(0.5), Best: metrics.Measured(0.5)}},
		Outcomes: metrics.Outcomes{round.Accepted: 2400, round.Lost: 1}, Version: "v",
	}
	c := config.Demonstration()
	c.Schedule.Window = 150
	if err := cli.Table(&b, func(w io.Writer) { writeSummary(w, c, s) }); err != nil {
		t.Fatal(err)
	}
	want := `demo: femnist, schedule rounds, synthetic data, seed 1: completed
  rounds               1,040
  virtual time         95.5 s
  wall time            26 s (40 rounds/s)
  SGD steps            1,110 a client, 0.3500 of fixed K's in the same time
  training loss        2.5000 (best 2.2500)
                       mean over 150 rounds, in a run of 1040 (schedule.window: 104 fits)
  validation loss      2.1250
  validation accuracy  0.5000 (best 0.5000)
  tasks                2,400 accepted, 1 lost
  results              runs/demo
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// What stragglers cost is said where they cost anything.
func TestSummary_Stragglers(t *testing.T) {
	var b bytes.Buffer
	s := folder.Summary{
		Completed: true, StragglerShare: metrics.Measured(0.25), TimeToTarget: metrics.Measured(12.5),
		ClientSeconds: metrics.Split[float64]{Useful: 3, Wasted: 1}, ClientSteps: metrics.Split[int64]{Useful: 9, Wasted: 1},
		Bytes: metrics.Split[int64]{Useful: 7, Wasted: 1}, EnergyJoules: &metrics.Split[float64]{Useful: 1500, Wasted: 500},
		ClientEvaluation: &folder.ClientEvaluation{Round: 1200, Fairness: folder.Fairness{
			Clients: 60, Accuracy: metrics.Measured(0.5), WorstAccuracy: metrics.Measured(0.125), Jain: metrics.Measured(0.75), Loss: 2,
		}},
	}
	if err := cli.Table(&b, func(w io.Writer) { writeSummary(w, config.Demonstration(), s) }); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  wasted             25 % of client time, 10 % of SGD steps, 12.5 % of bytes\n",
		"  stragglers         25 % of a round is spent waiting from the median client to the slowest\n",
		"  energy             2 kJ, 25 % of it wasted\n",
		"  target reached     after 12.5 s\n",
		"  clients' accuracy  mean 0.5000, worst tenth 0.1250, Jain's index 0.7500 (round 1,200)\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

// A run that was stopped shows the best of what it has measured.
func TestSummary_StoppedRun(t *testing.T) {
	var b bytes.Buffer
	s := folder.Summary{Rounds: 12, Metrics: []folder.Metric{{Name: metric.Accuracy, Best: metrics.Measured(0.5)}}}
	if err := cli.Table(&b, func(w io.Writer) { writeSummary(w, config.Demonstration(), s) }); err != nil {
		t.Fatal(err)
	}
	if want := "  validation accuracy  best 0.5000\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is missing in\n%s", want, b.String())
	}
}

func someProgress(number int) run.Progress {
	return run.Progress{
		Quality:  metric.Quality{Metric: metric.Metric{Name: metric.Accuracy}},
		Schedule: "rounds", Rounds: 40, Elapsed: 2 * time.Second, Remaining: 6 * time.Second, Report: round.Report{
			Round: number, End: 36.25e9, LocalSteps: 35, WindowLoss: 2.3125, ValidationLoss: 2, Metrics: []float64{0.25},
		},
	}
}

func TestStatus_Run(t *testing.T) {
	for want, p := range map[string]run.Progress{
		"rounds  round 10/40  36.2 s  K 35  loss 2.312  accuracy 0.250  5 rounds/s  6s left": someProgress(10),
		"dsgd  round 1  0.0 s of 20.00 min  K 1": {
			Schedule: "dsgd", VirtualTotal: 1200, Report: round.Report{Round: 1, LocalSteps: 1, WindowLoss: math.NaN()},
		},
	} {
		s := statusOf(p)
		if got := s.Line(); got != want || s.Subject != p.Schedule || s.Done != p.Fraction() {
			t.Errorf("got  %s (%s, %v)\nwant %s", got, s.Subject, s.Done, want)
		}
	}
}

// A round that takes long shows how many of its clients are trained, and its time goes on
// while the run says nothing.
func TestStatus_LongRound(t *testing.T) {
	p := someProgress(10)
	p.InRound, p.Trained, p.Clients = 12*time.Second, 45, 60
	s := statusOf(p)
	if want := "45 of 60 clients  12s in this round"; !strings.Contains(s.Line(), want) {
		t.Errorf("%q, want %q in it", s.Line(), want)
	}
	var last lastProgress
	if _, shown := last.status(); shown {
		t.Error("a run that has said nothing is shown")
	}
	last.set(p)
	if _, shown := last.status(); shown {
		t.Error("a run that has just said something is shown again")
	}
	last.time = last.time.Add(-time.Hour)
	s, shown := last.status()
	if !shown || !strings.Contains(s.Line(), "1h0m12s in this round") || strings.Contains(s.Line(), "6s left") {
		t.Errorf("an hour later: %v, %q", shown, s.Line())
	}
	p.Done = true
	last.set(p)
	last.time = last.time.Add(-time.Hour)
	if _, shown := last.status(); shown {
		t.Error("the time of a run goes on behind its end")
	}
}

func TestStatus_Reading(t *testing.T) {
	var r federated.Reading
	status := cli.ReadingStatus(r.State)
	if _, shown := status(); shown {
		t.Error("something is read")
	}
	r.Begin("data/femnist.parquet", 100)
	if s, shown := status(); !shown || s.Line() != "reading femnist.parquet" || s.Done >= 0 {
		t.Errorf("%q, %v", s.Line(), s.Done)
	}
	if _, err := io.ReadFull(io.NewSectionReader(r.Counted(strings.NewReader(strings.Repeat("x", 41))), 0, 41), make([]byte, 41)); err != nil {
		t.Fatal(err)
	}
	if s, shown := status(); !shown || s.Line() != "reading femnist.parquet, 41 %" || s.Done != 0.41 {
		t.Errorf("%q, %v", s.Line(), s.Done)
	}
	r.End()
	if _, shown := status(); shown {
		t.Error("what has been read is shown")
	}
}

// A run that is complete fills its bar, also one that ended by accuracy or short
// of its virtual time.
func TestStatus_CompleteRun(t *testing.T) {
	p := someProgress(10)
	p.Done = true
	if s := statusOf(p); s.Done != 1 || strings.Contains(s.Line(), "left") {
		t.Errorf("%v %q", s.Done, s.Line())
	}
}

func TestRun_Quiet(t *testing.T) {
	r := &recorder{summary: folder.Summary{Version: "v"}}
	status, stdout, stderr := call(t, r, "run", "--quiet")
	r.options.Progress(someProgress(1))
	r.options.Notice("x")
	if status != 0 || stdout != "" || stderr != "" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// execute is the whole program but for signals.
func execute(ctx context.Context, p program, args []string, stdout, stderr io.Writer) int {
	return cli.Perform(ctx, rootCommand(p), args, stdout, stderr)
}
