package schedule

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/registry"
)

// Progress is what is known when a round starts.
type Progress struct {
	// Setup is what the run gave its schedules before it started.
	Setup
	// Round is r, from 1.
	Round int

	// LossRatio is F_r/F_0 (Eq. 13, 14), known only when HasLoss. It can exceed 1.
	LossRatio float64
	HasLoss   bool
	// Loss is F_r itself, where HasLoss.
	Loss float64

	// Seconds is the virtual time at which the round starts.
	Seconds float64

	// Converged says that the validation error has reached its plateau. Once
	// true it stays so.
	Converged bool

	// F0 is what F_r is measured against, where HasLoss.
	F0 float64

	// Accuracy is the newest validation accuracy, from 0 to 1, where HasAccuracy.
	Accuracy    float64
	HasAccuracy bool

	// StragglerShare is the part of the last round's time between the end of its
	// median client and that of its slowest, from 0 to 1. It is NaN if it is not
	// known. See [Needs].Stragglers.
	StragglerShare float64

	// Pace is what the rounds so far took on the virtual clock. See [Needs].Pace.
	Pace Pace
	// Share is the part of the run that is over, by the limit that it is nearest to: 0 to 1. It is
	// NaN where no limit says how long the run will be.
	Share float64

	// Change is the newest change of the data that was seen in the losses, and LossRise by how many
	// standard deviations they have risen since. See [Needs].Changes.
	Change   Change
	LossRise float64

	// Previous is the decision about the round before. It is the zero value in the first round.
	Previous Decision
	// LearningRate is eta_r. It is given to schedules of K alone.
	LearningRate float64
}

// Pace is how long a round takes, as a straight line of its K: Round + K Step seconds of virtual time.
// The client that a round waits for decides it.
type Pace struct {
	// Known says that a round has been measured. The other fields are 0 until then.
	Known bool
	// Round is what a round takes whatever its K: transfers, overheads, and waiting for a deadline.
	Round float64
	// Step is what each more of K takes: of a local step, or of a part of an epoch.
	Step float64
}

// Reason is what a steered schedule of K decided a round by. It is the zero value where nothing was
// measured yet.
type Reason struct {
	// Pace is what rounds and steps took.
	Pace
	// Top is the largest K that the schedule would take, were the run at its begin.
	Top float64
	// Share is the part of the run that was over, 0 where no limit says.
	Share float64
	// LossRise is by how many standard deviations the clients' losses have risen, see [ChangeTest].
	LossRise float64
	// ChangeRound is the round in which a change of the data was noticed last, 0 if there was none.
	ChangeRound int
}

// Reasoning is a schedule of K that says why it decides as it does.
type Reasoning interface {
	K
	// Reason is why LocalSteps returns what it does.
	Reason(Progress) Reason
}

// Decision has the values that the schedules gave for a round.
type Decision struct {
	// LocalSteps is the number that the schedule of K gave.
	LocalSteps int
	// LearningRate is eta.
	LearningRate float64
	// Seconds is the virtual time at which the schedules were asked.
	Seconds float64
}

// MaxK0 bounds K_0, so that the integers of the schedules do not overflow. ErrorK
// answers MaxK0 + 1 for whatever exceeds it.
const MaxK0 = 1 << 30

// Setup is what a run gives its schedules before it starts.
type Setup struct {
	// K0 is the number of local steps at the start, or of thousandths of an epoch, from 1 to MaxK0.
	K0 int
	// Eta0 is the learning rate at the start.
	Eta0 float64
	// DecayRound is the last round before the decay of step. 0 decays when the validation has
	// converged.
	DecayRound int
	Theory     Theory
	// PartsPerUnit is into how many parts the unit is divided in which the options of a schedule of K count:
	// [Parts] if options count epochs, since K_0 and what a schedule returns then count parts of an
	// epoch. 0 or 1 means that all of them count local steps.
	PartsPerUnit int
}

// Parts is into how many parts an epoch is divided, so that K can decay by less than
// one of them.
const Parts = 1000

// partsPerUnit returns how many of what a schedule of K returns make one unit of its options, at least 1: 1
// if both count local steps, [Parts] if options count epochs and K counts parts of an epoch.
func (s *Setup) partsPerUnit() int { return max(1, s.PartsPerUnit) }

// Theory holds the constants of [TheoryK].
type Theory struct {
	// Factor and Offset are what Eq. 9 has besides F and W: the gap is κ(F −
	// Offset), with F* as the Offset (or F*/κ for the printed gap κF − F*), and
	// Factor is κ (|x|/D + |x|/U) / (8 η² L G² (1 + 1/(2N))), in seconds by
	// loss.
	Factor, Offset float64
	// Until is the virtual second at which the run ends. With it W is the time
	// ahead, as the theorem has it. 0 means that W is the time elapsed, as the
	// paper's schedules have it.
	Until float64
}

// Needs is what a schedule must be given: Losses for LossRatio, Loss and F0,
// Validation for Converged and Accuracy, Stragglers for StragglerShare, Pace for Pace and Share, Changes for
// Change and LossRise.
type Needs = registry.Needs

// NeedsOf returns what a component needs in a run with this setup. A schedule whose needs depend on the
// setup has the method NeedsWith; those of others are the same in every run.
func NeedsOf(component any, run Setup) Needs {
	if s, ok := component.(interface{ NeedsWith(Setup) Needs }); ok {
		return s.NeedsWith(run)
	}
	return registry.NeedsOf(component)
}

// K is a schedule of local steps. It may have the method Validate() error for options
// that do not fit each other, and Check, which says why it has no LocalSteps in a round.
// One with the method AtMostK0() promises that K_r never exceeds K_0.
type K interface {
	// LocalSteps is K_r, at least 1. It is not clamped to K_0.
	LocalSteps(Progress) int
}

// Eta is a schedule of learning rates.
type Eta interface {
	// LearningRate is eta_r.
	LearningRate(Progress) float64
}

// The schedules that a configuration can name.
var (
	Ks   = registry.New[K]("schedule", "rule")
	Etas = registry.New[Eta]("schedule", "rule")
)

// AtMostK0 reports whether a schedule of K promises never to exceed K_0.
func AtMostK0(k K) bool {
	_, ok := k.(interface{ AtMostK0() })
	return ok
}

// Validate says what is wrong with the options of a schedule of K or eta beyond
// their tags, if its method Validate does.
func Validate(schedule any) error {
	if v, ok := schedule.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// Epochs turns epochs into local steps, where a schedule of K counts epochs. An epoch is one pass
// over a client's samples, so a client with more data takes longer.
type Epochs struct {
	// Batch is the number of samples of a minibatch. 0 means that K counts local steps.
	Batch int
	// Samples is the mean number of samples of a client, from which the K_r of reports follows.
	Samples float64
	// PerClient returns the size of a client's own minibatches, 0 for one that has Batch. nil
	// means that all clients have Batch.
	PerClient func(client int) int
}

// ForClient returns how epochs become local steps for one client: with minibatches of its own size,
// if its class has one.
func (e Epochs) ForClient(client int) Epochs {
	if e.PerClient != nil {
		e.Batch = cmp.Or(e.PerClient(client), e.Batch)
	}
	return e
}

// Steps returns the local steps that a client with a number of samples takes for k parts of an
// epoch, of which [Parts] make a whole: at least 1, and at most one more than [MaxK0].
//
// A pass over n samples is ceil(n/Batch) steps, since the reader of minibatches completes the last
// one of a pass from the head of the same pass. Several epochs are therefore a multiple of that,
// however few samples the last minibatch of a pass would have by itself.
func (e Epochs) Steps(k int, samples float64) int {
	stepsPerPass := math.Ceil(samples / float64(e.Batch))
	steps := math.Ceil(float64(k) * stepsPerPass / Parts)
	return int(min(max(1, steps), MaxK0+1))
}

// Fixed is the name of the pair of schedules that change nothing, with which the
// others are compared.
const Fixed = "fixed"

// Pair names a schedule of K and one of eta, by their names in [Ks] and [Etas].
type Pair struct{ K, Eta string }

// tableNames are the rows of Table 3, and Eq. 9 itself: a schedule of K has its name alone, one of eta
// has "eta-" before it.
var tableNames = []string{"dsgd", Fixed, "rounds", "error", "step", "eta-rounds", "eta-error", "eta-step", "theory"}

// Names lists what Parse understands: the rows of Table 3 in their order,
// theory, and the other schedules for which a name is enough, because no option of
// theirs is required.
func Names() []string {
	list := slices.Clone(tableNames)
	for _, rules := range []struct {
		prefix  string
		entries []registry.Entry
	}{{"", Ks.Entries}, {"eta-", Etas.Entries}} {
		for _, rule := range rules.entries {
			name := rules.prefix + rule.Name
			needsOptions := slices.ContainsFunc(
				registry.Options(rule.Type()),
				func(o registry.Option) bool { return !o.Optional },
			)
			if !needsOptions && rule.Name != Fixed && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// Renamed returns the name of the schedule that was called old before: by the paper's name, or with
// the prefix "k-". It is "" if no schedule was called that.
func Renamed(old string) string {
	name := strings.TrimPrefix(
		strings.NewReplacer("K-eta-fixed", Fixed, "K_r-", "", "eta_r-", "eta-").Replace(old),
		"k-",
	)
	if name == old || !slices.Contains(Names(), name) {
		return ""
	}
	return name
}

// Parse returns the pair of schedules that a name stands for, one of [Names]. In each pair one of K
// and eta is fixed: a name with the prefix eta- is a schedule of eta, any other one of K.
func Parse(name string) (Pair, error) {
	if !slices.Contains(Names(), name) {
		return Pair{}, fmt.Errorf(
			"schedule: %.40q is not known as a schedule, want one of %s",
			name,
			strings.Join(Names(), ", "),
		)
	}
	if eta, ok := strings.CutPrefix(name, "eta-"); ok {
		return Pair{Fixed, eta}, nil
	}
	return Pair{name, Fixed}, nil
}

// String returns the name of the pair: one that Parse reads if K or eta is fixed, or else the names
// of both schedules, as in "rounds+eta-step", which the paper leaves out.
func (p Pair) String() string {
	eta := "eta-" + p.Eta
	switch {
	case p.Eta == Fixed:
		return p.K
	case p.K == Fixed:
		return eta
	}
	return p.K + "+" + eta
}
