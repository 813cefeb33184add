package validation

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/study"
)

// fleet has three devices whose times do not vary.
const fleet = `fleet:
  - {name: slow, COUNT seconds_per_step: 0.2}
  - {name: fast, COUNT seconds_per_step: 0.01}
  - {name: far, COUNT seconds_per_step: 0.02, upload_mbps: 0.5}
`

// common is what the deployment and its simulations share.
const common = "task: logistic\nseed: SEED\nstop: {virtual_seconds: 60}\nevaluate: {every: 2}\nnetwork: {download_mbps: 20, upload_mbps: 5}\n"

// deploy plays a run with three clients, and returns it beside a folder with the configuration of a
// deployment of three real devices that take exactly what their classes say.
func deploy(t *testing.T, name, seed string, sets ...string) (played study.Cell, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	write := func(file, text string) string {
		path := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "SEED", seed)), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	simulated := write("simulated.yaml", common+"clients: 3\ncohort: 3\n"+strings.ReplaceAll(fleet, "COUNT", "count: 1,"))
	c, err := config.LoadFiles([]string{simulated}, sets)
	if err != nil {
		t.Fatal(err)
	}
	c.Out = dir
	id, err := study.Identity(c)
	if err != nil {
		t.Fatal(err)
	}
	cells := []study.Cell{{Name: name, Schedule: c.Schedule.Name(), Config: c, ID: id}}
	if err := study.Play(t.Context(), filepath.Dir(dir), cells, study.Options{}); err != nil {
		t.Fatal(err)
	}
	real := write("real.yaml", common+"clients: 0\nnats: {listen: '127.0.0.1:0'}\n"+strings.ReplaceAll(fleet, "COUNT ", "")+
		"devices: {names: {a: slow, b: fast, c: far}}\n")
	forged, err := config.LoadFiles([]string{real}, sets)
	if err != nil {
		t.Fatal(err)
	}
	configured := t.TempDir()
	if err := os.WriteFile(filepath.Join(configured, folder.ConfigFile), forged.YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	return cells[0], configured
}

// TestMake_DevicesAsTheirClasses has a deployment that the simulation knows exactly: times,
// tails and both orders are the same. With another fleet the times differ, and so does their order.
func TestMake_DevicesAsTheirClasses(t *testing.T) {
	t.Parallel()
	var measured []study.Cell
	var dirs []string
	for name, sets := range map[string][]string{
		"k2":    {"schedule.k=fixed", "schedule.k0=2"},
		"k20":   {"schedule.k=fixed", "schedule.k0=20"},
		"k60":   {"schedule.k=fixed", "schedule.k0=60"},
		"decay": {"schedule.k=rounds", "schedule.k0=60"},
		"first": {"schedule.k=fixed", "schedule.k0=60", "close={rule: first, n: 2}"},
	} {
		for _, seed := range []string{"1", "2"} {
			played, dir := deploy(t, name+"-"+seed, seed, sets...)
			measured = append(measured, played)
			dirs = append(dirs, dir)
		}
	}
	// simulate compares the runs with their simulations, whose configurations sets change.
	simulate := func(sets ...string) *Validation {
		t.Helper()
		out := t.TempDir()
		simulated := make([]study.Cell, len(dirs))
		for i, dir := range dirs {
			var err error
			q := Request{Sets: sets}
			simulated[i], err = q.simulation(dir, filepath.Join(out, filepath.Base(measured[i].Config.Out)))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := study.Play(t.Context(), out, simulated, study.Options{}); err != nil {
			t.Fatal(err)
		}
		v, err := compare(measured, simulated)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := simulate()
	if len(v.Settings) != 5 || v.Metric != "accuracy" {
		t.Fatalf("%d settings by %q", len(v.Settings), v.Metric)
	}
	for _, s := range v.Settings {
		if s.Seeds != 2 || s.RoundSeconds.Measured != s.RoundSeconds.Simulated || s.Tail.Measured != s.Tail.Simulated {
			t.Errorf("%+v", s)
		}
	}
	if o := v.RoundOrder; o.Kendall.Value != 1 || o.Pairs != 10 || o.Same != 10 {
		t.Errorf("order of times %+v", o)
	}

	// The links of two devices are faster, which shows where rounds do not wait for the third.
	faster := 0
	for _, s := range simulate("network.upload_mbps=50").Settings {
		if s.RoundSeconds.Simulated > s.RoundSeconds.Measured {
			t.Errorf("slower with faster links: %+v", s)
		}
		if s.RoundSeconds.Simulated < s.RoundSeconds.Measured {
			faster++
		}
	}
	if faster == 0 {
		t.Error("no setting is faster with faster links")
	}
}

// TestMake_Refused has folders that are no finished runs of devices.
func TestMake_Refused(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.MkdirAll(plain, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plain, folder.ConfigFile), config.Demonstration().YAML(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, begun := deploy(t, "begun", "1", "stop.virtual_seconds=2")
	for name, c := range map[string]struct{ dir, want string }{
		"nothing there": {t.TempDir(), "no run"},
		"no devices":    {plain, "had no real devices"},
		"not complete":  {begun, "is not complete"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(t.Context(), Request{Dirs: []string{c.dir}}, t.TempDir(), study.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestValidation_Forms writes a comparison of three settings as text, CSV and JSON.
func TestValidation_Forms(t *testing.T) {
	ratio := 1.25
	measured := []study.Cell{{Summary: folder.Summary{Prediction: &folder.Prediction{Devices: []folder.Device{
		{Class: "pi", Tasks: 3, Seconds: folder.Predicted{Ratio: &ratio}},
		{Class: "pi", Tasks: 4, Seconds: folder.NewPredicted(0.75, 1, 1, 1)},
	}}}}}
	v := &Validation{
		Metric: "accuracy",
		Settings: []Setting{
			{"a", 2, Pair{1, 1.5}, Pair{0.5, 0.4}, study.Provenance{Version: "v1", Configuration: "c", DataDigest: "d", Kernel: "go"}},
			{"b", 1, Pair{2, 2.5}, Pair{0.7, 0.6}, study.Provenance{}},
			{"c", 1, Pair{3, 2.25}, Pair{0.6, 0.65}, study.Provenance{}},
		},
		Classes: classes(measured),
	}
	v.RoundOrder = v.order(func(s *Setting) Pair { return s.RoundSeconds })
	v.TailOrder = v.order(func(s *Setting) Pair { return s.Tail })
	if o := v.RoundOrder; o.Same != 2 || o.Pairs != 3 || math.Abs(o.Kendall.Value-1./3) > 1e-12 || o.Spearman.Value != 0.5 {
		t.Errorf("%+v", o)
	}
	if c := v.Classes; len(c) != 1 || c[0].Tasks != 7 || c[0].Seconds != (Ratios{1, 0.75, 1.25}) || !math.IsNaN(c[0].Upload.Median) {
		t.Errorf("%+v", c)
	}
	var text, rows bytes.Buffer
	if err := v.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"has 2 of 3 pairs of settings in the measured order: Kendall's τ is 0.33, Spearman's ρ 0.50.",
		"1.000 (0.750 to 1.250)",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	if err := v.WriteCSV(&rows); err != nil || !strings.HasPrefix(rows.String(), "setting,seeds,round_seconds,simulated_round_seconds,tail,simulated_tail,version,configuration,data_digest,kernel\na,2,1,1.5,0.5,0.4,v1,c,d,go\n") {
		t.Errorf("%v: %s", err, rows.String())
	}
	var back struct {
		Rounds struct {
			Kendall struct{ Value, Low *float64 }
			Same    int
		}
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || back.Rounds.Same != 2 || back.Rounds.Kendall.Value == nil || back.Rounds.Kendall.Low != nil {
		t.Errorf("%v: %s", err, b)
	}
	if p := v.Panels(); len(p) != 2 || len(p[0].Lines) != 4 {
		t.Errorf("%+v", p)
	}
}
