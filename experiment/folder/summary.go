package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fedpace/metrics"
)

// Summary is what a run comes to: the file summary.json. A nil pointer is
// written null, for a value that does not exist.
type Summary struct {
	Task           string  `json:"task"`
	Data           *string `json:"data"`     // what was learned from, with what is synthetic about it; nil: timing only
	Schedule       string  `json:"schedule"` // as in schedule.Names
	Seed           uint64  `json:"seed"`
	Completed      bool    `json:"completed"` // false: interrupted or failed
	Rounds         int     `json:"rounds"`
	VirtualSeconds float64 `json:"virtual_seconds"`
	WallSeconds    float64 `json:"wall_seconds"`
	SGDSteps       int64   `json:"sgd_steps"` // sum of K_r over completed rounds

	RelativeSGDSteps       *float64 `json:"relative_sgd_steps"`
	TrainingLoss           *float64 `json:"training_loss"` // mean over the last window
	BestTrainingLoss       *float64 `json:"best_training_loss"`
	ValidationLoss         *float64 `json:"validation_loss"`
	ValidationAccuracy     *float64 `json:"validation_accuracy"`
	BestValidationAccuracy *float64 `json:"best_validation_accuracy"`

	Outcomes metrics.Outcomes `json:"outcomes"`

	ClientSeconds  metrics.Split[float64]  `json:"client_seconds"`    // of all clients, in virtual time
	ClientSteps    metrics.Split[int64]    `json:"sgd_steps_clients"` // of all clients
	Bytes          metrics.Split[int64]    `json:"bytes"`             // both ways
	EnergyJoules   *metrics.Split[float64] `json:"energy_joules"`     // of the classes that give their watts
	StragglerShare *float64                `json:"straggler_share"`   // mean over rounds of (slowest - median client)/round; null where rounds overlap
	TimeToTarget   *float64                `json:"time_to_target"`    // virtual seconds to evaluate.target, or to stop.validation_accuracy

	ModelSHA256 *string `json:"model_sha256"` // of the tensors' bytes in model order
	Fingerprint string  `json:"fingerprint"`  // of the clock's events
	Kernel      string  `json:"kernel"`       // the class of kernels that trained
	Bus         string  `json:"bus"`          // what carried the messages, see OverNATS
	Version     string  `json:"version"`
}

// What carries a run's messages.
const (
	OverNATS = "nats"
	InMemory = "memory" // of the run's process (nats.url: none)
)

// JSON is the summary as the file holds it. It returns an error for a number
// that JSON cannot hold.
func (s Summary) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	return append(text, '\n'), nil
}

// maxSummary bounds a summary.json, in bytes.
const maxSummary = 1 << 20

// ReadSummary reads a summary.json; it refuses keys that it does not know.
func ReadSummary(path string) (Summary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close() // read only
	d := json.NewDecoder(io.LimitReader(f, maxSummary))
	d.DisallowUnknownFields()
	var s Summary
	if err := d.Decode(&s); err != nil {
		return Summary{}, fmt.Errorf("%s: not a run's summary: %w", path, err)
	}
	return s, nil
}

// Completed returns the summary of the run in a folder; nil where the run is not
// complete, or none is there.
func Completed(dir string) (*Summary, error) {
	s, err := ReadSummary(filepath.Join(dir, SummaryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !s.Completed {
		return nil, err
	}
	return &s, nil
}

// Named is the pointer to a text that may not exist: nil for none.
func Named(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
