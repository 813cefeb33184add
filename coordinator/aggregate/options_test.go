package aggregate_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "fedpace/coordinator/aggregate"
)

func TestDefaults(t *testing.T) {
	for name, want := range map[string]Options{
		FedAvg:     {ServerRate: new(1.), Staleness: new(0.5)},
		FedAvgM:    {ServerRate: new(1.), Momentum: new(0.9), Staleness: new(0.5)},
		FedAdagrad: {ServerRate: new(0.1), Beta1: new(0.), Tau: new(1e-3), Staleness: new(0.5)},
		FedAdam:    {ServerRate: new(0.01), Beta1: new(0.9), Beta2: new(0.99), Tau: new(1e-3), Staleness: new(0.5)},
		FedYogi:    {ServerRate: new(0.01), Beta1: new(0.9), Beta2: new(0.99), Tau: new(1e-3), Staleness: new(0.5)},
		FedProx:    {ServerRate: new(1.), Mu: new(0.01), Staleness: new(0.5)},
		Scaffold:   {ServerRate: new(1.)},
		FedNova:    {ServerRate: new(1.), Staleness: new(0.5)},
	} {
		got, err := Resolve(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		again, err := Resolve(name, got)
		if err != nil || !cmp.Equal(again, got) {
			t.Errorf("%s: the defaults, given, become %v, %v", name, again, err)
		}
	}
}

func TestOptionsAreRefusedByKey(t *testing.T) {
	for _, c := range []struct {
		algorithm string
		options   Options
		key, want string
	}{
		{"fedsgd", Options{}, "aggregate.algorithm", `"fedsgd" is not an algorithm (fedavg, fedavgm, `},
		{FedAdam, Options{Mu: new(0.1)}, "aggregate.mu", "fedadam does not take it (fedprox does)"},
		{FedAvg, Options{Beta2: new(0.1)}, "aggregate.beta2", "fedavg does not take it (fedadam and fedyogi do)"},
		{Scaffold, Options{Staleness: new(0.1)}, "aggregate.staleness_exponent", "scaffold does not take it (fedavg, fedavgm, "},
		{FedAdam, Options{Beta1: new(1.)}, "aggregate.beta1", "1, want at least 0 and less than 1"},
		{FedYogi, Options{Tau: new(0.)}, "aggregate.tau", "0, want more than 0 and at most 1e+06"},
		{FedProx, Options{Mu: new(-1.)}, "aggregate.mu", "-1, want at least 0 and at most 1e+06"},
		{FedNova, Options{ServerRate: new(math.NaN())}, "aggregate.server_rate", "NaN, want more than 0"},
		{FedAvgM, Options{Momentum: new(math.Inf(1))}, "aggregate.momentum", "+Inf, want at least 0 and less than 1"},
		{FedAvg, Options{Staleness: new(17.)}, "aggregate.staleness_exponent", "17, want at least 0 and at most 16"},
	} {
		_, err := New(c.algorithm, 1, 1, c.options)
		var option *OptionError
		if !errors.As(err, &option) || option.Key != c.key || !strings.Contains(option.Problem, c.want) {
			t.Errorf("%s: %v, want %s: %s", c.algorithm, err, c.key, c.want)
		}
	}
}

func TestSettingsThatDoNotFit(t *testing.T) {
	for _, name := range Names() {
		for key, s := range map[string]Setting{"aggregate.weights": {BySamples: true}, "close.rule": {Buffered: true}} {
			err := CheckSetting(name, s)
			var option *OptionError
			if name == Scaffold && (!errors.As(err, &option) || option.Key != key) || name != Scaffold && err != nil {
				t.Errorf("%s with %+v: %v", name, s, err)
			}
		}
		if err := CheckSetting(name, Setting{}); err != nil {
			t.Error(err)
		}
	}
}

// What StateBytes says before a run is what the state takes when every client
// has taken part.
func TestStateBytesAreThoseOfTheState(t *testing.T) {
	const params, clients = 7, 5
	for _, name := range Names() {
		a, err := New(name, params, clients, Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := int64(8 * params * a.Server.Floats())
		if v := a.Variates; v != nil {
			next := make([]Variate, clients)
			for i := range next {
				next[i].Values = []float32{1, 1, 1, 1, 1, 1, 1}
			}
			v.Update(make([]int64, params), indices(clients), next)
			want += v.Bytes() + 4*params // c as clients use it
		}
		if got := StateBytes(name, params, clients); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
	if got := StateBytes(Scaffold, math.MaxInt, math.MaxInt); got != math.MaxInt64 {
		t.Errorf("%d bytes", got)
	}
}

func TestStateBeyondTheLimit(t *testing.T) {
	if err := CheckState(Scaffold, 1000, 1000, 4_012_000); err != nil {
		t.Error(err)
	}
	err := CheckState(Scaffold, 209_662, 3000, 1e9)
	if err == nil || !strings.HasPrefix(err.Error(), "limits.state_gb: 1, but scaffold keeps up to 2.52 GB for 209662 parameters and 3000 clients") {
		t.Error(err)
	}
}
