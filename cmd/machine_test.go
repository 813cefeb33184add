package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/metrics"
)

// jsonOf runs a command that prints one object on one line.
func jsonOf(t *testing.T, r *recorder, args ...string) map[string]any {
	t.Helper()
	status, stdout, stderr := call(t, r, args...)
	if status != 0 || strings.Count(stdout, "\n") != 1 || !strings.HasSuffix(stdout, "\n") {
		t.Fatalf("%v: status %d, %q, %q", args, status, stdout, stderr)
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(stdout), &object); err != nil {
		t.Fatalf("%v: %v: %s", args, err, stdout)
	}
	return object
}

func TestJSON_EveryCommandWithResults(t *testing.T) {
	r := &recorder{summary: folder.Summary{Version: "v", Rounds: 7, ValidationAccuracy: metrics.Measured(0.5)}}
	run := jsonOf(t, r, "run", "--json", "--quiet")
	if run["rounds"] != 7.0 || run["validation_accuracy"] != 0.5 || run["out"] != "runs/demo" || run["training_loss"] != nil {
		t.Errorf("run: %v", run)
	}
	text, err := r.summary.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for key := range file {
		if _, ok := run[key]; !ok {
			t.Errorf("run --json lacks %s of summary.json", key)
		}
	}
	dry := jsonOf(t, r, "run", "--dry-run", "--json", "--set", "seed=18446744073709551615", "--set", "schedule.k0=9")
	configuration := dry["configuration"].(map[string]any)
	if configuration["schedule"].(map[string]any)["k0"] != 9.0 || dry["model"] != nil {
		t.Errorf("dry run: %v", dry)
	}
	compare := jsonOf(t, r, "compare", "--json")
	if compare["reference"] != "fixed" || compare["level"] != nil {
		t.Errorf("compare: %v", compare)
	}
	if v := jsonOf(t, r, "version", "--json"); v["version"] == "" || !strings.HasPrefix(v["go"].(string), "go1.") || v["kernel"] == "" {
		t.Errorf("version: %v", v)
	}
	info := jsonOf(t, r, "data", "info", "synthetic:femnist", "--clients", "20", "--json")
	if info["clients"] != 20.0 || info["synthetic"] != true || len(info["labels"].([]any)) != 62 || info["memory_bytes"] != nil {
		t.Errorf("data info: %v", info)
	}
}

// A seed beyond what a float64 holds stays itself.
func TestJSON_LargeNumbers(t *testing.T) {
	_, stdout, _ := call(t, &recorder{}, "run", "--dry-run", "--json", "--set", "seed=18446744073709551615")
	if !strings.Contains(stdout, `"seed":18446744073709551615`) {
		t.Errorf("the seed is not there: %.200s", stdout)
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: errors.New("no space left on device")}
}

// Whatever a command prints, that it is lost is an error.
func TestOutput_Lost(t *testing.T) {
	for _, args := range [][]string{
		{"run"}, {"run", "--json"}, {"run", "--dry-run"}, {"compare"}, {"compare", "--json"}, {"version"}, {"version", "--json"}, {"--help"},
		{"help", "configuration"}, {"completion", "bash"}, {"data", "info", "synthetic:femnist", "--clients", "20"},
	} {
		var errs bytes.Buffer
		r := &recorder{summary: folder.Summary{Version: "v"}}
		if status := execute(t.Context(), r.program(), args, full{}, &errs); status != 1 || errs.String() != "fedpace: standard output: no space left on device\n" {
			t.Errorf("%v: status %d, %q", args, status, errs.String())
		}
	}
}

func TestHelp_UnknownCommand(t *testing.T) {
	for _, args := range [][]string{{"help", "nosuch"}, {"help", "data", "nosuch"}} {
		status, stdout, stderr := call(t, &recorder{}, args...)
		if status != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "nosuch") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	if status, stdout, _ := call(t, &recorder{}, "help", "data", "prepare"); status != 0 || !strings.Contains(stdout, "fedpace data prepare") {
		t.Errorf("status %d: %s", status, stdout)
	}
}

// completions asks as a shell does.
func completions(t *testing.T, words ...string) []string {
	t.Helper()
	status, stdout, stderr := call(t, &recorder{}, append([]string{"__completeNoDesc"}, words...)...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return lines[:len(lines)-1] // the last is the directive
}

func TestCompletion(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  []string
	}{
		{[]string{"vers"}, []string{"version"}},
		{[]string{"veri"}, []string{"verify"}},
		{[]string{"run", "--set", "schedule.k"}, []string{
			"schedule.k=", "schedule.k.seconds=", "schedule.k.gamma=", "schedule.k.start=", "schedule.k.until=", "schedule.k.power=",
			"schedule.k.to=", "schedule.k.rounds=", "schedule.k.formula=", "schedule.k.values=", "schedule.k.min=", "schedule.k.max=", "schedule.k.path=", "schedule.k.class=",
			"schedule.k.arguments=", "schedule.k.answer_seconds=", "schedule.k.memory_mb=", "schedule.k.reads=", "schedule.k.alpha=", "schedule.k0=",
		}},
		{[]string{"run", "--set", "schedule.k=r"}, []string{"schedule.k=rounds"}},
		{[]string{"run", "--set", "train="}, []string{"train=true", "train=false"}},
		{[]string{"run", "--set", "nosuch="}, nil},
		{[]string{"compare", "--grid", "close.rule=b"}, []string{"close.rule=buffered"}},
		{[]string{"compare", "--schedules", "fixed,ro"}, []string{"fixed,rounds"}},
		{[]string{"data", "info", "--partition", "s"}, []string{"shards", "size", "square"}},
		{[]string{"help", "data", "pre"}, []string{"prepare"}},
	} {
		if got := completions(t, test.words...); !slices.Equal(got, test.want) {
			t.Errorf("%v: %v, want %v", test.words, got, test.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if status, stdout, stderr := call(t, &recorder{}, "completion", shell); status != 0 || !strings.Contains(stdout, "fedpace") {
			t.Errorf("%s: status %d, %s", shell, status, stderr)
		}
	}
}

// Every page has the sections of man(7), and no line that troff would take for
// a request of its own.
func TestHelp_ManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if status, _, stderr := call(t, &recorder{}, "man", dir); status != 0 {
		t.Fatal(stderr)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{".TH \"FEDPACE", "\n.SH NAME\n", "\n.SH DESCRIPTION\n", "\n.SH SEE ALSO\n"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", e.Name(), want)
			}
		}
		for line := range strings.Lines(string(text)) {
			if request, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, "'") ||
				strings.HasPrefix(line, ".") && !slices.Contains([]string{".nh", ".TH", ".SH", ".EX", ".EE"}, request) {
				t.Errorf("%s: a request %q", e.Name(), line)
			}
		}
	}
	for _, want := range []string{"fedpace.1", "fedpace-run.1", "fedpace-data-info.1", "fedpace-configuration.1"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
}

// A text stands on a page as it is, whatever signs it has.
func TestManual_Troff(t *testing.T) {
	for text, want := range map[string]string{
		".hidden\n'quoted' --set": "\\&.hidden\n\\&'quoted' \\-\\-set",
		`a\n`:                     `a\en`,
	} {
		if got := troff(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
