package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fedpace/config"
	"fedpace/internal/tasks"
)

// compileSchema reads what fedpace config schema prints. The library holds it to
// the meta-schema of draft 2020-12.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	status, printed, stderr := call(t, &recorder{}, "config", "schema")
	if status != 0 {
		t.Fatal(stderr)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fedpace.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fedpace.json")
	if err != nil {
		t.Fatal(err)
	}
	if s.DraftVersion != 2020 {
		t.Errorf("the schema is of draft %d", s.DraftVersion)
	}
	return s
}

// validate holds a file to the schema.
func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	inJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(inJSON))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

func TestSchema_TakesConfigurations(t *testing.T) {
	s := compileSchema(t)
	files := map[string][]byte{"demonstration": config.Demonstration().YAML()}
	for _, task := range append(tasks.Paper(), tasks.Row{Task: tasks.Quadratic}, tasks.Row{Task: tasks.Logistic}) {
		c, err := config.Defaults(task.Task)
		if err != nil {
			t.Fatal(err)
		}
		files[string(task.Task)] = c.YAML()
	}
	for _, pattern := range []string{"../docs/study/*.yaml", "../internal/samebits/testdata/inputs/*/config.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, path := range found {
			files[path], err = os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range map[string]string{
		"short forms":    "data: x.csv\nclients: all\nmodel: {mlp: [3, 2]}\nfleet: [{name: a, watts: 3, links: l.csv, seconds_per_step: 5, slowdown: {}}]\noutputs: [tables, {sink: events}]",
		"empty groups":   "schedule:\nselect:\nstop: {rounds: 7, virtual_seconds: null}\nnetwork: {model_megabits: exact}\ncompute: {std: 5.1e-4}",
		"times":          "close: {rule: deadline, seconds: 1.5m}\nstop: {virtual_seconds: 2d}\ndevices: {task_seconds: \"1h30m\"}",
		"one option":     "aggregate: {server_rate: 0.5}\navailability: {model: bernoulli, probability: 0.3, period_seconds: 60}",
		"devices":        "fleet: [{name: a, overhead: {upload: 0.1}}]\ndevices: {names: {pi1: a, pi2: null}}",
		"listed devices": "fleet: [{name: a}]\ndevices: {names: [pi1, {id: pi2, class: a}]}",
		"entries within": "close: {rule: deadline, seconds: 3}\nselect: {rule: fit, from: round_robin}\ndata: {reader: parquet, path: x}\nevents: {sample: off}\nseed: 18446744073709551615",
	} {
		if _, err := config.Parse(name, []byte(text)); err != nil {
			t.Error(err)
		}
		files[name] = []byte(text)
	}
	for name, text := range files {
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the schema refuses, so does the reader.
func TestSchema_RefusesMistakes(t *testing.T) {
	s := compileSchema(t)
	for name, text := range map[string]string{
		"unknown key":             "chort: 3",
		"unknown key of a group":  "schedule: {windw: 5}",
		"unknown key of an entry": "close: {rule: first, m: 3}",
		"out of range":            "cohort: 0",
		"above its range":         "stop: {validation_accuracy: 1.5}",
		"at an open bound":        "network: {download_mbps: 0}",
		"entry out of range":      "aggregate: {algorithm: fedavgm, momentum: 1}",
		"class out of range":      "fleet: [{name: a, watts: -3}]",
		"class of a device":       "devices: {names: {pi1: [a]}}",
		"wrong type":              "cohort: many",
		"list for a number":       "batch: [1]",
		"number for a list":       "fleet: 3",
		"number for a group":      "schedule: 3",
		"word for a flag":         "train: 1",
		"unknown word":            "task: mnist",
		"no unit of time":         "stop: {virtual_seconds: 2w}",
		"unknown entry":           "close: {rule: dedline, seconds: 3}",
		"unknown entry's word":    "select: best",
		"missing parameter":       "close: deadline",
		"missing parameter, map":  "availability: {model: markov, on_seconds: 600}",
		"missing sigma":           "fleet: [{name: a, upload_mbps: {dist: lognormal, mean: 5}}]",
		"class without a name":    "fleet: [{weight: 2}]",
		"null for a number":       "cohort: null",
		"another entry's option":  "close: {rule: deadline, seconds: 5, n: 3}",
		"unknown reader":          "data: {reader: excel, path: x}",
		"a flag for an output":    "outputs: [true]",
	} {
		if err := validate(t, s, []byte(text)); err == nil {
			t.Errorf("%s: the schema takes %s", name, text)
		}
		if _, err := config.Parse("config.yaml", []byte(text)); err == nil {
			t.Errorf("%s: the reader takes %s", name, text)
		}
	}
}

// The pages of reference are what the program prints.
func TestReference_Fresh(t *testing.T) {
	for name, args := range map[string][]string{"configuration.md": {"config", "reference"}, "commands.md": {"help", "--markdown"}} {
		page, err := os.ReadFile(filepath.Join("..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		status, printed, stderr := call(t, &recorder{}, args...)
		if status != 0 || printed != string(page) {
			t.Errorf("docs/%s is stale: fedpace %s > docs/%s\n%s", name, strings.Join(args, " "), name, stderr)
		}
	}
}
