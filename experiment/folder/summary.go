package folder

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"fedpace/config/expect"
	"fedpace/coordinator/round"
	"fedpace/internal/atomicfile"
	"fedpace/internal/regular"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Summary is what a run comes to: the file summary.json. A nil pointer is
// written null, for a value that does not exist.
type Summary struct {
	Task           string  `json:"task"`
	Data           *string `json:"data"`     // what was learned from, with what is synthetic about it; nil: timing only
	Schedule       string  `json:"schedule"` // as in schedule.Names
	Seed           uint64  `json:"seed"`
	Completed      bool    `json:"completed"`          // false: interrupted or failed
	Diverged       string  `json:"diverged,omitempty"` // how its model was lost; empty: it was not
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

	// Metrics are what models were measured by, first what they are compared by, perhaps the
	// loss. A run whose models have no accuracy has null in the two above.
	Metrics []Metric `json:"metrics,omitempty"`

	Outcomes metrics.Outcomes `json:"outcomes"`
	LeftOut  int64            `json:"left_out,omitempty"` // clients that the selection left out when it was their turn

	ClientSeconds metrics.Split[float64] `json:"client_seconds"`    // of all clients, in virtual time
	ClientSteps   metrics.Split[int64]   `json:"sgd_steps_clients"` // of all clients
	Bytes         metrics.Split[int64]   `json:"bytes"`             // both ways
	// of the steps that count, of all clients; nil: samples have none
	Tokens       *int64                  `json:"tokens,omitempty"`
	EnergyJoules *metrics.Split[float64] `json:"energy_joules"` // of the classes that give their watts
	// mean over rounds of (slowest - median client)/round; null where rounds overlap
	StragglerShare *float64 `json:"straggler_share"`
	// virtual seconds to evaluate.target, or to what stops the run
	TimeToTarget *float64 `json:"time_to_target"`

	Attackers        []Attackers       `json:"attackers,omitempty"` // by class
	ClientEvaluation *ClientEvaluation `json:"client_evaluation"`   // the last, on the clients' own samples
	Banned           []Ban             `json:"banned,omitempty"`    // real devices, in the order of time
	// what real devices told that counted with another number
	Corrected []Correction `json:"corrected,omitempty"`
	// rounds with real devices whose model was lost, and after which the run went back to its best one
	Returns int `json:"returns,omitempty"`

	// what the models cost; nil: the run has no differential privacy
	Privacy    *Privacy    `json:"privacy,omitempty"`
	LocalNoise *LocalNoise `json:"local_noise,omitempty"` // what the clients' own noise hides; nil: they add none
	// beside what the run took; nil where no real device has a class
	Prediction *Prediction      `json:"prediction,omitempty"`
	Expected   []expect.Outcome `json:"expected,omitempty"` // what came of what the configuration expects

	ModelSHA256 *string `json:"model_sha256"`          // of the tensors' bytes in model order
	Fingerprint string  `json:"fingerprint"`           // of the clock's events
	Kernel      string  `json:"kernel"`                // the class of kernels that trained
	DataDigest  string  `json:"data_digest,omitempty"` // of samples and split; "": none were read
	// Inputs are the files that the configuration names, such as links and a start model, as they
	// were when the run was prepared.
	Inputs  []InputFile `json:"inputs,omitempty"`
	Trainer *Trainer    `json:"trainer,omitempty"` // that took the steps; nil: they were taken here
	Bus     string      `json:"bus"`               // what carried the messages, see OverNATS
	// Forked names the run, and its round, that this run continued. Only summaries of earlier
	// versions, which branched a run into variants, have it.
	Forked  string `json:"forked_from,omitempty"`
	Version string `json:"version"`

	// what real devices told of their programs when they joined last
	DeviceVersions []metrics.DeviceVersion `json:"device_versions,omitempty"`

	// what the other files of the folder held when the run ended
	Files         []FileDigest `json:"files,omitempty"`
	SummarySHA256 string       `json:"summary_sha256,omitempty"` // of this file with zeros in place of this value
}

// InputFile is a file that a configuration names, by its content.
type InputFile struct {
	Key    string `json:"key"`  // of the configuration, as network.links
	Path   string `json:"path"` // as the configuration writes it
	SHA256 string `json:"sha256"`
}

// Ban is a real device that lost its place in the run.
type Ban struct {
	Device  string  `json:"device"`
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds,omitempty"` // for which; 0: for good
}

// Correction is a number that a real device told and that counted with another.
type Correction struct {
	Device   string  `json:"device"`
	Claim    string  `json:"claim"`   // seconds of a task, samples, or the loss of its first minibatch
	Times    int     `json:"times"`   // that it happened
	Reported float64 `json:"told"`    // the first time
	Counted  float64 `json:"counted"` // in its place
}

// Attackers are the clients of a class that attacked the run.
type Attackers struct {
	Class   string `json:"class"`
	Attack  string `json:"attack"`  // its kind and options
	Clients int    `json:"clients"` // of the run, whether or not they had a task
}

type Trainer struct {
	Model    string `json:"model"`    // names the script, its digest and the model's tensors
	Restarts int64  `json:"restarts"` // of processes that died, on the coordinator's machine
}

// Privacy is a run's differential privacy: its models, all of them together, are
// (epsilon, delta)-differentially private with respect to each client's samples.
type Privacy struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
	Clip    float64 `json:"clip"`
	Noise   float64 `json:"noise_multiplier"`
	Updates int     `json:"updates"`       // that the sum of a round is divided by
	Rate    float64 `json:"sampling_rate"` // a client's part of the rounds; 1: it may be in all
	// as other work calculates it; no bound where cohorts are of a fixed size
	PoissonEpsilon float64  `json:"epsilon_poisson"`
	Simulated      bool     `json:"simulated"`   // the noise follows from the seed, which anyone may know
	NotCovered     []string `json:"not_covered"` // what the run tells beside
}

// LocalNoise is that of clients on their own updates: each update, and all of one client
// together, are (epsilon, delta)-differentially private with respect to all of its samples,
// whoever sees them.
type LocalNoise struct {
	Clip          float64 `json:"clip"`
	Noise         float64 `json:"noise_multiplier"`
	Delta         float64 `json:"delta"`
	Epsilon       float64 `json:"epsilon"`        // of one update
	Rounds        int     `json:"rounds"`         // of the run
	RoundsEpsilon float64 `json:"epsilon_rounds"` // of a client that has sent an update in each
	// the noise of simulated clients follows from the seed, which anyone may know
	Simulated bool `json:"simulated"`
}

// Metric is what models came to by one of the quantities that they are measured by.
type Metric struct {
	Name       string   `json:"name"`
	Better     string   `json:"better"`     // metric.Lower or metric.Higher
	Validation *float64 `json:"validation"` // of the final model
	Best       *float64 `json:"best"`
}

// NoUpdates reports whether a run has come to its end without an update that counted, as where
// no client can meet the deadline.
func (s *Summary) NoUpdates() bool {
	return s.Completed && s.Outcomes[round.Accepted] == 0
}

// Metric is one of Metrics; without values if it is not there.
func (s *Summary) Metric(name string) Metric {
	if i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name }); i >= 0 {
		return s.Metrics[i]
	}
	return Metric{Name: name}
}

// ClientEvaluation is how a model did on the clients' own samples.
type ClientEvaluation struct {
	Round int `json:"round"`
	Fairness
	Classes []ClassFairness `json:"classes,omitempty"` // of devices, where there are several
}

// Fairness is a [metrics.Fairness]. A metric besides the accuracy is in Metrics.
type Fairness struct {
	Clients       int      `json:"clients"`
	Accuracy      *float64 `json:"mean_accuracy"`
	WorstAccuracy *float64 `json:"worst_decile_accuracy"`
	Jain          *float64 `json:"jain_accuracy"`
	Loss          float64  `json:"mean_loss"`
	WorstLoss     float64  `json:"worst_decile_loss"`

	Metrics []MetricFairness `json:"metrics,omitempty"`
}

// ByMetric is how evenly the model serves clients by a metric, or by the loss; without values if
// that was not measured.
func (f *Fairness) ByMetric(name string) MetricFairness {
	switch i := slices.IndexFunc(f.Metrics, func(m MetricFairness) bool { return m.Name == name }); {
	case i >= 0:
		return f.Metrics[i]
	case name == metric.Accuracy:
		return MetricFairness{name, f.Accuracy, f.WorstAccuracy, f.Jain}
	case name == metric.Loss:
		return MetricFairness{Name: name, Mean: &f.Loss, Worst: &f.WorstLoss}
	}
	return MetricFairness{Name: name}
}

// MetricFairness is a [metrics.MetricFairness].
type MetricFairness struct {
	Name  string   `json:"name"`
	Mean  *float64 `json:"mean"`
	Worst *float64 `json:"worst_decile"`
	Jain  *float64 `json:"jain"`
}

// ClassFairness is that of the clients of one class of devices.
type ClassFairness struct {
	Class string `json:"class"`
	Fairness
}

// EvaluationByClient is an evaluation by these metrics as the summary has it; nil of none.
func EvaluationByClient(list []metric.Metric, e *metrics.ClientEvaluation) *ClientEvaluation {
	if e == nil {
		return nil
	}
	convert := func(f *metrics.Fairness) Fairness {
		result := Fairness{Clients: f.Clients, Loss: f.Loss, WorstLoss: f.WorstLoss}
		for i, m := range f.Metrics {
			measure := MetricFairness{list[i].Name, metrics.Measured(m.Mean), metrics.Measured(m.Worst), metrics.Measured(m.Jain)}
			if measure.Name == metric.Accuracy {
				result.Accuracy = measure.Mean
				result.WorstAccuracy = measure.Worst
				result.Jain = measure.Jain
				continue
			}
			result.Metrics = append(result.Metrics, measure)
		}
		return result
	}
	s := &ClientEvaluation{Round: e.Round, Fairness: convert(&e.All)}
	for i := range e.Classes {
		s.Classes = append(s.Classes, ClassFairness{e.Classes[i].Class, convert(&e.Classes[i].Fairness)})
	}
	return s
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

// zeroDigest stands in a summary for its own digest while that is calculated.
var zeroDigest = strings.Repeat("0", 2*sha256.Size)

// seal fills in the digest of the summary's JSON, and returns it.
func (s *Summary) seal() ([]byte, error) {
	s.SummarySHA256 = zeroDigest
	text, err := s.JSON()
	if err != nil {
		return nil, err
	}
	s.SummarySHA256 = sealOf(text)
	return s.JSON()
}

// Rewrite writes the summary of a complete run again.
func (s *Summary) Rewrite(dir string) error {
	text, err := s.seal()
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, SummaryFile), atomicfile.Bytes(text))
}

// sealOf is the digest of a text that holds unsealed.
func sealOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// maxSummary bounds a summary.json, in bytes.
const maxSummary = 1 << 20

// ReadSummary reads a summary.json. It refuses keys that it does not know, and a
// file that is not as it was written.
func ReadSummary(path string) (Summary, error) {
	text, err := regular.ReadHead(path, maxSummary)
	if err != nil {
		return Summary{}, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var s Summary
	err = d.Decode(&s)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%s is of the wrong type, %s", cmp.Or(wrong.Field, "all of it"), wrong.Value)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("%s: not a run's summary: %w", path, err)
	}
	if s.Task == "" {
		return Summary{}, fmt.Errorf("%s: not a run's summary: it names no task", path)
	}
	if seal := s.SummarySHA256; seal == "" || sealOf(bytes.Replace(text, []byte(seal), []byte(zeroDigest), 1)) != seal {
		return Summary{}, fmt.Errorf(
			"%s: %w, or damaged: its summary_sha256 is not that of what it holds",
			path,
			ErrChanged,
		)
	}
	return s, nil
}

// Completed returns the summary of the run in a folder; nil where the run is not
// complete, or none is there.
func Completed(dir string) (*Summary, error) {
	state, s, err := (&Run{Dir: dir}).State()
	if err != nil {
		return nil, fmt.Errorf("%w (remove the folder, and give the command again)", err)
	}
	if state != RunComplete {
		return nil, nil
	}
	return s, nil
}

// Named is the pointer to a text that may not exist: nil for none.
func Named(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// PredictionFile compares each round of a run with real devices with its prediction.
const PredictionFile = "prediction.csv"

// Prediction is what a run with real devices took beside what was predicted of it: many
// draws of the same run with a simulated client of its class in place of each device.
type Prediction struct {
	Draws   int       `json:"draws"`
	Rounds  int       `json:"rounds"`          // that are compared, from the first on
	Inside  int       `json:"rounds_inside"`   // whose time is within the interval, which holds 90 % of the draws
	Seconds Predicted `json:"seconds"`         // of those rounds together
	Phases  []Phase   `json:"phases"`          // of a task of a device, in their mean
	Devices []Device  `json:"devices"`         // of a task, in its mean; if they are many, those that are furthest off
	Unknown []string  `json:"what_is_unknown"` // in sentences
}

// Predicted is a time that was measured and predicted: the median of the draws and
// the interval that 90 % of them are in. Measured is null where nothing was.
type Predicted struct {
	Measured *float64 `json:"measured"`
	P05      float64  `json:"p05"`
	P50      float64  `json:"p50"`
	P95      float64  `json:"p95"`
	Ratio    *float64 `json:"ratio"` // measured over the median; null without one of them
}

// NewPredicted is what was measured, NaN for nothing, beside the median and the interval
// of the draws.
func NewPredicted(measured, p05, p50, p95 float64) Predicted {
	p := Predicted{P05: p05, P50: p50, P95: p95}
	if !math.IsNaN(measured) {
		p.Measured = &measured
		if ratio := measured / p50; p50 > 0 {
			p.Ratio = &ratio
		}
	}
	return p
}

// Inside reports whether the measured value is in the interval.
func (p *Predicted) Inside() bool {
	return p.Measured != nil && *p.Measured >= p.P05 && *p.Measured <= p.P95
}

type Phase struct {
	Phase    string  `json:"phase"`
	Overhead float64 `json:"overhead"` // seconds of it that the classes give as overhead, in the mean over the tasks
	Predicted
}

type Device struct {
	Device   string    `json:"device"`
	Class    string    `json:"class"`
	Tasks    int       `json:"tasks"` // that it has answered
	Seconds  Predicted `json:"seconds"`
	Download Predicted `json:"download"`
	Compute  Predicted `json:"compute"`
	Upload   Predicted `json:"upload"`
}
