package aggregate

import (
	"testing"

	"pgregory.net/rapid"

	"fedpace/config"
	"fedpace/coordinator/round"
)

// FedBuff adds the difference of an update from the model that it began with, divided by the size of the
// buffer: two clients that start from 0 and send 1, each in a buffer of its own, make 1 and 2, as in Nguyen et
// al. 2022, Algorithm 1 (findings/appfl-fedbuff-present-model.sh). The second is one round stale, which
// exponent 0 does not damp.
func TestPeers_FedBuffFromBaseModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := config.Load("", []string{"aggregate={algorithm: fedbuff, staleness_exponent: 0}"})
		if err != nil {
			t.Fatal(err)
		}
		a, channel := newBuffered(t, &c)
		sent := []clientValues{{moves: [trainedValues]float32{1, 1}}}
		for i, want := range []float32{1, 2} {
			task := round.Task{Task: uint64(i + 1), Client: i, Staleness: i, LocalSteps: 1}
			playBuffered(t, a, channel, []round.Task{task}, sent)
			if got := a.Params()[0]; got != want {
				t.Fatalf("after update %d the model is %v, want %v", i+1, got, want)
			}
		}
	})
}
