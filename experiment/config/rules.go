package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"fedpace/coordinator/aggregate"
	"fedpace/internal/registry"
)

var selectKeys = []key{
	choice("select.rule", "how a round's clients are chosen among those available", "way to choose clients",
		func(c *Config) *string { return &c.Select.Rule }, Uniform, BySize, PowerOfChoice, Fit),
	nullWhole("select.candidates", "power_of_choice: clients asked for their loss, of whom the cohort is chosen", func(c *Config) *int { return &c.Select.Candidates }, 1_000_000),
	nullChoice("select.from", "power_of_choice and fit: how clients are drawn; null: uniform", "way to draw clients",
		func(c *Config) *string { return &c.Select.From }, Uniform, BySize),
}

var closeKeys = []key{
	choice("close.rule", "what ends a round", "rule", func(c *Config) *string { return &c.Close.Rule }, All, Deadline, First, Buffered),
	nullReal("close.seconds", "deadline: time after which a round closes", func(c *Config) *float64 { return &c.Close.Seconds }, limits{hi: maxSeconds, unit: "seconds"}),
	nullWhole("close.n", "first, buffered: updates that close a round", func(c *Config) *int { return &c.Close.N }, 1_000_000),
	nullWhole("close.staleness_limit", "buffered: rounds after which an update is late; null: never", func(c *Config) *int { return &c.Close.StalenessLimit }, 1_000_000),
}

var aggregateKeys = []key{
	choice("aggregate.algorithm", "how updates become a model", "algorithm", func(c *Config) *string { return &c.Aggregate.Algorithm }, aggregate.Algorithms.Names()...),
	choice("aggregate.weights", "weight of a client's update", "kind of weights", func(c *Config) *string { return &c.Aggregate.Weights }, EqualWeights, SampleWeights),
	optionKey("server_rate", func(o *AlgorithmOptions) **float64 { return &o.ServerRate }),
	optionKey("momentum", func(o *AlgorithmOptions) **float64 { return &o.Momentum }),
	optionKey("beta1", func(o *AlgorithmOptions) **float64 { return &o.Beta1 }),
	optionKey("beta2", func(o *AlgorithmOptions) **float64 { return &o.Beta2 }),
	optionKey("tau", func(o *AlgorithmOptions) **float64 { return &o.Tau }),
	optionKey("mu", func(o *AlgorithmOptions) **float64 { return &o.Mu }),
	optionKey("staleness_exponent", func(o *AlgorithmOptions) **float64 { return &o.Staleness }),
	real("limits.state_gb", "most memory of an algorithm's state, 10^9 bytes", func(c *Config) *float64 { return &c.Limits.StateGB }, limits{hi: 1e6, unit: "GB"}),
}

// nullChoice is choice whose empty string is written null.
func nullChoice[T any](path, help, what string, field func(*T) *string, known ...string) keyOf[T] {
	k := choice(path, help, what, field, known...)
	check := k.check
	k.check = func(c *T) error {
		if *field(c) == "" {
			return nil
		}
		return check(c)
	}
	return optional(k, func(c *T) bool { return *field(c) == "" }, func(c *T) { *field(c) = "" })
}

// optionKey is a number of the algorithms, null for the algorithm's default,
// which is written beside it. Package aggregate knows its limits.
func optionKey(name string, field func(*AlgorithmOptions) **float64) key {
	at := func(c *Config) **float64 { return field(&c.Aggregate.Options) }
	about, takers := "", []string(nil)
	for _, algorithm := range aggregate.Algorithms.Names() {
		if o, ok := optionOf(algorithm, name); ok {
			about, takers = o.Help, append(takers, algorithm)
		}
	}
	who := "all but scaffold"
	switch len(takers) {
	case len(aggregate.Algorithms.Names()):
		who = "all"
	case len(aggregate.Algorithms.Names()) - 1:
	default:
		who = strings.Join(takers, ", ")
	}
	k := real("aggregate."+name, fmt.Sprintf("%s (%s); null: the algorithm's default", about, who),
		func(c *Config) *float64 {
			if *at(c) == nil {
				*at(c) = new(float64)
			}
			return *at(c)
		}, limits{})
	read, write := k.read, k.write
	k.read = func(c *Config, n ast.Node) error {
		*at(c) = nil // never the number of another Config
		if isNull(n) {
			return nil
		}
		return read(c, n)
	}
	k.write = func(c *Config) string {
		if *at(c) != nil {
			return write(c)
		}
		if o, ok := optionOf(c.Aggregate.Algorithm, name); ok {
			return "null # " + o.Default
		}
		return "null"
	}
	k.check = func(*Config) error { return nil }
	k.unset = func(c *Config) bool { return *at(c) == nil }
	return k
}

func optionOf(algorithm, name string) (registry.Option, bool) {
	entry, _, ok := registry.For(reflect.TypeFor[aggregate.Algorithm]()).Entry(algorithm)
	if ok {
		for _, o := range registry.Options(reflect.TypeOf(entry)) {
			if o.Key == name {
				return o, true
			}
		}
	}
	return registry.Option{}, false
}

// fitClose holds each closing rule to the numbers that it takes.
func fitClose(c Config) *KeyError {
	rule := c.Close.Rule
	for _, n := range []struct {
		key    string
		set    bool
		needed bool
		taken  bool
		want   string
	}{
		{"close.seconds", c.Close.Seconds != 0, rule == Deadline, rule == Deadline, "the time after which a round closes"},
		{"close.n", c.Close.N != 0, rule == First || rule == Buffered, rule == First || rule == Buffered, "the number of updates that close a round"},
		{"close.staleness_limit", c.Close.StalenessLimit != 0, false, rule == Buffered, ""},
	} {
		switch {
		case n.needed && !n.set:
			return &KeyError{Key: n.key, Others: []string{"close.rule"}, Problem: fmt.Sprintf("is not set: %s needs %s", rule, n.want)}
		case n.set && !n.taken:
			return &KeyError{Key: n.key, Problem: fmt.Sprintf("%s does not take it (set it to null)", rule)}
		}
	}
	if rule == First && c.Close.N > c.Cohort {
		return &KeyError{Key: "close.n", Others: []string{"cohort"},
			Problem: fmt.Sprintf("%d is more than the cohort (at most %d: over-selection asks more clients than it waits for)", c.Close.N, c.Cohort)}
	}
	return nil
}

// fitSelect holds each way to choose clients to what it takes.
func fitSelect(c Config) *KeyError {
	s := c.Select
	fail := func(key, format string, args ...any) *KeyError {
		return &KeyError{Key: key, Others: []string{"select.rule"}, Problem: fmt.Sprintf(format, args...)}
	}
	if s.Rule != PowerOfChoice && s.Candidates != 0 {
		return fail("select.candidates", "%s does not take it (set it to null)", s.Rule)
	}
	if s.Rule != PowerOfChoice && s.Rule != Fit && s.From != "" {
		return fail("select.from", "%s does not take it (set it to null)", s.Rule)
	}
	switch s.Rule {
	case PowerOfChoice:
		switch {
		case !c.Train:
			return fail("select.rule", "%q decides by the clients' losses, which train: false does not measure (use uniform, size or fit)", s.Rule)
		case c.Close.Rule == Buffered:
			return fail("select.rule", "%q needs rounds that do not overlap (use close.rule all, deadline or first)", s.Rule)
		case s.Candidates == 0:
			return fail("select.candidates", "is not set: %s needs the number of clients that are asked for their loss", s.Rule)
		case s.Candidates < c.Cohort:
			return fail("select.candidates", "%d is less than the cohort, which is chosen from them (at least %d)", s.Candidates, c.Cohort)
		case c.Clients != 0 && s.Candidates > c.Clients:
			return fail("select.candidates", "%d is more than there are clients (at most %d)", s.Candidates, c.Clients)
		}
	case Fit:
		if c.Close.Rule != Deadline {
			return fail("select.rule", "%q lowers K to fit a deadline (set close to {rule: deadline, seconds: ...})", s.Rule)
		}
	}
	return nil
}

// AlgorithmOptions are the numbers of all algorithms; nil: the algorithm's
// default.
type AlgorithmOptions struct{ ServerRate, Momentum, Beta1, Beta2, Tau, Mu, Staleness *float64 }

// Entry is the algorithm with its options. An error is a
// [*registry.OptionError].
func (a Aggregate) Entry() (aggregate.Algorithm, error) {
	entry, err := aggregate.Algorithms.Make(a.Algorithm)
	if err != nil {
		return nil, registry.Errorf("algorithm", "%s", notA(a.Algorithm, "algorithm", aggregate.Algorithms.Names()))
	}
	given := map[string]*float64{
		"server_rate": a.Options.ServerRate, "momentum": a.Options.Momentum, "beta1": a.Options.Beta1, "beta2": a.Options.Beta2,
		"tau": a.Options.Tau, "mu": a.Options.Mu, "staleness_exponent": a.Options.Staleness,
	}
	out := reflect.New(reflect.TypeOf(entry)).Elem()
	out.Set(reflect.ValueOf(entry))
	for _, o := range registry.Options(out.Type()) {
		if p := given[o.Key]; p != nil {
			out.FieldByIndex(o.Index).SetFloat(*p)
		}
		delete(given, o.Key)
	}
	for key, p := range given {
		if p != nil {
			return nil, registry.Errorf(key, "%s does not take it", a.Algorithm)
		}
	}
	algorithm := out.Interface().(aggregate.Algorithm)
	return algorithm, registry.Check(algorithm)
}

// fitAggregate holds each algorithm to its numbers and to what it can be
// combined with.
func fitAggregate(c Config) *KeyError {
	a, err := c.Aggregate.Entry()
	if err != nil {
		return AggregateError(registry.Below("aggregate", err))
	}
	switch needs := registry.NeedsOf(a); {
	case needs.EqualWeight && c.Aggregate.Weights == SampleWeights:
		return &KeyError{Key: "aggregate.weights", Others: []string{"aggregate.algorithm"}, Problem: fmt.Sprintf("samples, but %s needs updates that are weighted equally (use equal)", c.Aggregate.Algorithm)}
	case needs.Rounds && c.Close.Rule == Buffered:
		return &KeyError{Key: "close.rule", Others: []string{"aggregate.algorithm"}, Problem: fmt.Sprintf("buffered, but %s needs rounds that do not overlap (use all, deadline or first, or another algorithm)", c.Aggregate.Algorithm)}
	}
	return nil
}

// AggregateError is an error of package aggregate as one of the configuration.
func AggregateError(err error) *KeyError {
	var o *registry.OptionError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &o):
		return &KeyError{Key: o.Key, Problem: o.Problem, Others: []string{"aggregate.algorithm"}}
	}
	return &KeyError{Key: "aggregate", Problem: err.Error()}
}
