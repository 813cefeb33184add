//go:build unix

package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedpace/actors/external/externaltest"
	"fedpace/internal/testkit/slow"
)

// programs is the folder of the programs that the tests build.
var programs string

// asProgram in the environment makes the test's binary the program itself, so that
// no test waits until another is linked.
const asProgram = "FEDPACE_TEST_AS_PROGRAM"

// build makes a program in a folder of its own: tests build it for two platforms at a time.
func build(name string, environment ...string) (string, error) {
	path := filepath.Join(programs, strings.Join(environment, ","), name)
	c := exec.Command("go", "build", "-o", path, "fedpace/cmd/"+name)
	c.Env = append(os.Environ(), environment...)
	if out, err := c.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
}

func TestMain(m *testing.M) {
	if externaltest.Started() {
		externaltest.Main()
	}
	if os.Getenv(asProgram) != "" {
		Main()
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	var err error
	programs, err = os.MkdirTemp("", "fedpace-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	// They are processes that mostly wait for each other.
	slow.Beside(8)
	return m.Run()
}

// fedpace is the program with these arguments, not started yet.
func fedpace(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	return c
}

// finish runs a command to its end and returns what it said.
func finish(t *testing.T, c *exec.Cmd) (stdout, stderr string, exit int) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var bad *exec.ExitError
	if err != nil && !errors.As(err, &bad) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// The mistakes that a user makes: exit status 1 (2 for the command line
// itself), one clear line, and no folder.
func TestUsage_Mistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name string
		args []string
		exit int
		want string
	}{
		{"unknown key", []string{"--config", write("a.yaml", "task: femnist\ncohrot: 5\n")}, 1, `a.yaml:2: cohrot`},
		{"nearest key", []string{"--config", write("b.yaml", "cohrot: 5\n")}, 1, `"cohort"`},
		{"not a schedule", []string{"--config", write("c.yaml", "schedule:\n  k: round\n")}, 1, `"round" is not a schedule (did you mean "rounds"?)`},
		{"wrong type", []string{"--set", "cohort=many"}, 1, "cohort"},
		{"cohort above clients", []string{"--set", "clients=5"}, 1, "cohort"},
		{"k0 below 1", []string{"--set", "schedule.k0=0"}, 1, "schedule.k0"},
		{"negative bandwidth", []string{"--set", "network.upload_mbps=-1"}, 1, "network.upload_mbps"},
		{"missing data", []string{"--set", "data=" + filepath.Join(dir, "none.parquet")}, 1, "none.parquet"},
		{"not Parquet", []string{"--set", "data=" + write("bad.parquet", "PAR1 and no more")}, 1, "bad.parquet"},
		{"a user without data", []string{"--set", "task=femnist", "--set", "data=" + write("all_data.json", `{"users":["a","b"],"num_samples":[1,1],"user_data":{"a":{"x":[[0]],"y":[1]}}}`)}, 1, "all_data.json"},
		{"port in use", []string{"--set", "http=" + taken.Addr().String()}, 1, "in use"},
		{"losses without training", []string{"--set", "train=false", "--set", "schedule.k=error"}, 1, "schedule.k"},
		{"unknown flag", []string{"--sett", "x=1"}, 2, "--sett"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			_, stderr, exit := finish(t, fedpace(t, append([]string{"run", "--out", out}, c.args...)...))
			if exit != c.exit || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, said %q; want exit %d with %q", exit, stderr, c.exit, c.want)
			}
			if strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "goroutine") {
				t.Errorf("not one line: %q", stderr)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left behind", out)
			}
		})
	}
}

// Ctrl-C stops a run cleanly: exit status 130, what is done is kept, and a
// second run refuses the folder unless told.
func TestRun_CtrlC(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	c := fedpace(t, "run", "--out", out, "--set", "stop.rounds=100000", "--set", "schedule.k0=5", "--set", "http=127.0.0.1:0")
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var said []string
	scraped := false
	for lines.Scan() {
		line := lines.Text()
		said = append(said, line)
		if page := regexp.MustCompile(`http://[^/\s]+/`).FindString(line); page != "" {
			scraped = scrape(t, page+"metrics")
		}
		if regexp.MustCompile("round [1-9]").MatchString(line) {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = c.Wait() // the exit status says it
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Fatalf("exit %d, want 130; it said\n%s", code, strings.Join(said, "\n"))
	}
	if !scraped {
		t.Error("no metrics while it ran")
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Completed bool
		Rounds    int
	}
	if err := json.Unmarshal(text, &summary); err != nil || summary.Completed || summary.Rounds < 1 {
		t.Errorf("summary %s, %v", text, err)
	}
	_, again, exit := finish(t, fedpace(t, "run", "--out", out))
	// A run that can go on is not to be thrown away.
	if exit != 1 || !strings.Contains(again, "fedpace resume "+out) || strings.Contains(again, "--force") {
		t.Errorf("a second run into the folder: exit %d, %q", exit, again)
	}
}

// scrape reads the run's metrics once.
func scrape(t *testing.T, url string) bool {
	r, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return false
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	for _, name := range []string{"fedpace_round", "fedpace_virtual_time_seconds", "fedpace_sgd_steps_total", "fedpace_actors"} {
		if !bytes.Contains(text, []byte("\n"+name+"{")) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	return r.StatusCode == http.StatusOK
}

// A run of a million clients stays under 1 GB, and an idle client costs under
// 100 bytes: the difference to a run that has none of them but its cohort.
func TestRun_MillionClients(t *testing.T) {
	t.Parallel()
	peak := func(clients string) int64 {
		out := filepath.Join(t.TempDir(), "run")
		c := fedpace(t, "run", "--quiet", "--out", out, "--set", "train=false", "--set", "clients="+clients,
			"--set", "cohort=1000", "--set", "stop.rounds=100")
		started := time.Now()
		_, stderr, exit := finish(t, c)
		if exit != 0 {
			t.Fatalf("exit %d: %s", exit, stderr)
		}
		kilobytes := c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
		t.Logf("%s clients: peak %d kB, %.1f s", clients, kilobytes, time.Since(started).Seconds())
		return int64(kilobytes) << 10 //nolint:unconvert // It has 32 bits on other processors.
	}
	few, million := peak("1000"), peak("1000000")
	if million >= 1e9 {
		t.Errorf("a million clients take %d bytes", million)
	}
	if each := float64(million-few) / 999_000; each >= 100 {
		t.Errorf("an idle client costs %.0f bytes, want under 100", each)
	}
}

// The demonstration learns: the acceptance of the whole. It ends once it has.
func TestRun_DemonstrationLearns(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "demo")
	_, stderr, exit := finish(t, fedpace(t, "run", "--out", out, "--set", "stop.validation_accuracy=0.30"))
	if exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		ValidationAccuracy float64 `json:"validation_accuracy"`
		WallSeconds        float64 `json:"wall_seconds"`
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	t.Logf("validation accuracy %.3f in %.1f s", s.ValidationAccuracy, s.WallSeconds)
	if s.ValidationAccuracy < 0.30 {
		t.Errorf("validation accuracy %.3f, want at least 0.30", s.ValidationAccuracy)
	}
}

// A grid over the kinds of schedule, as in the help, and grids that cannot be.
func TestGrids(t *testing.T) {
	t.Parallel()
	small := []string{"--quiet", "--set", "clients=50", "--set", "cohort=4", "--set", "stop.rounds=3", "--set", "train=false"}
	out := filepath.Join(t.TempDir(), "sweep")
	stdout, stderr, exit := finish(t, fedpace(t, append([]string{"compare", "--out", out, "--grid", "network.upload_mbps=1,5", "--grid", "schedule.k=fixed,rounds"}, small...)...))
	if exit != 0 || !strings.Contains(stdout, "rounds") || !strings.Contains(stdout, "fixed") {
		t.Errorf("exit %d: %s%s", exit, stdout, stderr)
	}
	for _, args := range [][]string{
		{"--grid", "seed=1,2"},
		{"--grid", "out=a,b"},
		{"--grid", "schedule.k=fixed", "--schedules", "dsgd"},
		{"--grid", "cohort=3,4", "--figure", "f.gif"},
		{"--figure", "f.svg"},
		{"--seeds", "0"},
	} {
		out := filepath.Join(t.TempDir(), "sweep")
		_, stderr, exit := finish(t, fedpace(t, append(append([]string{"compare", "--out", out}, small...), args...)...))
		if exit != 2 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, %q; want 2 and one line", args, exit, stderr)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v: %s was left behind", args, out)
		}
	}
}
