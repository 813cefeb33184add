package schedule

import (
	"math"
	"slices"
	"strings"

	"fedpace/policy"
	"fedpace/registry"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("python", "a Python subclass of fedpace.LocalSteps", PythonK{})
	Etas.Register("python", "a Python subclass of fedpace.LearningRate", PythonEta{})
}

// reads is the option of schedules in Python that says which measured values the class reads.
type reads struct {
	Reads string `key:"reads" default:"" help:"measured values that it needs: losses, validation, stragglers"`
}

// Validate returns an error if the option reads has a word that stands for no measured value. The
// words are losses, validation and stragglers.
func (r reads) Validate() error {
	for _, word := range r.words() {
		if !slices.Contains([]string{"losses", "validation", "stragglers"}, word) {
			return registry.Errorf("reads", "%q is not one of losses, validation, stragglers", word)
		}
	}
	return nil
}

// Needs says which measured values the run must provide for a policy: those that the words in the
// option reads stand for.
func (r reads) Needs() (n Needs) {
	words := r.words()
	n.Losses = slices.Contains(words, "losses")
	n.Validation = slices.Contains(words, "validation")
	n.Stragglers = slices.Contains(words, "stragglers")
	return n
}

// words splits the option into its words.
func (r reads) words() []string {
	return strings.FieldsFunc(r.Reads, func(c rune) bool { return c == ',' || c == ' ' })
}

// PythonK is a schedule of K whose K_r a class in Python gives, rounded up to a whole number. K_0
// holds where no process is bound, as on a host.
type PythonK struct {
	policy.Python
	reads
}

// Kind names the base class in Python.
func (PythonK) Kind() string { return "LocalSteps" }

// LocalSteps returns the local steps of the next round by the answer of the user's class, rounded up. It
// is K_0 if no process is bound, and if the class fails or its answer is no number of steps, which ends
// the run.
func (s PythonK) LocalSteps(progress Progress) int {
	if s.Asker() == nil {
		return progress.K0
	}
	var answer float64
	if !s.Asker().Ask("local_steps", newQuestion(&progress), &answer) {
		return progress.K0
	}
	// Where the run counts epochs, the class answers in epochs, and a schedule returns thousandths.
	k := math.Ceil(float64(answer * float64(progress.partsPerUnit())))
	if !(k >= 1 && k <= MaxK0) {
		s.Asker().Fail("local_steps", "%g is no number of local steps (1 to %d)", answer, MaxK0/progress.partsPerUnit())
		return progress.K0
	}
	return int(k)
}

// PythonEta is a schedule of learning rates that a class in Python gives. eta_0 holds where no process
// is bound.
type PythonEta struct {
	policy.Python
	reads
}

// Kind names the base class in Python.
func (PythonEta) Kind() string { return "LearningRate" }

// LearningRate returns the learning rate of the next round by the answer of the user's class. It is
// eta_0 if no process is bound, and if the class fails or its answer is no rate, which ends the run.
func (s PythonEta) LearningRate(progress Progress) float64 {
	if s.Asker() == nil {
		return progress.Eta0
	}
	var answer float64
	if !s.Asker().Ask("learning_rate", newQuestion(&progress), &answer) {
		return progress.Eta0
	}
	if !(answer >= 0) || math.IsInf(answer, 0) {
		s.Asker().Fail("learning_rate", "%g is no learning rate (0 or more)", answer)
		return progress.Eta0
	}
	return answer
}

// progressQuestion is the question to a policy in Python: [Progress] as the class gets it. A value that is not
// known is nil.
type progressQuestion struct {
	Round   int     `json:"round"`
	Seconds float64 `json:"seconds"`
	// K0 is the initial number of local steps, or of epochs.
	K0             float64           `json:"k0"`
	Eta0           float64           `json:"eta0"`
	Loss           *float64          `json:"loss"`
	InitialLoss    *float64          `json:"initial_loss"`
	LossRatio      *float64          `json:"loss_ratio"`
	Accuracy       *float64          `json:"accuracy"`
	Converged      bool              `json:"converged"`
	StragglerShare *float64          `json:"straggler_share"`
	LearningRate   *float64          `json:"learning_rate"`
	Previous       *previousDecision `json:"previous"`
}

// previousDecision is the decision about the round before, nil in the first round.
type previousDecision struct {
	LocalSteps   float64 `json:"local_steps"`
	LearningRate float64 `json:"learning_rate"`
	Seconds      float64 `json:"seconds"`
}

// newQuestion returns what is known when a round starts, as the question to a policy in Python. A value
// that is not known, or not finite, is nil. Steps are in the unit in which the options count K: local steps
// or epochs.
func newQuestion(progress *Progress) *progressQuestion {
	known := func(x float64, ok bool) *float64 {
		if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	partsPerUnit := float64(progress.partsPerUnit())
	question := &progressQuestion{
		Round:          progress.Round,
		Seconds:        progress.Seconds,
		K0:             float64(progress.K0) / partsPerUnit,
		Eta0:           progress.Eta0,
		Loss:           known(progress.Loss, progress.HasLoss),
		InitialLoss:    known(progress.F0, progress.HasLoss),
		LossRatio:      known(progress.LossRatio, progress.HasLoss),
		Accuracy:       known(progress.Accuracy, progress.HasAccuracy),
		Converged:      progress.Converged,
		StragglerShare: known(progress.StragglerShare, true),
		LearningRate:   known(progress.LearningRate, progress.LearningRate != 0),
	}
	if progress.Previous.LocalSteps > 0 {
		question.Previous = &previousDecision{
			LocalSteps:   float64(progress.Previous.LocalSteps) / partsPerUnit,
			LearningRate: progress.Previous.LearningRate,
			Seconds:      progress.Previous.Seconds,
		}
	}
	return question
}
