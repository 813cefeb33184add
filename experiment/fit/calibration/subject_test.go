package calibration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/calibrate"
	"fedpace/config"
	"fedpace/internal/tasks"
)

// A configuration says model, minibatches, optimizer, algorithm and what columns mean.
func TestSubject_OfConfiguration(t *testing.T) {
	of := func(text string) *calibrate.Subject {
		t.Helper()
		path := filepath.Join(t.TempDir(), "exp.yaml")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := OfConfig(&c, calibrate.DeviceInput{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := of("task: femnist\nbatch: 16\nlocal: {optimizer: adam}\naggregate: {algorithm: fedprox, mu: 0.01}\n")
	if s.Task != tasks.FEMNIST || s.Batch() != 16 || !strings.Contains(s.Welcome.Spec.Local, "adam") || !strings.Contains(s.Welcome.Spec.Algorithm, "fedprox") {
		t.Errorf("%+v", s.Welcome.Spec)
	}
	s = of("task: femnist\nmodel: [flatten, dense: 32, relu, dense]\n")
	if model := s.Welcome.Spec.Model; !strings.HasSuffix(model, "flatten,dense(32),relu,dense(62)") || s.Name != "femnist with "+model {
		t.Errorf("%s: %s", s.Name, model)
	}
	s = of("task: custom\ntrainer: x\nlocal: adamw\ndata: {path: own.csv, client: site, text: text, window: 80}\n" +
		"schedule: {k0: 1, eta0: 0.1}\ncompute.seconds_per_step: 1\nnetwork: {download_mbps: 1, upload_mbps: 1, model_megabits: exact}\nstop.rounds: 1\n")
	if w := s.Welcome; !strings.Contains(w.Spec.Local, "adamw") || !strings.Contains(w.Mapping, "80") {
		t.Errorf("of a trainer: %+v, mapping %q", w.Spec, w.Mapping)
	}
	if s := of("task: cifar100\naugment: flip_crop\n"); s.Welcome.Spec.Augment != "flip_crop" {
		t.Errorf("%+v", s.Welcome.Spec)
	}
}
