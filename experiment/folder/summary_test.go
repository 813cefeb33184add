package folder

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/coordinator/round"
	"fedpace/metrics"
)

const untrainedSummary = `{
  "task": "femnist",
  "data": null,
  "schedule": "rounds",
  "seed": 18446744073709551615,
  "completed": true,
  "rounds": 17203,
  "virtual_seconds": 30374.5,
  "wall_seconds": 4.25,
  "sgd_steps": 89200,
  "relative_sgd_steps": 0.1115,
  "training_loss": null,
  "best_training_loss": null,
  "validation_loss": null,
  "validation_accuracy": null,
  "best_validation_accuracy": null,
  "outcomes": {
    "accepted": 60,
    "late": 0,
    "dropped": 0,
    "lost": 0,
    "cancelled": 0,
    "refused": 3
  },
  "client_seconds": {
    "useful": 1.5,
    "wasted": 0
  },
  "sgd_steps_clients": {
    "useful": 7,
    "wasted": 2
  },
  "bytes": {
    "useful": 0,
    "wasted": 0
  },
  "energy_joules": null,
  "straggler_share": 0.25,
  "time_to_target": null,
  "client_evaluation": null,
  "model_sha256": null,
  "fingerprint": "00ff",
  "kernel": "none",
  "bus": "nats",
  "version": "dev"
}
`

func TestSummary_WrittenAndRead(t *testing.T) {
	s := Summary{
		Task: "femnist", Schedule: "rounds", Seed: math.MaxUint64, Completed: true, Rounds: 17203, VirtualSeconds: 30374.5, WallSeconds: 4.25,
		SGDSteps: 89200, RelativeSGDSteps: metrics.Measured(0.1115), TrainingLoss: metrics.Measured(math.NaN()), ClientSeconds: metrics.Split[float64]{Useful: 1.5}, ClientSteps: metrics.Split[int64]{Useful: 7, Wasted: 2}, StragglerShare: metrics.Measured(0.25),
		Fingerprint: "00ff", Kernel: "none", Bus: "nats", Version: "dev",
	}
	s.Outcomes.Add(&round.Report{Outcomes: [round.Outcomes]int{round.Accepted: 60, round.Refused: 3}})
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(untrainedSummary, string(text)); diff != "" {
		t.Error(diff)
	}
	path := filepath.Join(t.TempDir(), SummaryFile)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSummary(path); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a summary without its digest: %v", err)
	}
	text, err = s.seal()
	if err == nil {
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSummary(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummary_None(t *testing.T) {
	path := filepath.Join(t.TempDir(), SummaryFile)
	for _, text := range []string{"", "[]", `{"task": 3}`, `{"colour": "red"}`, `{"outcomes": {"accepted": 1}}`, "null", "{}"} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSummary(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q gives %v", text, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{"task": 3}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSummary(path); err == nil || err.Error() != path+": not a run's summary: task is of the wrong type, number" {
		t.Errorf("a task that is a number: %v", err)
	}
	if _, err := (Summary{TrainingLoss: new(float64), WallSeconds: math.Inf(1)}).JSON(); err == nil {
		t.Error("an infinite time is written")
	}
}
