package schedule

import (
	"math/big"
	"sort"

	"fedpace/internal/portable/exact"
	"fedpace/registry"
)

// init registers the schedule under the name by which a configuration chooses it. The text is its line
// in the list of schedules.
func init() {
	Ks.Register("power", "decays with a power of the round's number: ceil(K_0/r^p), Eq. 10 for p = 1/3", PowerK{})
	Etas.Register("power", "decays with a power of the round's number: eta_0/r^p, Eq. 12 for p = 1/2", PowerEta{})
	Ks.Standard("power")
	Etas.Standard("power")
}

// PowerK is ceil(K_0/r^p). With p = 1/3 it is [RoundsK] (Eq. 10); 1/2 is how the
// best fixed K falls with the time to come (Wang and Joshi, MLSys 2019, Theorem 2);
// -1 grows linearly, as the sample sizes of van Dijk et al. (AISTATS 2021).
type PowerK struct {
	Power string `key:"power" help:"p, a number or fraction such as 1/3, from -4 to 4, denominator at most 100"`
	Min   int    `key:"min" is:"null" range:"[1,1000000]" help:"least K; null: 1"`
	Max   int    `key:"max" is:"null" range:"[1,1000000]" help:"greatest K; null: none"`
}

const (
	// maxPower is the largest absolute value of an exponent.
	maxPower = 4
	// maxDenominator is the largest denominator of an exponent.
	maxDenominator = 100
)

// parsePower reads an exponent from the configuration: a number, or a fraction such as 1/3, which
// is kept exactly. The error names the limits.
func parsePower(text string) (*big.Rat, error) {
	power := new(big.Rat)
	isNumber := len(text) <= 20
	if isNumber {
		_, isNumber = power.SetString(text)
	}
	isTooLarge := new(big.Rat).Abs(power).Cmp(big.NewRat(maxPower, 1)) > 0
	isTooFine := power.Denom().Cmp(big.NewInt(maxDenominator)) > 0
	if !isNumber || isTooLarge || isTooFine {
		return nil, registry.Errorf("power", "%.40q is not a power (a number or a fraction such as 1/3, from -%d "+
			"to %d, with a denominator of at most %d)", text, maxPower, maxPower, maxDenominator)
	}
	return power, nil
}

// checkPower returns an error if power is no valid exponent, or if the bounds contradict each other:
// high, the option max, is less than low, the option min. A high of 0 means that there is no bound.
func checkPower[T int | float64](power string, low, high T) error {
	if high != 0 && high < low {
		return registry.Errorf("max", "%v is less than min, %v", high, low)
	}
	_, err := parsePower(power)
	return err
}

// Validate checks the exponent and the bounds.
func (s PowerK) Validate() error { return checkPower(s.Power, s.Min, s.Max) }

// LocalSteps returns ceil(K_0/r^p), held to the bounds Min and Max. For p = a/b that is the least K with
// K^b·r^a >= K_0^b, which is found in whole numbers of any size, so that it is the same on every
// architecture.
func (s PowerK) LocalSteps(progress Progress) int {
	// Validate has found the exponent to be one.
	exponent, _ := parsePower(s.Power)
	numerator := exponent.Num()
	denominator := exponent.Denom()
	factor := new(big.Int).Exp(big.NewInt(int64(progress.Round)), new(big.Int).Abs(numerator), nil)
	bound := new(big.Int).Exp(big.NewInt(int64(progress.K0)), denominator, nil)
	// A negative power multiplies the other side of the comparison.
	if numerator.Sign() < 0 {
		bound.Mul(bound, factor)
		factor.SetInt64(1)
	}
	k := 1 + sort.Search(MaxK0, func(i int) bool {
		product := new(big.Int).Exp(big.NewInt(int64(i+1)), denominator, nil)
		return product.Mul(product, factor).Cmp(bound) >= 0
	})
	// Min and Max count in the unit of the options, steps or epochs, and K in its parts, such as thousandths
	// of an epoch.
	return withinBounds(s.Min*progress.partsPerUnit(), k, s.Max*progress.partsPerUnit())
}

// withinBounds returns x if it is from low to high, and otherwise the bound that it passes. A high of 0
// means that there is no upper bound. If high is less than low, it returns low.
func withinBounds[T int | float64](low, x, high T) T {
	if high != 0 {
		x = min(x, high)
	}
	return max(low, x)
}

// PowerEta is eta_0/r^p; with p = 1/2 it is [RoundsEta] (Eq. 12).
type PowerEta struct {
	Power string  `key:"power" help:"p, a number or fraction such as 1/2, from -4 to 4, denominator at most 100"`
	Min   float64 `key:"min" default:"0" range:"[0,1000000]" help:"least rate"`
	Max   float64 `key:"max" is:"null" range:"(0,1000000]" help:"greatest rate; null: none"`
}

// Validate checks the exponent and the bounds.
func (s PowerEta) Validate() error { return checkPower(s.Power, s.Min, s.Max) }

// LearningRate returns eta_0/r^p for round r, within the bounds Min and Max. The power is rounded
// once, so that it is the same on every machine.
func (s PowerEta) LearningRate(p Progress) float64 {
	exponent, _ := parsePower(s.Power)
	power, _ := exponent.Float64()
	return withinBounds(s.Min, p.Eta0/exact.Pow(float64(p.Round), power), s.Max)
}
