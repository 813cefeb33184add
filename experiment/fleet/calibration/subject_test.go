package calibration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/calibrate"
	"fedpace/experiment/config"
	"fedpace/internal/tasks"
)

func measured(t *testing.T, s *calibrate.Subject, err error) calibrate.Compute {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibrate.MeasureCompute(t.Context(), s, calibrate.Timing{Seconds: 0.01}, nil)
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return c
}

// A configuration says model, minibatches, optimizer and algorithm.
func TestWhatAConfigurationsDevicesDo(t *testing.T) {
	load := func(text string) *config.Config {
		t.Helper()
		path := filepath.Join(t.TempDir(), "exp.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	s, err := OfConfig(load("task: femnist\nbatch: 16\nlocal: {optimizer: adam}\naggregate: {algorithm: fedprox, mu: 0.01}\n"), calibrate.Own{})
	c := measured(t, s, err)
	if c.Task != tasks.FEMNIST || c.Batch != 16 || c.PaperSeconds != 0 || !strings.Contains(s.Welcome.Spec.Local, "adam") || !strings.Contains(s.Welcome.Spec.Algorithm, "fedprox") {
		t.Errorf("%+v of %+v", c, s.Welcome.Spec)
	}
	s, err = OfConfig(load("task: femnist\nmodel: [flatten, dense: 32, relu, dense]\n"), calibrate.Own{})
	if c := measured(t, s, err); !strings.HasSuffix(c.Model, "flatten,dense(32),relu,dense(62)") || s.Name != "femnist with "+c.Model {
		t.Errorf("%s: %+v", s.Name, c)
	}
	if s, err := OfConfig(load("task: cifar100\naugment: flip_crop\n"), calibrate.Own{}); err != nil || s.Welcome.Spec.Augment != "flip_crop" {
		t.Errorf("%v, %+v", err, s)
	}
}
