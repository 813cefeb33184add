package run

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	c := runtest.Small(t, append(private[:2:2], "stop.rounds=null", "privacy.epsilon=70")...)
	s := mustRun(t, c, Options{})
	p, err := problem.Prepare(t.Context(), c, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if now, next := p.Privacy.Epsilon(s.Rounds), p.Privacy.Epsilon(s.Rounds+1); s.Rounds < 2 || now > 70 || next <= 70 || s.Privacy.Epsilon != now {
		t.Errorf("it ended after %d rounds, which cost %g; one more would cost %g", s.Rounds, now, next)
	}
	if _, err := problem.Prepare(t.Context(), runtest.Small(t, append(private[:2:2], "privacy.epsilon=1")...), false, nil, nil); err == nil || !strings.Contains(err.Error(), "but one round costs") {
		t.Errorf("a limit below one round's: %v", err)
	}
}

// What clients do to a round decides what it costs.
func TestPrivacy_CostOfRounds(t *testing.T) {
	t.Parallel()
	cost := func(sets ...string) *folder.Privacy {
		p, err := problem.Prepare(t.Context(), runtest.Small(t, append(private[:2:2], sets...)...), false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Privacy.Summary(10)
	}
	sampled, absent, everybody := cost(), cost("availability={model: markov, on_seconds: 30, off_seconds: 10}"), cost("clients=10", "cohort=10")
	if sampled.Rate >= 1 || absent.Rate != 1 || everybody.Rate != 1 {
		t.Errorf("rates %g, %g and %g", sampled.Rate, absent.Rate, everybody.Rate)
	}
	if !(sampled.Epsilon < absent.Epsilon && everybody.Epsilon < absent.Epsilon) {
		t.Errorf("epsilon %g of a sample, %g of clients that may be away, %g of all", sampled.Epsilon, absent.Epsilon, everybody.Epsilon)
	}
	if all, first := cost().Updates, cost("close={rule:first,n:7}").Updates; all != 10 || first != 7 {
		t.Errorf("sums are divided by %d and, where the first 7 close a round, by %d", all, first)
	}
	if got := cost("schedule.k=error").NotCovered; len(got) != 1 || !strings.HasPrefix(got[0], "schedule.k follows the clients' training losses") {
		t.Errorf("a schedule that follows losses: %q", got)
	}
	for sets, want := range map[string]int{
		"compress=top_k": 1, "compress={method:top_k,error_feedback:false}": 0, "compress=top_k clients=10 cohort=10": 0, "compress=top_k clients=10 cohort=10 close={rule:first,n:9}": 1,
		"local={momentum:0.9,keep:true}": 1, "local={momentum:0.9}": 0, "aggregate.algorithm=streaming": 1, "personal=[0]": 1,
	} {
		if got := cost(strings.Fields(sets)...).NotCovered; len(got) != want || want > 0 && !strings.Contains(got[0], "from task to task") {
			t.Errorf("%s: not covered is %q", sets, got)
		}
	}
	for sets, want := range map[string]int{"select=round_robin": 1, "select=round_robin clients=10 cohort=10": 0, "availability={model:markov,on_seconds:30,off_seconds:10}": 1} {
		if got := cost(strings.Fields(sets)...).NotCovered; len(got) != want || want > 0 && !strings.Contains(got[0], "who else is asked") {
			t.Errorf("%s: not covered is %q", sets, got)
		}
	}
	if got := cost("stop.validation_accuracy=0.9").NotCovered; len(got) != 1 || !strings.HasPrefix(got[0], "the run's end follows validations") {
		t.Errorf("an end by accuracy: %q", got)
	}
	for formula, want := range map[string]int{"k0 / r": 0, "k0 * F / F0": 1, "k0 * (1 - accuracy)": 1, "k0 * (1 - straggler_share)": 1, "k0 * F / F0 * (1 - accuracy) * (1 - straggler_share)": 3} {
		if got := cost("schedule.k={rule: expression, formula: " + formula + "}").NotCovered; len(got) != want {
			t.Errorf("%s: not covered is %q", formula, got)
		}
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

func TestPrivacy_Refusals(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"aggregate.weights=samples":                           "aggregate.weights: with differential privacy no client counts more than another (set equal)",
		"aggregate.combine=median":                            "aggregate.combine: how far one client moves",
		"aggregate.clip=median":                               "aggregate.clip: privacy.clip is the bound on updates",
		"aggregate.algorithm=scaffold":                        "privacy.clip: is for updates of one vector",
		"aggregate.algorithm=fednova":                         `privacy.clip: "privacy.clip" takes updates as they are`,
		"late=use close={rule:deadline,seconds:1}":            "late: a late update would count",
		"close={rule:buffered,n:2}":                           "close: whether others' updates count",
		"close={rule:first,n:2} network.server_upload_mbps=9": "close: clients that share",
		"select=fit":                       "select: the steps of a round's clients follow the times of the others",
		"compress={method:sign,step:0.01}": "privacy.clip: does not go with compress: sign",
		"privacy.delta=0.09":               "privacy.delta: 0.09 may be the loss of one",
		"privacy.noise_multiplier=null":    "privacy: clip and noise_multiplier belong together",
		"select={rule:oort,seconds:1}":     "select: oort chooses clients by what their samples are",
	} {
		c, err := config.Load("", slices.Concat([]string{"task=femnist", "clients=200", "cohort=10"}, private, strings.Fields(sets)))
		if err == nil {
			_, err = problem.Prepare(t.Context(), c, false, nil, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}

// With real devices the key of the noise is random and its owner's alone; a run with the
// same devices has other noise, and a replay the same.
func TestPrivacy_DeviceNoiseIsSecret(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	var dir string
	for range 2 {
		o, sets := devicesAlone(t, "[d1, d2]", append(private[:2:2], "stop.rounds=3", "devices.keep_updates=true")...)
		c := runtest.Small(t, sets()...)
		stops := []func(){join(t, o.NATS.URL, "d1"), join(t, o.NATS.URL, "d2")}
		s := mustRun(t, c, o)
		for _, stop := range stops {
			stop()
		}
		if s.Privacy.Rate != 1 || s.Privacy.Simulated {
			t.Errorf("%+v", s.Privacy)
		}
		dir = c.Out
		path := filepath.Join(dir, folder.NoiseFile)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", folder.NoiseFile, info.Mode())
		}
		key, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		keys[string(key)] = true
		sameAgain(t, dir, s)
	}
	if len(keys) != 2 {
		t.Error("two runs have one key")
	}
	if err := os.Remove(filepath.Join(dir, folder.NoiseFile)); err != nil {
		t.Fatal(err)
	}
	c, err := LoadReplay(dir, []string{"out=" + t.TempDir()}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), c, Options{Continuation: Continuation{Replay: dir}}); err == nil || !strings.Contains(err.Error(), "the key of the run's noise") {
		t.Errorf("a replay without the key: %v", err)
	}
}

// No device is banned for what the coordinator's own noise does to the model: in about half of
// such runs one would be, by the measure for runs without noise.
func TestPrivacy_NoiseBlamesNoDevice(t *testing.T) {
	t.Parallel()
	for range 8 {
		o, all := devicesAlone(t, "[d1, d2, d3, d4, d5, d6]", "privacy.clip=1", "privacy.noise_multiplier=15", "privacy.delta=0.01", "stop.rounds=20", "devices.keep_updates=true")
		crowd(t, o.NATS.URL, map[string]lies{"d1": honest, "d2": honest, "d3": honest, "d4": honest, "d5": honest, "d6": honest})
		if s := mustRun(t, runtest.Small(t, all()...), o); len(s.Banned) > 0 {
			t.Errorf("banned are %+v", s.Banned)
		}
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
