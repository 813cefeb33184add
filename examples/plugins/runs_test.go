package plugins

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fedpace/actors/attack"
	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/config"
	"fedpace/config/reference"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/data/federated"
	"fedpace/experiment/run"
	"fedpace/learn"
	"fedpace/metrics"
)

func load(t *testing.T, sets ...string) config.Config {
	t.Helper()
	c, err := config.Load("everything.yaml", append(sets, "out="+filepath.Join(t.TempDir(), "run")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The configuration names an entry of this package at every plug point, and each
// stands in a file that fits on a screen.
func TestPlugins_Named(t *testing.T) {
	c := load(t)
	for name, entry := range map[string]bool{
		"model":           c.Model.(Scaled).Factor == 0.5,
		"reader":          c.Data == config.Data{Path: "points.csv", Reader: Points{}},
		"schedule":        schedule.Ks.NameOf(c.Schedule.K) == "proportional",
		"closing rule":    c.Close == closing.Rule(Share{Of: 0.7}),
		"selection":       c.Select == selection.Rule(InTurn{}),
		"algorithm":       algorithm.Algorithms.NameOf(c.Aggregate.Algorithm) == "clipped",
		"combining rule":  c.Aggregate.Combine == combine.Rule(Shortest{Drop: 0.3}),
		"clipping":        c.Aggregate.Clip == combine.Clip(Falling{First: 5, Factor: 0.9}),
		"compression":     c.Compress == algorithm.Compression(ShortFloats{Fraction: 10}),
		"optimizer":       c.Local == learn.Optimizer(Signs{WeightDecay: 0.01}),
		"availability":    c.Availability == fleet.Availability(Shifts{Shifts: 2, Seconds: 5}),
		"slowdown":        c.Slowdown == fleet.Slowdown(Throttle{AfterSeconds: 0.1, Factor: 2}),
		"distribution":    c.Fleet[0].SecondsPerStep == fleet.Distribution(TwoPoint{Low: 0.01, High: 0.1, Share: 0.5}),
		"attack":          c.Fleet[1].Attack == attack.Attack(Stubborn{Part: 0.5}),
		"sink":            len(c.Outputs) == 1 && c.Outputs[0] == metrics.Sink(Reach{File: "reach.csv"}),
		"table of models": learn.Models.NameOf(c.Model) == "scaled" && federated.Readers.NameOf(c.Data.Reader) == "points",
	} {
		if !entry {
			t.Errorf("%s: the configuration is\n%s", name, c.YAML())
		}
	}
	again, err := config.Parse("again.yaml", c.YAML())
	if err != nil || string(again.YAML()) != string(c.YAML()) {
		t.Errorf("it is read back as\n%s, %v", again.YAML(), err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 70 && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has %d lines, at most 70", file, n)
		}
	}
}

// The schema that fedpace config schema prints knows the plug-ins.
func TestPlugins_InSchema(t *testing.T) {
	c := jsonschema.NewCompiler()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(reference.Schema()))
	if err == nil {
		err = c.AddResource("fedpace.json", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fedpace.json")
	if err != nil {
		t.Fatal(err)
	}
	everything := readFile(t, "everything.yaml")
	for text, good := range map[string]bool{everything: true, strings.Replace(everything, "of: 0.7", "of: 7", 1): false} {
		inJSON, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(inJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); (err == nil) != good {
			t.Errorf("%v for\n%s", err, text)
		}
	}
}

// A run with all plug-ins that is interrupted and resumed comes to the bits of
// one that was not.
func TestPlugins_RunResumed(t *testing.T) {
	c := load(t)
	whole, err := run.Run(t.Context(), c, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Rounds != 6 || whole.Data == nil || *whole.Data != "points" {
		t.Errorf("%d rounds, outcomes %+v, data %v", whole.Rounds, whole.Outcomes, whole.Data)
	}
	reach := readFile(t, filepath.Join(c.Out, "reach.csv"))
	c = load(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := func(int, []float32) { cancel() } // in the first round
	if _, err := run.Run(ctx, c, run.Options{Callbacks: run.Callbacks{Model: stop}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	resumed, err := run.Resume(t.Context(), c.Out, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := resumed.Summary; s.Fingerprint != whole.Fingerprint || *s.ModelSHA256 != *whole.ModelSHA256 {
		t.Errorf("the resumed run has model %s and fingerprint %s, want %s and %s", *s.ModelSHA256, s.Fingerprint, *whole.ModelSHA256, whole.Fingerprint)
	}
	if got := readFile(t, filepath.Join(c.Out, "reach.csv")); got != reach || strings.Count(got, "\n") != 6 {
		t.Errorf("reach.csv of the resumed run is %q, want %q", got, reach)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The live page names the plug-ins while the run goes on, and page.html after it.
func TestPlugins_OnPage(t *testing.T) {
	c := load(t, "http=127.0.0.1:0")
	address, page := "", ""
	o := run.Options{
		Callbacks: run.Callbacks{Notice: func(line string) {
			if found := regexp.MustCompile(`http://[0-9.:]+`).FindString(line); found != "" {
				address = found
			}
		}, Model: func(int, []float32) {
			if page == "" {
				page = get(t, address+"/snapshot.json")
			}
		}},
	}
	if _, err := run.Run(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"live": page, "kept": readFile(t, filepath.Join(c.Out, "page.html"))} {
		for _, want := range []string{"with 0.7 of the cohort", "proportional", "points"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s page does not show %q", name, want)
			}
		}
	}
}

func get(t *testing.T, url string) string {
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Help explains an entry, and each of its options.
func TestPlugins_InHelp(t *testing.T) {
	for key, want := range map[string]string{
		"model.scaled":                     "dense layers that start smaller",
		"model.factor":                     "factor on the initial parameters",
		"data.points":                      "CSV with the columns client, label, x, y",
		"schedule.k.least":                 "fewest local steps of a round",
		"close.share":                      "part of the cohort whose updates close a round",
		"select.in_turn":                   "one client after the other",
		"aggregate.clipped":                "largest Euclidean norm",
		"local.signs":                      "steps of one length",
		"availability.shifts":              "length of a shift",
		"slowdown.throttle":                "how many times as long the rest takes",
		"fleet.seconds_per_step.two_point": "the smaller value",
		"outputs.reach":                    "name of the file in the run's folder",
	} {
		if text, ok := config.Explain(key); !ok || !strings.Contains(text, want) {
			t.Errorf("help on %s is %q, want it to say %q", key, text, want)
		}
	}
}

// Without learning the run has the same history, if its schedule needs no loss.
func TestPlugins_Timed(t *testing.T) {
	learned, err := run.Run(t.Context(), load(t, "schedule.k=rounds"), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	timed, err := run.Run(t.Context(), load(t, "schedule.k=rounds", "train=false"), run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if timed.Fingerprint != learned.Fingerprint {
		t.Errorf("timed %s, learned %s", timed.Fingerprint, learned.Fingerprint)
	}
	for _, sets := range [][]string{nil, {"schedule.k=rounds", "train=false"}} {
		e, err := run.DryRun(t.Context(), load(t, sets...), run.Options{})
		if err != nil || e.Rounds != 6 {
			t.Errorf("%v: a dry run of %d rounds, %v", sets, e.Rounds, err)
		}
	}
}

// Mistakes are found before the run, by the options' tags and by Needs.
func TestPlugins_Mistakes(t *testing.T) {
	for set, want := range map[string]string{
		"train=false":                           `"proportional" decides by training losses`,
		"close.of=2":                            "close.of: 2 is out of range (more than 0 and at most 1)",
		"close={rule: share, off: 1}":           `close.off: unknown key (did you mean "close.of"?)`,
		"availability={model: shifts}":          "availability.seconds: is not set",
		"close={rule: buffered, n: 2}":          "rounds that do not overlap",
		"slowdown={law: throttle, factor: 0.5}": "slowdown.factor: 0.5 is out of range",
		"model={model: scaled}":                 "model.layers: is not set",
		"model.factor=7":                        "model.factor: 7 is out of range",
		"data={reader: point, path: x}":         `data.reader: "point" is not a data reader (did you mean "points"?)`,
		"data={reader: points, file: x}":        `data.file: unknown key`,
		"data=synthetic":                        `model: "scaled" is for custom data`,
	} {
		_, err := config.Load("everything.yaml", []string{set})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", set, err, want)
		}
	}
}
