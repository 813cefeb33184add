package run

import (
	"testing"

	"fedpace/internal/testkit/runtest"
)

// A model from layers, with dropout, has the same bits through NATS and without, and the
// clock does not depend on it.
func TestAModelFromLayersRuns(t *testing.T) {
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
