package calibrate

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/internal/robust"
	"fedpace/internal/tasks"
)

// sample returns a result in which every part is set.
func sample() *Result {
	sure := func(x float64) robust.Estimate { return robust.Estimate{Value: x, Low: 0.99 * x, High: 1.01 * x} }
	return &Result{
		Name: "pi4", Date: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC), Version: "v1.2.3",
		Machine: Machine{System: "linux/arm64", Model: "Raspberry Pi 4", Processors: 4, PeakBytes: 50e6, FreeBytes: 600e6, Celsius: 61, PowerSource: "sensor ina219", Watts: &Watts{2.5, 4, 2.75}},
		Compute: []Compute{{
			Task: tasks.FEMNIST, Model: "mlp:784,200,200,62", Batch: 32, Kernel: "neon", Tasks: 24, Steps: 20, Seconds: 9,
			SecondsPerStep: sure(0.0171), StepCV: 0.012, PaperSeconds: 0.017, PaperStd: 5.1e-4,
			Phase: Phase{Overhead: sure(0.003), Vary: []float64{0.98, 1, 1.02}, Scatter: 0.01, Uncertainty: 0.05, FirstTask: 0.25},
		}},
		Network: &Network{
			Server: "nats://lab:4222", Params: 209662, RoundTrip: sure(0.011),
			Download: Link{Mbps: sure(19.5), Transfers: 20, Phase: Phase{Overhead: sure(0.012), Vary: []float64{0.9, 1, 1.1}, Uncertainty: 0.002, FirstTask: 0.5}},
			Upload:   Link{Mbps: sure(4.9), Transfers: 20, Phase: Phase{Overhead: sure(0.02), Noisy: true}},
		},
	}
}

// load writes a result as a class into a file, and returns the configuration that a run reads from it, and
// the text of the file.
func load(t *testing.T, r *Result) (config.Config, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "class.yaml")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.WriteClass(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path, []string{"clients=10", "cohort=5"})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return c, string(text)
}

// What calibrate writes is a class that a run reads, with all that was measured. A task of
// 80 steps on it takes what was measured, on average over its scatter.
func TestClass_CalibrationIsClass(t *testing.T) {
	c, text := load(t, sample())
	k := c.Fleet[0]
	constant := func(d fleet.Distribution) float64 { return d.(fleet.Constant).Value }
	if c.Task != config.TaskFEMNIST || k.Name != "pi4" || constant(k.SecondsPerStep) != 0.0171 || k.StepCV != 0.012 || k.Batch != 0 ||
		constant(k.DownloadMbps) != 19.5 || constant(k.UploadMbps) != 4.9 || k.Overhead != (fleet.Overhead{Download: 0.012, Compute: 0.003, Upload: 0.02}) ||
		k.FirstTask != (fleet.Overhead{Download: 0.5, Compute: 0.25}) || k.Uncertainty != (fleet.Uncertainty{Download: 0.002, Compute: 0.05}) ||
		k.Watts != (fleet.Watts{Download: 2.5, Compute: 4, Upload: 2.75}) || k.Vary.Upload != nil || len(k.Vary.Compute.(fleet.Empirical).Values) != 3 {
		t.Errorf("%+v of\n%s", k, text)
	}
	for _, want := range []string{"2026-03-01 12:30 UTC", "v1.2.3", "Raspberry Pi 4, linux/arm64, 4 processors", "kernel neon", "24 tasks of 20 steps", "17.1 ms (16.93 to 17.27)",
		"nats://lab:4222", "61 °C", "4 W while it computes", "noisy"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	devices, err := c.NewFleet()
	if err != nil {
		t.Fatal(err)
	}
	const bits, n = 32 * 209662, 4000
	var sum fleet.Durations
	for task := range n {
		d, err := devices.Durations(task%10, uint64(task+1), 80, fleet.SameBits(bits), 0)
		if err != nil {
			t.Fatal(err)
		}
		sum.Download, sum.Compute, sum.Upload = sum.Download+d.Download, sum.Compute+d.Compute, sum.Upload+d.Upload
	}
	for _, x := range []struct {
		phase     string
		got       int64
		want      float64
		tolerance float64
	}{
		{"download", sum.Download, 0.012 + bits/19.5e6*(1/0.9+1+1/1.1)/3, 0.01},
		{"compute", sum.Compute, 0.003 + 80*0.0171, 0.002},
		{"upload", sum.Upload, 0.02 + bits/4.9e6, 1e-6},
	} {
		if got := float64(x.got) / 1e9 / n; math.Abs(got/x.want-1) > x.tolerance {
			t.Errorf("a simulated %s takes %g s on average, want %g", x.phase, got, x.want)
		}
	}
}

// What was not measured is not in the class, and several sizes of minibatches are classes
// of their own.
func TestClass_PartsOfCalibration(t *testing.T) {
	r := sample()
	r.Network, r.Machine.Watts = nil, nil
	other := r.Compute[0]
	other.Batch, other.Settled, other.Drift, other.Vary, other.StepCV = 128, true, 0.2, nil, 0
	r.Compute = append(r.Compute, other)
	c, text := load(t, r)
	if len(c.Fleet) != 2 || c.Fleet[0].Name != "pi4-32" || c.Fleet[1].Name != "pi4-128" || c.Fleet[0].Batch != 0 || c.Fleet[1].Batch != 128 || c.Fleet[0].DownloadMbps != nil ||
		c.Fleet[1].Vary.Compute != nil || c.Fleet[0].Watts != (fleet.Watts{}) || !strings.Contains(text, "+20 %") || !strings.Contains(text, "the board does not tell it") {
		t.Errorf("%+v of\n%s", c.Fleet, text)
	}
	r = sample()
	r.Compute = nil
	if c, text := load(t, r); c.Fleet[0].SecondsPerStep != nil || c.Fleet[0].Overhead.Compute != 0 || c.Fleet[0].DownloadMbps == nil {
		t.Errorf("%+v of\n%s", c.Fleet, text)
	}
	r = sample()
	r.Compute[0].Task = tasks.Custom // whatever is run with it: the demonstration's here
	if c, text := load(t, r); c.Task != config.TaskFEMNIST || c.Fleet[0].Batch != 32 || strings.Contains(text, "\ntask:") || !strings.Contains(text, "Compute: mlp:784,200,200,62,") {
		t.Errorf("%+v of\n%s", c.Fleet, text)
	}
	r.Name = "a b"
	if err := r.WriteClass(os.Stderr); err == nil {
		t.Error("a name with a space is taken")
	}
}

// People see the figures with their intervals, and the paper's beside them.
func TestClass_Printed(t *testing.T) {
	var b strings.Builder
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"femnist", "17.1 ms (16.93 to 17.27)", "17 ms", "0.51 ms", "round trip", "19.5 Mbit/s", "12 ms besides", "50.0 MB", "61 °C", "4 W while it computes", "noisy"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
