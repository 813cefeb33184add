package devices_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/run"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// With real devices the key of the noise is random and its owner's alone; a run with the
// same devices has other noise, and a replay the same.
func TestPrivacy_DeviceNoiseIsSecret(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	var dir string
	for range 2 {
		o, sets := devicesAlone(t, "[d1, d2]", "privacy.clip=0.05", "privacy.noise_multiplier=4", "stop.rounds=3", "devices.keep_updates=true")
		c := runtest.Small(t, sets()...)
		stops := []func(){join(t, o.NATS.URL, "d1"), join(t, o.NATS.URL, "d2")}
		s := mustRun(t, c, o)
		for _, stop := range stops {
			stop()
		}
		if s.Privacy.Rate != 1 || s.Privacy.Simulated {
			t.Errorf("%+v", s.Privacy)
		}
		dir = c.Out
		path := filepath.Join(dir, folder.NoiseFile)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", folder.NoiseFile, info.Mode())
		}
		key, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		keys[string(key)] = true
		sameAgain(t, dir, s)
	}
	if len(keys) != 2 {
		t.Error("two runs have one key")
	}
	if err := os.Remove(filepath.Join(dir, folder.NoiseFile)); err != nil {
		t.Fatal(err)
	}
	c, err := run.LoadReplay(dir, []string{"out=" + t.TempDir()}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{Continuation: run.Continuation{Replay: dir}}); err == nil || !strings.Contains(err.Error(), "the key of the run's noise") {
		t.Errorf("a replay without the key: %v", err)
	}
}

// No device is banned for what the coordinator's own noise does to the model: in about half of
// such runs one would be, by the measure for runs without noise.
func TestPrivacy_NoiseBlamesNoDevice(t *testing.T) {
	t.Parallel()
	runs := 4
	if slow.On() {
		runs = 16
	}
	for range runs {
		o, all := devicesAlone(t, "[d1, d2, d3, d4, d5, d6]", "privacy.clip=1", "privacy.noise_multiplier=15", "privacy.delta=0.01", "stop.rounds=20", "devices.keep_updates=true")
		crowd(t, o.NATS.URL, map[string]lies{"d1": honest, "d2": honest, "d3": honest, "d4": honest, "d5": honest, "d6": honest})
		if s := mustRun(t, runtest.Small(t, all()...), o); len(s.Banned) > 0 {
			t.Errorf("banned are %+v", s.Banned)
		}
	}
}
