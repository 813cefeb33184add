package problem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/data/federated"
	"fedpace/learn"
)

// counted is data that counts how often it is asked for a client's samples.
type counted struct {
	federated.Set
	samples func(client int) int
	asked   int
}

func (c *counted) Samples(client int) int {
	c.asked++
	return c.samples(client)
}

// errRead is the error of data that cannot be read.
var errRead = errors.New("the disk is gone")

func (*counted) Info() federated.Info                   { return federated.Info{} }
func (*counted) Batch(*learn.Batch, int, []int32) error { return errRead }

// epochs is a problem whose K counts epochs.
func epochs(t *testing.T, clients int, samples func(client int) int) (*Problem, *counted) {
	t.Helper()
	c, err := config.Load("", []string{"train=false", "schedule.unit=epochs", "schedule.k0=5"})
	if err != nil {
		t.Fatal(err)
	}
	c.Clients = clients
	p, set := newProblem(c, nil), &counted{samples: samples}
	p.Set, p.Bits = set, fleet.SameBits(1e6)
	p.Fleet, err = p.Config.NewFleet()
	if err != nil {
		t.Fatal(err)
	}
	return p, set
}

// What a check of durations asks of the data grows with the population, not with its
// square.
func TestEpochs_CheckedOnce(t *testing.T) {
	const clients = 5000
	p, set := epochs(t, clients, func(int) int { return 100 })
	if err := p.checkPhases(); err != nil {
		t.Fatal(err)
	}
	if set.asked > 3*clients {
		t.Errorf("%d clients are asked for their samples %d times", clients, set.asked)
	}
}

// Epochs of any client, not only of the first, may be too many local steps.
func TestEpochs_TooManySteps(t *testing.T) {
	p, _ := epochs(t, 2000, func(client int) int {
		if client == 1999 {
			return min(10_000_000_000, math.MaxInt)
		}
		return 100
	})
	want := "schedule.k0: 5 epochs of client 1999, who has 10000000000 samples, are more than 16777216 local steps (lower it)"
	if err := p.checkPhases(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Data that cannot be read are no fault of the network's.
func TestCorrelations_UnreadableData(t *testing.T) {
	p, _ := epochs(t, 20, func(int) int { return 100 })
	p.Config.Correlation.Speed = fleet.SpeedCorrelation{RankCorrelation: fleet.RankCorrelation{Spearman: 0.5, Property: "labels"}, Phase: "compute"}
	err := p.correlateDevices()
	if key := (*config.KeyError)(nil); !errors.Is(err, errRead) || errors.As(err, &key) {
		t.Errorf("%v, want that of the data", err)
	}
	p.Config.Correlation.Speed.Property = "samples"
	if err := p.correlateDevices(); err == nil || !strings.HasPrefix(err.Error(), "correlation.speed: ") {
		t.Errorf("%v, want correlation.speed", err)
	}
}

// A run that is timed alone has the sizes and samples of one that trains, and is the same from the
// configuration that it writes, which has the number of its clients.
func TestTiming_OwnData(t *testing.T) {
	rows := "c,x,y\n"
	for i := range 60 {
		rows += fmt.Sprintf("c%d,%d,%d\n", i%3, i, i%2)
	}
	path := filepath.Join(t.TempDir(), "own.csv")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare := func(c config.Config) *Problem {
		t.Helper()
		p, err := Prepare(t.Context(), c, false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	for _, size := range []string{"1", "exact"} {
		for _, stop := range []string{"{rounds: 2}", "{samples: 99}"} {
			c, err := config.Load("", []string{"task=custom", "data={path: " + path + ", client: c, features: [x], label: y}", "model=linear", "schedule.k0=2",
				"schedule.eta0=0.1", "compute.seconds_per_step=1", "network={download_mbps: 1, upload_mbps: 1, model_megabits: " + size + "}", "stop=" + stop})
			if err != nil {
				t.Fatal(err)
			}
			trained := prepare(c)
			c.Train = false
			timed := prepare(c)
			again := prepare(timed.Config)
			if timed.Bits != trained.Bits || again.Bits != trained.Bits || (again.Set == nil) != (timed.Set == nil) {
				t.Errorf("model %s, stop %s: %v, %v and %v", size, stop, trained.Bits, timed.Bits, again.Bits)
			}
			if c.Stop.Samples > 0 && (timed.StepSamples(0) != trained.StepSamples(0) || again.StepSamples(0) != trained.StepSamples(0)) {
				t.Errorf("model %s: a step takes %d, %d and %d samples", size, trained.StepSamples(0), timed.StepSamples(0), again.StepSamples(0))
			}
		}
	}
}
