package aggregate

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Names of the algorithms, as in the configuration's aggregate.algorithm.
const (
	FedAvg     = "fedavg"
	FedAvgM    = "fedavgm"
	FedAdagrad = "fedadagrad"
	FedAdam    = "fedadam"
	FedYogi    = "fedyogi"
	FedProx    = "fedprox"
	Scaffold   = "scaffold"
	FedNova    = "fednova"
)

// Names lists the algorithms.
func Names() []string {
	return []string{FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi, FedProx, Scaffold, FedNova}
}

// Options are the numbers that algorithms take, by their keys in the
// configuration. A nil one takes its algorithm's default.
type Options struct {
	ServerRate *float64 // server_rate: η at the server; every algorithm
	Momentum   *float64 // momentum: β of fedavgm
	Beta1      *float64 // beta1: fedadagrad, fedadam, fedyogi
	Beta2      *float64 // beta2: fedadam, fedyogi
	Tau        *float64 // tau: fedadagrad, fedadam, fedyogi
	Mu         *float64 // mu: fedprox
	Staleness  *float64 // staleness_exponent: every algorithm but scaffold, see ByStaleness
}

// Option describes one of an algorithm's numbers.
type Option struct {
	Key     string  // below aggregate
	Default float64 // of this algorithm
	Least   float64
	Most    float64
	Above   bool // Least itself is too little
	Below   bool // Most itself is too much
	Help    string
}

// want says what would be right.
func (o Option) want() string {
	least, most := "at least", "at most"
	if o.Above {
		least = "more than"
	}
	if o.Below {
		most = "less than"
	}
	return fmt.Sprintf("%s %g and %s %g", least, o.Least, most, o.Most)
}

func (o Option) holds(x float64) bool {
	switch {
	case math.IsNaN(x), x < o.Least, x > o.Most, o.Above && x == o.Least, o.Below && x == o.Most:
		return false
	}
	return true
}

// optionKeys are all keys, in the order in which they are written.
var optionKeys = []struct {
	key   string
	field func(*Options) **float64
}{
	{"server_rate", func(o *Options) **float64 { return &o.ServerRate }},
	{"momentum", func(o *Options) **float64 { return &o.Momentum }},
	{"beta1", func(o *Options) **float64 { return &o.Beta1 }},
	{"beta2", func(o *Options) **float64 { return &o.Beta2 }},
	{"tau", func(o *Options) **float64 { return &o.Tau }},
	{"mu", func(o *Options) **float64 { return &o.Mu }},
	{"staleness_exponent", func(o *Options) **float64 { return &o.Staleness }},
}

// OptionsOf lists the numbers that an algorithm takes, none for a name that is
// not one of Names.
func OptionsOf(algorithm string) []Option {
	rate := Option{Key: "server_rate", Default: 1, Most: 1e6, Above: true, Help: "learning rate at the server"}
	stale := Option{Key: "staleness_exponent", Default: 0.5, Most: MaxExponent, Help: "an update s rounds late weighs (1+s)^-x"}
	decay := func(key string, standard float64, help string) Option {
		return Option{Key: key, Default: standard, Most: 1, Below: true, Help: help}
	}
	tau := Option{Key: "tau", Default: 1e-3, Most: 1e6, Above: true, Help: "degree of adaptivity: the least divisor of a step"}
	switch algorithm {
	case FedAvg, FedNova:
		return []Option{rate, stale}
	case Scaffold:
		return []Option{rate}
	case FedAvgM:
		return []Option{rate, decay("momentum", 0.9, "share of the last move that is kept"), stale}
	case FedAdagrad:
		rate.Default = 0.1
		return []Option{rate, decay("beta1", 0, "decay of the mean update"), tau, stale}
	case FedAdam, FedYogi:
		rate.Default = 0.01
		return []Option{rate, decay("beta1", 0.9, "decay of the mean update"), decay("beta2", 0.99, "decay of its square"), tau, stale}
	case FedProx:
		return []Option{rate, {Key: "mu", Default: 0.01, Most: 1e6, Help: "pull of local steps towards the global model"}, stale}
	}
	return nil
}

// OptionError says which key of the configuration cannot be, and why.
type OptionError struct {
	Key     string // full, e.g. "aggregate.tau"
	Problem string // what it holds and what would be right
}

func (e *OptionError) Error() string { return e.Key + ": " + e.Problem }

// Resolve fills in the defaults of an algorithm. It returns an [*OptionError]
// for an algorithm that is not known, a number out of range, or one that the
// algorithm does not take.
func Resolve(algorithm string, o Options) (Options, error) {
	known := OptionsOf(algorithm)
	if known == nil {
		return Options{}, &OptionError{"aggregate.algorithm", fmt.Sprintf("%.40q is not an algorithm (%s)", algorithm, strings.Join(Names(), ", "))}
	}
	var all Options
	for _, k := range optionKeys {
		given := *k.field(&o)
		i := slices.IndexFunc(known, func(o Option) bool { return o.Key == k.key })
		switch {
		case i < 0 && given != nil:
			return Options{}, &OptionError{"aggregate." + k.key, fmt.Sprintf("%s does not take it (%s)", algorithm, takers(k.key))}
		case i < 0:
			continue
		case given == nil:
			given = &known[i].Default
		case !known[i].holds(*given):
			return Options{}, &OptionError{"aggregate." + k.key, fmt.Sprintf("%g, want %s", *given, known[i].want())}
		}
		*k.field(&all) = new(*given)
	}
	return all, nil
}

// takers says which algorithms take a number.
func takers(key string) string {
	var list []string
	for _, name := range Names() {
		if slices.ContainsFunc(OptionsOf(name), func(o Option) bool { return o.Key == key }) {
			list = append(list, name)
		}
	}
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " and " + list[last] + " do"
	}
	return list[0] + " does"
}
