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
	"fedpace/registry"
)

// Summary is what a run comes to: the file summary.json. A nil pointer is
// written null, for a value that does not exist.
type Summary struct {
	// Task is the name of the learning task, as the configuration has it.
	Task string `json:"task"`
	// Data says what was learned from and what is synthetic about it; nil means that the run was
	// timed only.
	Data *string `json:"data"`
	// Schedule is the name of the schedule, as in schedule.Names.
	Schedule string `json:"schedule"`
	Seed     uint64 `json:"seed"`
	// Completed says that the run came to its end; it is false if the run was interrupted or
	// failed.
	Completed bool `json:"completed"`
	// Diverged says how the run's model was lost; it is empty if it was not.
	Diverged string `json:"diverged,omitempty"`
	Rounds   int    `json:"rounds"`
	// VirtualSeconds is the virtual time of the run's end.
	VirtualSeconds float64 `json:"virtual_seconds"`
	// WallSeconds is the wall time of the run over all its attempts.
	WallSeconds float64 `json:"wall_seconds"`
	// SGDSteps is the sum of the local steps K_r over the completed rounds.
	SGDSteps int64 `json:"sgd_steps"`

	// RelativeSGDSteps is SGDSteps over those of fixed K in the same virtual time (Table 4).
	RelativeSGDSteps *float64 `json:"relative_sgd_steps"`
	// TrainingLoss is the mean training loss over the last window of rounds.
	TrainingLoss           *float64 `json:"training_loss"`
	BestTrainingLoss       *float64 `json:"best_training_loss"`
	ValidationLoss         *float64 `json:"validation_loss"`
	ValidationAccuracy     *float64 `json:"validation_accuracy"`
	BestValidationAccuracy *float64 `json:"best_validation_accuracy"`

	// Metrics are what models were measured by, first what they are compared by, perhaps the
	// loss. A run whose models have no accuracy has null in the two above.
	Metrics []Metric `json:"metrics,omitempty"`

	Outcomes metrics.Outcomes `json:"outcomes"`
	// LeftOut counts the clients that the selection left out when it was their turn.
	LeftOut int64 `json:"left_out,omitempty"`

	// ClientSeconds is the virtual time that all clients spent, in seconds.
	ClientSeconds metrics.Split[float64] `json:"client_seconds"`
	// ClientSteps is the number of local steps that all clients took.
	ClientSteps metrics.Split[int64] `json:"sgd_steps_clients"`
	// Bytes is the traffic of all clients, both ways.
	Bytes metrics.Split[int64] `json:"bytes"`
	// Tokens is the number of tokens in the local steps that count, over all clients; it is nil where
	// samples have no tokens.
	Tokens *int64 `json:"tokens,omitempty"`
	// EnergyJoules is the energy of the clients in those classes that give their watts.
	EnergyJoules *metrics.Split[float64] `json:"energy_joules"`
	// CarbonGrams is the CO2 that this energy emits, in grams; it is nil where no trace of the
	// electrical grid says so (carbon.file).
	CarbonGrams *float64 `json:"carbon_grams,omitempty"`
	// EnergyCost is what this energy costs, in the currency of that trace; it is nil where the trace
	// has no prices.
	EnergyCost *float64 `json:"energy_cost,omitempty"`
	// StragglerShare is the mean over rounds of (slowest - median client)/round, each a duration; it
	// is null where rounds overlap.
	StragglerShare *float64 `json:"straggler_share"`
	// TimeToTarget is the virtual time in seconds until the model reached evaluate.target or the
	// target that stops the run; it is null if it never did.
	TimeToTarget *float64 `json:"time_to_target"`

	// Attackers are the clients that attacked the run, by class.
	Attackers []Attackers `json:"attackers,omitempty"`
	// ClientEvaluation is the last evaluation of the model on the clients' own samples.
	ClientEvaluation *ClientEvaluation `json:"client_evaluation"`
	// Banned are the real devices that lost their place, in the order of time.
	Banned []Ban `json:"banned,omitempty"`
	// Corrected are the numbers that real devices reported and that counted with another value.
	Corrected []Correction `json:"corrected,omitempty"`
	// Returns counts the rounds with real devices whose model was lost, so that the run went back to
	// its best one.
	Returns int `json:"returns,omitempty"`

	// Privacy says how much privacy the models cost; nil means that the run has no differential
	// privacy.
	Privacy *Privacy `json:"privacy,omitempty"`
	// LocalNoise says what the clients' own noise hides; nil means that they add none.
	LocalNoise *LocalNoise `json:"local_noise,omitempty"`
	// DistributedNoise says what the noise hides that clients add together; nil means that they add none.
	DistributedNoise *DistributedNoise `json:"distributed_noise,omitempty"`
	// Prediction compares the predicted times with the measured ones; it is nil where no real device
	// has a class.
	Prediction *Prediction `json:"prediction,omitempty"`
	// Expected says for each expectation in the configuration whether the run met it.
	Expected []expect.Outcome `json:"expected,omitempty"`

	// ModelSHA256 is the digest of the bytes of the model's tensors, in the order of the model.
	ModelSHA256 *string `json:"model_sha256"`
	// Fingerprint is a digest of the clock's events.
	Fingerprint string `json:"fingerprint"`
	// Kernel is the class of kernels that trained.
	Kernel string `json:"kernel"`
	// DataDigest is the digest of the samples and their split; it is empty where none were read.
	DataDigest string `json:"data_digest,omitempty"`
	// DataSource is the digest of the files that the samples are from, and of how they were read; runs of
	// other seeds have the same one. It is empty where no file was read, and in runs of earlier versions.
	DataSource string `json:"data_source,omitempty"`
	// Inputs are the files that the configuration names, such as links and a start model, as they
	// were when the run was prepared.
	Inputs []InputFile `json:"inputs,omitempty"`
	// Trainer is the trainer that took the local steps; it is nil if this program took them.
	Trainer *Trainer `json:"trainer,omitempty"`
	// Bus says what carried the messages; see OverNATS.
	Bus string `json:"bus"`
	// Forked names the run, and its round, that this run continued. Only summaries of earlier
	// versions, which branched a run into variants, have it.
	Forked  string `json:"forked_from,omitempty"`
	Version string `json:"version"`

	// DevicesMissing are the real devices that never joined, in the order of the configuration.
	DevicesMissing []string `json:"devices_missing,omitempty"`
	// DeviceVersions counts real devices by the version of the program that they reported when they
	// joined last.
	DeviceVersions []metrics.DeviceVersion `json:"device_versions,omitempty"`

	// Files are the digests of the folder's other files, as they were when the run ended.
	Files []FileDigest `json:"files,omitempty"`
	// SummarySHA256 is the digest of this file with zeros in place of this value.
	SummarySHA256 string `json:"summary_sha256,omitempty"`
}

// InputFile is a file that a configuration names, by its content.
type InputFile = registry.InputFile

// Ban is a real device that lost its place in the run.
type Ban struct {
	Device string `json:"device"`
	Reason string `json:"reason"`
	// Seconds is for how long the device is banned; 0 means for good.
	Seconds float64 `json:"seconds,omitempty"`
}

// Correction is a number that a real device told and that counted with another.
type Correction struct {
	Device string `json:"device"`
	// Claim says what was reported: the seconds of a task, samples, or the loss of the first
	// minibatch.
	Claim string `json:"claim"`
	// Times is how often such a number was corrected.
	Times int `json:"times"`
	// Reported is the number that the device reported the first time.
	Reported float64 `json:"told"`
	// Counted is the number that counted in place of Reported.
	Counted float64 `json:"counted"`
}

// Attackers are the clients of a class that attacked the run.
type Attackers struct {
	Class string `json:"class"`
	// Attack is the kind of the attack, with its options.
	Attack string `json:"attack"`
	// Clients is the number of the run's clients in the class, whether or not they had a task.
	Clients int `json:"clients"`
}

// Trainer is the external program that took the local steps of a run.
type Trainer struct {
	// Model names the trainer's script, its digest and the model's tensors.
	Model string `json:"model"`
	// Restarts is the number of the trainer's processes that died on the coordinator's machine.
	Restarts int64 `json:"restarts"`
}

// Privacy is a run's differential privacy: its models, all of them together, are
// (epsilon, delta)-differentially private with respect to each client's samples.
type Privacy struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
	Clip    float64 `json:"clip"`
	Noise   float64 `json:"noise_multiplier"`
	// Updates is the number that the sum of a round's updates is divided by.
	Updates int `json:"updates"`
	// Rate is a client's part of the rounds; 1 means that it may be in all of them.
	Rate float64 `json:"sampling_rate"`
	// PoissonEpsilon is the epsilon for Poisson sampling, which other work reports. It is no bound
	// where cohorts are of a fixed size.
	PoissonEpsilon float64 `json:"epsilon_poisson"`
	// TightEpsilon and TightPoissonEpsilon are the same two by privacy loss distributions, which are
	// smaller; nil where delta or the noise is too small for those.
	TightEpsilon        *float64 `json:"epsilon_pld,omitempty"`
	TightPoissonEpsilon *float64 `json:"epsilon_poisson_pld,omitempty"`
	// Simulated says that the noise follows from the seed, which anyone may know.
	Simulated bool `json:"simulated"`
	// NotCovered lists what the run reveals beside its models.
	NotCovered []string `json:"not_covered"`
}

// LocalNoise is that of clients on their own updates: each update, and all of one client
// together, are (epsilon, delta)-differentially private with respect to all of its samples,
// whoever sees them.
type LocalNoise struct {
	Clip  float64 `json:"clip"`
	Noise float64 `json:"noise_multiplier"`
	Delta float64 `json:"delta"`
	// Epsilon is the epsilon of one update.
	Epsilon float64 `json:"epsilon"`
	// Rounds is the number of rounds of the run.
	Rounds int `json:"rounds"`
	// RoundsEpsilon is the epsilon of a client that has sent an update in each of the rounds.
	RoundsEpsilon float64 `json:"epsilon_rounds"`
	// Simulated says that the noise follows from the seed, which anyone may know, as it does for
	// simulated clients.
	Simulated bool `json:"simulated"`
}

// DistributedNoise is that of the clients of each round together, discrete and exact, in a sum of which
// secure aggregation shows no part.
type DistributedNoise struct {
	Clip  float64 `json:"clip"`
	Noise float64 `json:"noise_multiplier"`
	Delta float64 `json:"delta"`
	// Members is the most clients that a round has, Survivors the fewest with which it counts, and Colluders
	// how many of those may tell their noise.
	Members   int `json:"members"`
	Survivors int `json:"survivors"`
	Colluders int `json:"colluders"`
	// Step is the distance of the points of the grid in a client's update, and Deviation the parameter of
	// the discrete Gaussian noise of one client, in steps.
	Step      float64 `json:"step"`
	Deviation uint64  `json:"deviation_steps"`
	// Rounds is the number of rounds of the run, in each of which a client may take part.
	Rounds int `json:"rounds"`
	// ReplaceOne is for two runs in which one client has other samples, so that its updates differ by up to
	// two clips, and ZeroOut for two of which one has zeros in the place of a client's updates.
	ReplaceOne SumEpsilon `json:"replace_one"`
	ZeroOut    SumEpsilon `json:"zero_out"`
	// Simulated says that the noise follows from the seed, which anyone may know.
	Simulated bool `json:"simulated"`
}

// SumEpsilon is the epsilon of all rounds together by several ways to convert.
type SumEpsilon struct {
	// Concentrated is by concentrated differential privacy, converted at the best Rényi order. It is the one
	// that counts.
	Concentrated float64 `json:"zcdp"`
	// Tight is by privacy loss distributions; nil where its accountant has no answer.
	Tight *float64 `json:"pld"`
	// Simple is rho + 2 sqrt(rho ln 1/delta), to compare.
	Simple float64 `json:"simple"`
}

// String gives the epsilon that counts, by concentrated differential privacy (zCDP), and in parentheses those by
// other methods, to compare.
func (e SumEpsilon) String() string {
	others := fmt.Sprintf("%.4g by the simple formula", e.Simple)
	if e.Tight != nil {
		others = fmt.Sprintf("%.4g by privacy loss distributions, ", *e.Tight) + others
	}
	return fmt.Sprintf("%.4g by zCDP (%s)", e.Concentrated, others)
}

// Metric is what models came to by one of the quantities that they are measured by.
type Metric struct {
	Name string `json:"name"`
	// Better is metric.Lower or metric.Higher.
	Better string `json:"better"`
	// Validation is the value of the final model.
	Validation *float64 `json:"validation"`
	Best       *float64 `json:"best"`
}

// NoUpdates reports whether a run has come to its end without an update that counted, as where
// no client can meet the deadline.
func (s *Summary) NoUpdates() bool {
	return s.Completed && s.Outcomes[round.Accepted] == 0
}

// Metric returns the metric of this name in Metrics. If it is not there, the result has the name and no values.
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
	// Classes holds the values by class of devices, where there are several.
	Classes []ClassFairness `json:"classes,omitempty"`
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

// ByMetric returns how evenly the model serves clients by the metric of this name, or by the loss. If that was not
// measured, the result has the name and no values.
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

// EvaluationByClient returns an evaluation on the clients' own samples in the form of the summary:
// over all clients, and by class. list holds the metrics in the order of the evaluation. It returns
// nil if e is nil.
func EvaluationByClient(list []metric.Metric, e *metrics.ClientEvaluation) *ClientEvaluation {
	if e == nil {
		return nil
	}
	// The accuracy has fields of its own; every other metric is an entry of the list.
	convert := func(f *metrics.Fairness) Fairness {
		result := Fairness{Clients: f.Clients, Loss: f.Loss, WorstLoss: f.WorstLoss}
		for i, m := range f.Metrics {
			measure := MetricFairness{
				list[i].Name,
				metrics.Measured(m.Mean),
				metrics.Measured(m.Worst),
				metrics.Measured(m.Jain),
			}
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
	// InMemory says that messages stay in the memory of the run's process (nats.url: none).
	InMemory = "memory"
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

// seal fills in the digest of the summary, which is that of its JSON with zeros in place of the
// digest, and returns the JSON.
func (s *Summary) seal() ([]byte, error) {
	s.SummarySHA256 = zeroDigest
	text, err := s.JSON()
	if err != nil {
		return nil, err
	}
	s.SummarySHA256 = sealOf(text)
	return s.JSON()
}

// Rewrite writes the summary of a complete run in folder dir again, with a new digest. The file is
// replaced at once or not at all.
func (s *Summary) Rewrite(dir string) error {
	text, err := s.seal()
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, SummaryFile), atomicfile.Bytes(text))
}

// sealOf returns the digest of a summary's text, which must have zeroDigest in place of its own digest.
func sealOf(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// maxSummary bounds a summary.json, in bytes.
const maxSummary = 1 << 20

// ReadSummary reads the summary.json at path. It refuses keys that it does not know, and a file
// that is not as it was written, by the digest that it holds.
func ReadSummary(path string) (Summary, error) {
	text, err := regular.ReadHead(path, maxSummary)
	if err != nil {
		return Summary{}, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var s Summary
	err = d.Decode(&s)
	// The message of the decoder names types of Go, so it is put in other words.
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		err = fmt.Errorf("%s is of the wrong type, %s", cmp.Or(wrong.Field, "all of it"), wrong.Value)
	}
	if err != nil {
		return Summary{}, fmt.Errorf("%s: not a run's summary: %w", path, err)
	}
	if s.Task == "" {
		return Summary{}, fmt.Errorf("%s: not a run's summary: it names no task", path)
	}
	// The digest was computed with zeros in its own place.
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

// TextOrNil returns a pointer to a text, or nil if the text is empty, so that the file has null for a text that does
// not exist.
func TextOrNil(s string) *string {
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
	// Draws is the number of simulated runs that the prediction was made from.
	Draws int `json:"draws"`
	// Rounds is the number of rounds that are compared, counted from the first.
	Rounds int `json:"rounds"`
	// Inside is the number of rounds whose time is within the interval that holds 90 % of the
	// draws.
	Inside int `json:"rounds_inside"`
	// Seconds is the time of those rounds together.
	Seconds Predicted `json:"seconds"`
	// Phases are the phases of a device's task, in their mean.
	Phases []Phase `json:"phases"`
	// Devices are the devices, by the mean of their tasks; of many, those furthest off are listed.
	Devices []Device `json:"devices"`
	// Unknown lists in sentences what the prediction could not know.
	Unknown []string `json:"what_is_unknown"`
}

// Predicted is a time that was measured and predicted: the median of the draws and
// the interval that 90 % of them are in. Measured is null where nothing was.
type Predicted struct {
	Measured *float64 `json:"measured"`
	P05      float64  `json:"p05"`
	P50      float64  `json:"p50"`
	P95      float64  `json:"p95"`
	// Ratio is the measured value over the median; it is null without one of them.
	Ratio *float64 `json:"ratio"`
}

// NewPredicted returns a measured time, NaN for none, beside the quantiles of the draws: p50 is their
// median, and 90 % of them are from p05 to p95.
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

// Phase compares one phase of a device's task (download, compute or upload) with its prediction, in
// seconds.
type Phase struct {
	Phase string `json:"phase"`
	// Overhead is the part of the phase that the classes give as overhead, in seconds, as the mean
	// over the tasks.
	Overhead float64 `json:"overhead"`
	Predicted
}

// Device compares a device's tasks with their prediction, phase by phase, in seconds.
type Device struct {
	Device string `json:"device"`
	Class  string `json:"class"`
	// Tasks is the number of tasks that the device has answered.
	Tasks    int       `json:"tasks"`
	Seconds  Predicted `json:"seconds"`
	Download Predicted `json:"download"`
	Compute  Predicted `json:"compute"`
	Upload   Predicted `json:"upload"`
}
