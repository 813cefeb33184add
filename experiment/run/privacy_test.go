package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/problem"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

var private = []string{"privacy.clip=0.05", "privacy.noise_multiplier=0.5"}

// A private run has the same bits through NATS, in memory, with three hosts, and stopped and
// resumed; its summary says what the dry run foresaw.
func TestPrivacy_SameBits(t *testing.T) {
	slow.Test(t, "it plays a run six ways; internal/samebits plays one with noise")
	slow.NotUnderRace(t)
	t.Parallel()
	sets := append(private[:2:2], "aggregate.algorithm=fedadam", "aggregate.server_rate=0.01")
	want, goneOn := sameAnywhere(t, sets)
	if got := mustRun(t, runtest.Small(t, append(sets, "privacy.noise_multiplier=0.51")...), Options{}); *got.ModelSHA256 == *want.ModelSHA256 {
		t.Error("with other noise the model is the same")
	}
	e, err := DryRun(t.Context(), runtest.Small(t, sets...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := want.Privacy; e.Privacy == nil || s == nil || s.Epsilon != e.Privacy.Epsilon || !(s.Epsilon > s.PoissonEpsilon) || !s.Simulated {
		t.Errorf("the summary has %+v, the dry run %+v", s, e.Privacy)
	}
	if goneOn.Privacy.Epsilon != want.Privacy.Epsilon {
		t.Errorf("resumed it costs an epsilon of %g, want %g", goneOn.Privacy.Epsilon, want.Privacy.Epsilon)
	}
}

// sameAnywhere runs a small configuration, and holds it to its bits in memory, with three hosts,
// and stopped and resumed. It returns what the run comes to, and what it does when it goes on.
func sameAnywhere(t *testing.T, sets []string) (whole, goneOn folder.Summary) {
	t.Helper()
	whole = mustRun(t, runtest.Small(t, sets...), Options{})
	goneOn = resumed(t, runtest.Small(t, sets...), 3, Options{})
	for name, got := range map[string]folder.Summary{
		"with three hosts":           mustRun(t, runtest.Small(t, sets...), Options{Place: Place{Hosts: 3}}),
		"in memory":                  mustRun(t, runtest.Small(t, append(sets, "nats.url=none")...), Options{}),
		"with three hosts in memory": mustRun(t, runtest.Small(t, append(sets, "nats.url=none")...), Options{Place: Place{Hosts: 3, Workers: 2}}),
		"resumed":                    goneOn,
	} {
		if *got.ModelSHA256 != *whole.ModelSHA256 {
			t.Errorf("%s the model is another", name)
		}
	}
	return whole, goneOn
}

// checkNoise holds a round's model to one that differs from that of a run with clipping alone by
// normal noise of a deviation. sets ask for the noise.
func checkNoise(t *testing.T, want float64, sets []string) {
	t.Helper()
	model := func(sets ...string) (last []float32) {
		o := Options{Callbacks: Callbacks{Model: func(_ int, params []float32) { last = params }}}
		mustRun(t, runtest.Small(t, append(sets, "task=femnist", "stop.rounds=1", "evaluate.samples=64")...), o)
		return last
	}
	clipped, noisy := model("aggregate.clip={bound: fixed, norm: 0.05}"), model(sets...)
	square, worst := 0.0, 0.0
	for i := range noisy {
		d := float64(noisy[i]) - float64(clipped[i])
		square += d * d
		worst = max(worst, math.Abs(d))
	}
	if got := math.Sqrt(square / float64(len(noisy))); math.Abs(got/want-1) > 0.02 || worst > 7*want {
		t.Errorf("noise of deviation %g, at most %g, want %g", got, worst, want)
	}
}

// After one round the model differs from that of a run with clipping alone by normal noise
// of the deviation zS/m.
func TestPrivacy_NoiseOfRound(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	checkNoise(t, 0.5*0.05/float64(runtest.Small(t).Cohort), private)
}

// A limit of epsilon ends a run with the last round that keeps to it.
func TestPrivacy_EpsilonEndsRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	const limit = 0.47 // which some nine rounds of this noise keep to
	noisy := []string{"privacy.clip=0.05", "privacy.noise_multiplier=4"}
	c := runtest.Small(t, append(noisy[:2:2], "stop.rounds=null", fmt.Sprint("privacy.epsilon=", limit))...)
	s := mustRun(t, c, Options{})
	p, err := problem.Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if now, next := p.Privacy.Epsilon(s.Rounds), p.Privacy.Epsilon(s.Rounds+1); s.Rounds < 2 || now > limit || next <= limit || s.Privacy.Epsilon != now {
		t.Errorf("it ended after %d rounds, which cost %g; one more would cost %g", s.Rounds, now, next)
	}
	if _, err := problem.Prepare(t.Context(), runtest.Small(t, append(noisy[:2:2], "privacy.epsilon=0.1")...), false, nil, nil); err == nil || !strings.Contains(err.Error(), "but one round costs") {
		t.Errorf("a limit below one round's: %v", err)
	}
}

// The page shows what the dry run of its example says.
func TestPrivacy_Page(t *testing.T) {
	slow.NotUnderRace(t)
	page, err := os.ReadFile("../../docs/privacy.md")
	if err != nil {
		t.Fatal(err)
	}
	c, err := fromText(t, regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(page))[1])
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	words := strings.Join(strings.Fields(p.Privacy.Text(c.Stop.Rounds)), " ")
	if !strings.Contains(strings.ReplaceAll(strings.Join(strings.Fields(string(page)), " "), " # ", " "), words) {
		t.Errorf("the page does not show: %s", words)
	}
}

// A run that goes on without the key of its noise would have other noise than before: it says so.
func TestPrivacy_ResumedNoise(t *testing.T) {
	p := &experiment{Problem: problem.Problem{Privacy: &problem.Privacy{}}}
	p.Config.Devices.Names = []config.Device{{ID: "pi"}}
	results, err := folder.CreateResults(filepath.Join(t.TempDir(), "run"), config.Demonstration(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	if _, err := p.noiseKey(results, "", true); err == nil || !strings.Contains(err.Error(), "the key of the run's noise") {
		t.Errorf("without a key: %v", err)
	}
	made, err := p.noiseKey(results, "", false)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.noiseKey(results, "", true); again != made || err != nil {
		t.Errorf("another key, %v", err)
	}
}
