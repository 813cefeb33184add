package calibrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/device"
	"fedpace/experiment/config"
)

// What calibrate writes is a class that a run reads, with the measured time.
func TestACalibrationIsAClass(t *testing.T) {
	for _, task := range []config.Task{config.TaskSent140, config.TaskFEMNIST, config.TaskCIFAR100, config.TaskShakespeare} {
		c, err := Calibrate(t.Context(), task, 3)
		if err != nil {
			t.Fatal(err)
		}
		if !(c.Mean > 0 && c.Mean < 60 && c.Std >= 0) || c.PaperMean == 0 {
			t.Errorf("%+v", c)
		}
		path := filepath.Join(t.TempDir(), "class.yaml")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WriteClass(f, "pi"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		config, err := config.Load(path, []string{"cohort=5", "clients=10"})
		if err != nil {
			t.Fatal(err)
		}
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		class := config.Fleet[0]
		if got := class.SecondsPerStep.(device.Constant).Value; config.Task != task || class.Name != "pi" || got < 0.999*c.Mean || got > 1.001*c.Mean {
			t.Errorf("%v comes back as %+v", c, class)
		}
	}
}

// Two numbers: their mean, and half their distance times the root of two.

func TestCalibrationsThatCannotBe(t *testing.T) {
	if _, err := Calibrate(t.Context(), config.TaskQuadratic, 100); err == nil || !strings.Contains(err.Error(), "Table 2") {
		t.Errorf("%v", err)
	}
	if _, err := Calibrate(t.Context(), config.TaskFEMNIST, 1); err == nil || !strings.Contains(err.Error(), "1 steps, want 2") {
		t.Errorf("%v", err)
	}
	if err := new(Calibration).WriteClass(os.Stderr, "a b"); err == nil {
		t.Error("a name with a space is taken")
	}
}

func TestMeanAndDeviation(t *testing.T) {
	if mean, deviation := meanAndDeviation([]float64{1, 3}); mean != 2 || deviation < 1.41421356 || deviation > 1.41421357 {
		t.Errorf("%g, %g", mean, deviation)
	}
}
