package run

import (
	"math"
	"slices"
	"testing"

	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// A model from layers, with dropout, has the same bits through NATS and without, and the
// clock does not depend on it.
func TestLayers_Run(t *testing.T) {
	t.Parallel()
	const model = "model=[conv: {maps: 4, size: 5, stride: 3}, norm: 2, relu, residual: [conv: {maps: 4, pad: 1}], pool, dropout: 0.2, flatten, dense]"
	sets := []string{model, "clients=20", "cohort=4", "schedule.eta0=0.1", "local={momentum: 0.9}"}
	over := mustRun(t, runtest.Small(t, sets...), Options{})
	without := mustRun(t, runtest.Small(t, append(sets, "nats.url=none")...), Options{})
	if over.ValidationLoss == nil || without.ValidationLoss == nil || *over.ValidationLoss != *without.ValidationLoss || over.Fingerprint != without.Fingerprint {
		t.Errorf("through NATS %+v, without %+v", over, without)
	}
	if plain := mustRun(t, runtest.Small(t, append(sets, "train=false")...), Options{}); plain.Fingerprint != over.Fingerprint {
		t.Errorf("without training the fingerprint is %s, with it %s", plain.Fingerprint, over.Fingerprint)
	}
}

// Frozen layers keep their first values whatever is done to updates, and a task takes the time of
// the others: 20 rounds of K_0 steps, of which each transfers 20·62 + 62 parameters of 32 bits (Eq. 3).
func TestLayers_FrozenStay(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const frozen, trained = 784*20 + 20, 20*62 + 62
	sets := []string{
		"model=[flatten, dense: {width: 20, frozen: true}, relu, dense]", "clients=20", "cohort=4", "schedule.k=fixed", "network.model_megabits=exact",
		"network.download_mbps=20", "network.upload_mbps=5", "compute.seconds_per_step=0.01", "compute.std=0",
	}
	for _, more := range [][]string{
		{"local.weight_decay=0.1"},
		{"local={optimizer: adamw, keep: true}", "schedule.eta0=0.01"},
		{"aggregate={algorithm: fedprox, mu: 1}"},
		{"aggregate.algorithm=scaffold"},
		{"aggregate.algorithm=fedadam"},
		{"privacy={clip: 0.1, noise_multiplier: 0.5}"},
		{"privacy.local={clip: 0.1, noise_multiplier: 0.5}"},
		{"compress={method: qsgd, levels: 4}", "network.update_megabits=0.041664"},
	} {
		c := runtest.Small(t, slices.Concat(sets, more)...)
		var first, last []float32
		s := mustRun(t, c, Options{Callbacks: Callbacks{Model: func(_ int, params []float32) {
			last = params
			if first == nil {
				first = params
			}
		}}})
		if len(last) != frozen+trained || !slices.Equal(first[trained:], last[trained:]) {
			t.Errorf("%v: what is frozen has changed", more)
		}
		if slices.Equal(first[:trained], last[:trained]) || first[trained] == 0 {
			t.Errorf("%v: what trains has not changed", more)
		}
		const bits = 32 * trained
		if want := 6 * (bits/20e6 + 4*0.01 + bits/5e6); math.Abs(s.VirtualSeconds-want) > 1e-6 {
			t.Errorf("%v: %v virtual seconds, want %v", more, s.VirtualSeconds, want)
		}
	}
}
