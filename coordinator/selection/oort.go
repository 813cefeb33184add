package selection

import (
	"fmt"

	"fedpace/coordinator/closing"
	"fedpace/internal/bitset"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("oort", "high losses and short times, and some new clients", Oort{})
}

// Oort prefers clients from whom much is to be learned in a short time (Lai et al.
// 2021, Algorithm 1). A client is known from its first accepted update on, and new before:
// one whose tasks were late, dropped or cancelled is still new. The utility of a known
// client is
//
//	((U - u)/(v - u) + sqrt(0.1 ln(R)/L)) · (T/t)^α if t > T, else without the last factor:
//
// R is the round, L the round of the client's newest accepted update, t what that
// task took, and T the preferred time. The statistical utility is in the paper U =
// |B| sqrt(1/|B| Σ loss²) over the samples B that the client trained on. Here a
// client reports one loss, the mean of the minibatch of the first local step of that
// update; its samples stand for B, and this mean for the root of the mean square: U
// is the number of the client's samples times the amount of that loss. U is cut at a
// quantile of the utilities of the clients that are free, so that outliers do not
// always win. The paper adds the root, which is below 1 up to round 22,026, to U itself, beside
// which it is nothing; here both are of one size, as in the authors' program (get_norm in their
// oort.py): u is 0.999 times the least U of these clients, v the greatest, and v - u at least
// 0.0001.
//
// A part ε of the cohort are new clients, drawn with probabilities in proportion to
// their speed, 1 / expected time for the local steps of round 1. The others are
// drawn, without replacement, with probabilities in proportion to their utility
// among those that have at least c times that of the last that fits. ε falls by a
// factor after each round. Clients that have had Picks tasks, accepted or not, come last, those
// with the fewest first.
//
// The pacer is the paper's: after every Window rounds, if the sum of U over the updates of
// these is less than over as many before, T grows by its first value. The authors' program has T
// be a percentile of all times instead, which grows where the two sums differ by at most a tenth of
// the earlier one, and falls where they differ by five times it or more: where the later is at
// least six times the earlier. Its sums are over rounds, of the mean U of the exploited clients.
type Oort struct {
	Seconds    float64 `key:"seconds" range:"(0,4e9]" unit:"seconds" help:"preferred time of a task at first, and pacer's step"`
	Window     int     `key:"window" default:"20" range:"[1,1000000]" unit:"rounds" help:"rounds of the pacer"`
	Penalty    int     `key:"penalty" default:"2" range:"[0,100]" help:"alpha: power by which longer tasks count less"`
	Explore    float64 `key:"explore" default:"0.9" range:"[0,1]" help:"epsilon: part of the first cohort that is new clients"`
	Decay      float64 `key:"decay" default:"0.98" range:"[0,1]" help:"factor on epsilon after each round"`
	MinEpsilon float64 `key:"least" default:"0.2" range:"[0,1]" help:"least epsilon"`
	CutOff     float64 `key:"cut_off" default:"0.95" range:"[0,1]" help:"c: part of the cohort's last utility from which clients may be drawn"`
	Clip       float64 `key:"clip" default:"0.95" range:"[0,1]" help:"quantile at which higher utilities are cut"`
	Picks      int     `key:"picks" is:"null" range:"[1,1000000000]" help:"tasks after which a client is selected only if no other can be"`
}

// Order returns the order of a run that begins: no client has had a task, so all of them are new. The
// rule's seconds are the first preferred time, and what the pacer adds to it each time.
func (o Oort) Order(setup Setup) (Order, error) {
	step := closing.Deadline{Seconds: o.Seconds}.Deadline().Seconds()
	return &oortOrder{
		Oort:      o,
		setup:     setup,
		expected:  expectedTimes(&setup),
		pacerStep: step,
		oortMemory: oortMemory{
			Clients:   make([]oortClient, setup.Clients),
			Preferred: step,
			Epsilon:   o.Explore,
		},
		returned: bitset.New(setup.Clients),
	}, nil
}

// Needs says what the rule must be given: rounds that do not overlap and have one cohort, the clients'
// times and numbers of samples, and their losses.
func (Oort) Needs() Needs {
	return Needs{
		Rounds:  true,
		Cohort:  true,
		Times:   true,
		Samples: true,
		Losses:  true,
	}
}

// Validate returns an error if the least share of new clients is more than the first one, since the
// share only shrinks.
func (o Oort) Validate(_, _ int) error {
	if o.MinEpsilon > o.Explore {
		return registry.Errorf("least", "%g is more than explore (at most %g)", o.MinEpsilon, o.Explore)
	}
	return nil
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (o Oort) String() string {
	return fmt.Sprintf("by utility, preferring tasks of %g s, with %g of the first cohort new", o.Seconds, o.Explore)
}

// slownessFactor returns the last factor of the utility of a client whose task took this many seconds:
// (preferred/took)^α if it took longer than preferred, else 1. The exponent α is the option Penalty.
func (o Oort) slownessFactor(took, preferred float64) float64 {
	factor := 1.0
	if took > preferred {
		for range o.Penalty {
			factor *= preferred / took
		}
	}
	return factor
}
