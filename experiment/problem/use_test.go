package problem

import (
	"math"
	"os"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/experiment/runtest"
)

// A task of a phone that draws 1, 4 and 2 W in its phases, from 10:59:50 on: it downloads for 5 s,
// computes for 15 s, of which 10 are in the next hour, and uploads for 10 s. By hand, of the hours of
// 400 and 100 g and 0.36 and 0.72 a kWh:
//
//	joules  1·5 + 4·15 + 2·10                                  = 85
//	grams   (1·5 + 4·5)/3.6e6 · 400 + (4·10 + 2·10)/3.6e6 · 100 = 0.0027778 + 0.0016667
//	cost    25/3.6e6 · 0.36 + 60/3.6e6 · 0.72                   = 2.5e-6 + 1.2e-5
func TestTiming_UsesOfTask(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/grid.csv"
	const text = "hour,zone,g,price\n2024-03-01 10:00,DEU,400,0.36\n2024-03-01 11:00,DEU,100,0.72\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c := runtest.Stragglers(t, "train=false", "network.model_megabits=8",
		"fleet=[{name: phone, watts: {download: 1, compute: 4, upload: 2}, zone: DEU}]",
		"carbon={file: "+file+", columns: [hour, zone, g, price], start: 2024-03-01T10:59:00Z, source: made, year: 2024}")
	p, err := Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const second = round.Time(1e9)
	task := round.TaskReport{
		Outcome: round.Accepted,
		Start:   50 * second,
		End:     80 * second,
		Plan:    round.Plan{Download: 5 * second, Compute: 15 * second, Upload: 10 * second},
	}
	used, err := p.uses()(&task)
	if err != nil {
		t.Fatal(err)
	}
	// A model of 8 Mbit is a megabyte, each way.
	if used.Time != 30*second || used.Bytes != 2e6 || used.Joules != 85 {
		t.Errorf("the task used %+v, want 30 s, 2 MB and 85 J", used)
	}
	if want := 0.01/3.6 + 0.006/3.6; math.Abs(used.Grams-want) > 1e-15 {
		t.Errorf("%v g, want %v", used.Grams, want)
	}
	if want := 1.45e-5; math.Abs(used.Cost-want) > 1e-18 {
		t.Errorf("it costs %v, want %v", used.Cost, want)
	}
	// Half of the upload would be after the file's last hour.
	task.Start += 3595 * second
	task.End += 3595 * second
	if _, err := p.uses()(&task); err == nil {
		t.Error("a task after the last hour has a use")
	}
}
