package algorithm

import (
	"slices"
	"testing"
)

// A model that every client returns unchanged stays, with momentum at the server, too: tensors are
// matched by their place in one flat model, which all clients share (docs/differences.md).
func TestPeers_UnchangedModelStays(t *testing.T) {
	for name, a := range map[string]Algorithm{
		"fedavg":  FedAvg{Rate: 1},
		"fedavgm": FedAvgM{Rate: 1, Momentum: 0.9},
		"fedadam": FedAdam{Rate: 0.1, Beta1: 0.9, Beta2: 0.99, Tau: 1e-3},
	} {
		server := a.Server(3)
		model := []float32{1, -2, 3}
		for range 5 {
			server.Apply(model, make([]int64, 3), 1)
		}
		if !slices.Equal(model, []float32{1, -2, 3}) {
			t.Errorf("%s: %v", name, model)
		}
	}
}
