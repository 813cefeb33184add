package algorithm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	. "fedpace/algorithm"
	"fedpace/registry"
)

// whole is an algorithm for a model of which all is trained.
func whole(a Algorithm, c Compression, params, population int) *Instance {
	return NewInstance(a, c, params, params, 0, population)
}

func TestDefaults(t *testing.T) {
	half := Staleness{0.5}
	for name, want := range map[string]Algorithm{
		"fedavg":     Default,
		"fedavgm":    FedAvgM{Rate: 1, Momentum: 0.9, Staleness: half},
		"fedadagrad": FedAdagrad{Rate: 0.1, Tau: 1e-3, Staleness: half},
		"fedadam":    FedAdam{Rate: 0.01, Beta1: 0.9, Beta2: 0.99, Tau: 1e-3, Staleness: half},
		"fedyogi":    FedYogi{FedAdam{Rate: 0.01, Beta1: 0.9, Beta2: 0.99, Tau: 1e-3, Staleness: half}},
		"fedprox":    FedProx{Rate: 1, Mu: 0.01, Staleness: half},
		"scaffold":   Scaffold{Rate: 1},
		"fedexp":     FedExP{Epsilon: 1e-3, Staleness: half},
		"fednova":    FedNova{Rate: 1, Staleness: half},
		"refl":       REFL{Rate: 1, Beta: 0.35, Divisor: 1},
	} {
		got := made(t, name)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := registry.Check(got); err != nil {
			t.Errorf("%s: its defaults: %v", name, err)
		}
		// As a job's message has it.
		text, err := Algorithms.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Algorithms.Decode(text); err != nil || again != got {
			t.Errorf("%s: %s is read as %+v, %v", name, text, again, err)
		}
	}
}

func TestOptions_RefusedByKey(t *testing.T) {
	for want, a := range map[string]Algorithm{
		"beta1: 1 is out of range (0 or more and less than 1)":               FedAdam{Rate: 1, Beta1: 1, Tau: 1},
		"tau: 0 is out of range (more than 0 and at most 1000000)":           FedYogi{FedAdam{Rate: 1}},
		"mu: -1 is out of range (from 0 to 1000000)":                         FedProx{Rate: 1, Mu: -1},
		"server_rate: NaN is out of range (more than 0 and at most 1000000)": FedNova{Rate: math.NaN()},
		"momentum: +Inf is out of range (0 or more and less than 1)":         FedAvgM{Rate: 1, Momentum: math.Inf(1)},
		"staleness_exponent: 17 is out of range (from 0 to 16)":              FedAvg{Rate: 1, Staleness: Staleness{17}},
	} {
		if err := registry.Check(a); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What StateBytes says before a run is what the state takes when every client
// has taken part.
func TestState_BytesOfState(t *testing.T) {
	const params, clients, updates = 7, 5, 3
	for _, name := range Algorithms.Names() {
		a := whole(made(t, name), nil, params, clients)
		want := int64(8 * params * len(a.Server.State()))
		if v := a.ClientStates; v != nil {
			next := make([]ClientState, clients)
			for i := range next {
				next[i].Values = []float32{1, 1, 1, 1, 1, 1, 1}
			}
			v.Update(make([]int64, params), indices(clients), next)
			want += bytesOf(v) + 4*params // c as clients use it
		}
		if _, ok := a.Algorithm.(StaleWeigher); ok {
			want += 8 * params * updates // while a round is added up
		}
		if got := StateBytes(a.Algorithm, nil, params, 0, clients, updates); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
	if got := StateBytes(Scaffold{}, nil, math.MaxInt, 0, math.MaxInt, 0); got != math.MaxInt64 {
		t.Errorf("%d bytes", got)
	}
}

func TestState_BeyondLimit(t *testing.T) {
	if err := CheckState(Scaffold{}, nil, 1000, 0, 1000, 0, 4_012_000); err != nil {
		t.Error(err)
	}
	if err := CheckState(REFL{}, nil, 1e6, 0, 1e6, 0, 1e6); err != nil { // nothing is stale
		t.Error(err)
	}
	err := CheckState(REFL{}, nil, 1e6, 0, 10, 300, 1e9)
	if err == nil || err.Error() != "limits.state_gb: 1, but refl keeps up to 2.4 GB for 1000000 parameters and 300 updates in a round (raise the limit, or take fewer updates in a round or another algorithm)" {
		t.Error(err)
	}
	err = CheckState(Streaming{}, nil, 1e6, 1e6, 1000, 0, 1e9)
	if err == nil || err.Error() != "limits.state_gb: 1, but streaming keeps up to 4.01 GB for 1000000 parameters and 1000 clients (raise the limit, or take fewer clients or another algorithm)" {
		t.Error(err)
	}
	err = CheckState(Scaffold{}, nil, 209_662, 0, 3000, 0, 1e9)
	if err == nil || !strings.HasPrefix(err.Error(), "limits.state_gb: 1, but scaffold keeps up to 2.52 GB for 209662 parameters and 3000 clients") {
		t.Error(err)
	}
}
