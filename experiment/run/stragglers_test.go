package run

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/learn/metric"
)

var closings = map[string]struct {
	set   string
	shows round.Outcome // what the rule makes of stragglers
}{
	"all":      {"close=all", round.Accepted},
	"deadline": {"close={rule: deadline, seconds: 2.4}", round.Late},
	"first":    {"close={rule: first, n: 8}", round.Cancelled},
	"buffered": {"close={rule: buffered, n: 4, staleness_limit: 2}", round.Late},
}

var availabilities = map[string][]string{
	"always":    {"availability=always"},
	"bernoulli": {"availability={model: bernoulli, probability: 0.5, period_seconds: 5}"},
	"markov":    {"availability={model: markov, on_seconds: 6, off_seconds: 14}", "dropout={probability: 0.1, when_unavailable: true}"},
	"daily":     {"availability={model: daily, from_hour: 8, to_hour: 20, jitter_hours: 1}", "dropout={probability: 0.2}"},
	"share":     {"availability={model: share, share: {dist: uniform, min: 0.2, max: 0.9}, cycle_seconds: 10}", "dropout={probability: 0.1, when_unavailable: true}"},
	"battery":   {"availability={model: share, share: {dist: uniform, min: 0.5, max: 1}, cycle_seconds: 10}", "correlation.speed={spearman: 0.7, with: samples}", "correlation.availability={spearman: -0.5, with: entropy}", small},
	"trace":     {"availability={model: trace, sessions: stays.csv, spread: true}", "dropout={when_unavailable: true}"},
}

// small are batteries that are empty after a task or two.
const small = "fleet=[{name: slow, weight: 1, seconds_per_step: {dist: lognormal, mean: 0.4, sigma: 1}, watts: 3, battery: {joules: 15, start: {dist: uniform, min: 0.3, max: 1}, floor: 0.2, charge_watts: 3, charges: available}}, " +
	"{name: fast, weight: 2, step_cv: 0.2, seconds_per_step: {dist: uniform, min: 0.01, max: 0.02}, watts: {upload: 2}, battery: {joules: 4, charge_watts: 1}}]"

// stays is a file of recorded sessions.
func stays(t testing.TB) {
	t.Helper()
	t.Chdir(t.TempDir())
	runtest.WriteFile(t, "stays.csv", "trace,from_second,to_second\na,0,9\na,12,15\nb,3,20\n")
}

// counted is a set that notes whose samples are trained on.
type counted struct {
	federated.Set
	mu      sync.Mutex
	batches int64
}

func (s *counted) Batch(dst *learn.Batch, c int, samples []int32) error {
	s.mu.Lock()
	s.batches++
	s.mu.Unlock()
	return s.Set.Batch(dst, c, samples)
}

// counting runs a configuration and counts the minibatches that it trains on.
func counting(t *testing.T, c config.Config) (folder.Summary, int64) {
	t.Helper()
	p, err := prepare(c, false)
	if err != nil {
		t.Fatal(err)
	}
	set := &counted{Set: p.Set}
	p.Set = set
	s, err := p.execute(t.Context(), time.Now(), attempt{})
	if err := errors.Join(err, p.Close()); err != nil {
		t.Fatal(err)
	}
	return s, set.batches
}

// Under every closing rule and every availability a run that trains has the
// history of the run that does not, and trains on nothing but what counts: a
// client that is late, leaves or is not needed costs no gradient.
func TestStragglers_History(t *testing.T) {
	slow.Test(t, "internal/samebits has the same for one run of each kind")
	slow.NotUnderRace(t)
	for rule, closing := range closings {
		for model, available := range availabilities {
			t.Run(rule+"/"+model, func(t *testing.T) {
				stays(t)
				sets := append([]string{closing.set}, available...)
				timed := mustRun(t, runtest.Stragglers(t, append(sets, "train=false")...), Options{Place: Place{Hosts: 2}})
				trained, batches := counting(t, runtest.Stragglers(t, sets...))
				if trained.Fingerprint != timed.Fingerprint || trained.Outcomes != timed.Outcomes || trained.VirtualSeconds != timed.VirtualSeconds ||
					trained.ClientSeconds != timed.ClientSeconds || trained.Bytes != timed.Bytes || *trained.EnergyJoules != *timed.EnergyJoules {
					t.Errorf("trained: %+v\ntimed: %+v", trained, timed)
				}
				// Updates of a round that the end cuts short are not trained, and not useful.
				if batches != trained.ClientSteps.Useful || batches == 0 {
					t.Errorf("%d minibatches were trained on, %d steps count", batches, trained.ClientSteps.Useful)
				}
				if trained.Outcomes[closing.shows] == 0 {
					t.Errorf("nothing was %v: the test says little (%v)", closing.shows, trained.Outcomes)
				}
				if drops := len(available) > 1; drops != (trained.Outcomes[round.Dropped] > 0) {
					t.Errorf("%d tasks were dropped", trained.Outcomes[round.Dropped])
				}
			})
		}
	}
}

// Ways to choose clients, in real runs.
func TestStragglers_Selections(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	deadline := closings["deadline"].set
	uniform := mustRun(t, runtest.Stragglers(t, deadline, "train=false"), Options{})
	for name, set := range map[string]string{
		"fit": "select=fit", "fit in turn": "select={rule: fit, from: round_robin}",
		"power of choice": "select={rule: power_of_choice, candidates: 20}",
		"round robin":     "select=round_robin", "flanp by rounds": "select={rule: flanp, begin: 8, rounds: 2}",
		"oort": "select={rule: oort, seconds: 2}", "tifl": "select={rule: tifl, interval: 2}", "flanp": "select={rule: flanp, begin: 8}",
	} {
		t.Run(name, func(t *testing.T) {
			trained, batches := counting(t, runtest.Stragglers(t, deadline, set))
			if trained.Fingerprint == uniform.Fingerprint {
				t.Error("the history is that of a uniform choice")
			}
			if strings.HasPrefix(name, "power") {
				// Each candidate that answers computes one loss.
				if asked := batches - trained.ClientSteps.Useful; asked <= trained.Outcomes[round.Accepted] || asked > 8*20 {
					t.Errorf("%d losses were computed", asked)
				}
				return
			}
			if slices.Contains([]string{"oort", "tifl", "flanp"}, name) { // decide by losses
				if batches != trained.ClientSteps.Useful {
					t.Errorf("%d minibatches for %d steps", batches, trained.ClientSteps.Useful)
				}
				return
			}
			timed := mustRun(t, runtest.Stragglers(t, deadline, set, "train=false"), Options{})
			if timed.Fingerprint != trained.Fingerprint || batches != trained.ClientSteps.Useful {
				t.Errorf("fingerprints %s trained, %s timed; %d minibatches for %d steps", trained.Fingerprint, timed.Fingerprint, batches, trained.ClientSteps.Useful)
			}
			if strings.HasPrefix(name, "fit") && timed.Outcomes[round.Late] >= uniform.Outcomes[round.Late] {
				t.Errorf("%d are late though K fits the deadline, %d where it does not", timed.Outcomes[round.Late], uniform.Outcomes[round.Late])
			}
		})
	}
}

// A run that gets no update says so, once.
func TestStragglers_NoUpdates(t *testing.T) {
	t.Parallel()
	told := 0
	mustRun(t, runtest.Small(t, "train=false", "dropout.probability=1", "stop={rounds: 2500}"), Options{Callbacks: Callbacks{Notice: func(line string) {
		if strings.HasPrefix(line, "No update has counted for 1000 rounds:") {
			told++
		}
	}}})
	if told != 1 {
		t.Errorf("it is said %d times", told)
	}
}

// Each algorithm runs end to end, with decaying K and with stragglers, to a
// model of its own and the same history.
func TestStragglers_Algorithms(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	models := map[string]string{}
	var fingerprint string
	for _, name := range algorithm.Algorithms.Names() {
		if name == "python" { // examples/policies holds it against fedavgm
			continue
		}
		// Per-client K: only then does FedNova's normalisation differ.
		sets := []string{"close={rule: deadline, seconds: 4}", "select=fit", "aggregate.algorithm=" + name}
		if name == "fedprox" {
			sets = append(sets, "aggregate.mu=0.5")
		}
		if name == "streaming" || name == "decoupled" { // else its transfers are shorter, and clients do not wait for them
			sets = append(sets, "aggregate.fragments=1", "aggregate.overlap=0")
		}
		var notices []string
		s := mustRun(t, runtest.Stragglers(t, sets...), Options{Callbacks: Callbacks{Notice: func(line string) { notices = append(notices, line) }}})
		if other, same := models[*s.ModelSHA256]; same != (name == "fedbuff" || name == "refl") { // FedAvg where nothing is stale
			t.Errorf("%s ends with the model of %q", name, other)
		}
		models[*s.ModelSHA256] = name
		if fingerprint == "" {
			fingerprint = s.Fingerprint
		}
		if s.Fingerprint != fingerprint {
			t.Errorf("%s changes the history", name)
		}
		keeps := slices.ContainsFunc(notices, func(line string) bool { return strings.HasPrefix(line, name+" keeps up to ") })
		if keeps != slices.Contains([]string{"fedavgm", "fedadagrad", "fedadam", "fedyogi", "scaffold", "streaming", "decoupled"}, name) {
			t.Errorf("%s says %q", name, notices)
		}
		again := mustRun(t, runtest.Stragglers(t, sets...), Options{Place: Place{Hosts: 2, Workers: 3}})
		if *again.ModelSHA256 != *s.ModelSHA256 {
			t.Errorf("%s: another run with other hosts has another model", name)
		}
	}
}

// Compressed updates are smaller on the network, and lead to a model of their own. A
// run that is only timed has the history of the run that trains.
func TestStragglers_Compressions(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	whole := mustRun(t, runtest.Stragglers(t), Options{})
	models := map[string]string{*whole.ModelSHA256: "none"}
	for set, bits := range map[string]int64{ // of the 6.71 Mbit of 209,688 parameters
		"{method: qsgd, levels: 3}":                                      3*209_688 + 32,
		"{method: qsgd, levels: 3, bucket: 1000}":                        3*209_688 + 32*210,
		"{method: top_k, share: 0.01}":                                   2097 * (32 + 18),
		"{method: random_k, share: 0.01}":                                2097 * 32,
		"{method: random_k, share: 0.01, error_feedback: false}":         2097 * 32,
		"{method: sign, step: 0.001}":                                    209_688,
		"{method: top_k, share: 0.5}, network: {update_megabits: 3.125}": 3_125_000,
	} {
		set = "compress=" + set
		sets := []string{set}
		if a, b, ok := strings.Cut(set, ", network: {update_megabits: "); ok {
			sets = []string{a, "network.update_megabits=" + strings.TrimSuffix(b, "}")}
		}
		s := mustRun(t, runtest.Stragglers(t, sets...), Options{})
		if other, same := models[*s.ModelSHA256]; same {
			t.Errorf("%s ends with the model of %s", set, other)
		}
		models[*s.ModelSHA256] = set
		if again := mustRun(t, runtest.Stragglers(t, sets...), Options{Place: Place{Hosts: 2, Workers: 3}}); *again.ModelSHA256 != *s.ModelSHA256 {
			t.Errorf("%s: another run with other hosts has another model", set)
		}
		timed := mustRun(t, runtest.Stragglers(t, append(sets, "train=false")...), Options{})
		if timed.Fingerprint != s.Fingerprint || timed.Bytes != s.Bytes {
			t.Errorf("%s: fingerprints %s trained, %s timed; bytes %v and %v", set, s.Fingerprint, timed.Fingerprint, s.Bytes, timed.Bytes)
		}
		tasks := int64(0)
		for _, n := range s.Outcomes {
			tasks += n
		}
		if got, want := s.Bytes.Useful+s.Bytes.Wasted, tasks*(6_710_000/8+bits/8); got != want || tasks != 8*12 {
			t.Errorf("%s: %d bytes, want %d", set, got, want)
		}
	}
}

// A run of K-eta-fixed under any rule and devices takes exactly the time that
// equal_runtime_rounds gives it.
func TestStragglers_EqualRuntime(t *testing.T) {
	slow.NotUnderRace(t)
	for rule, closing := range closings {
		for model, available := range availabilities {
			t.Run(rule+"/"+model, func(t *testing.T) {
				stays(t)
				c := runtest.Stragglers(t, append(append([]string{"train=false", "schedule.k=fixed", "stop={equal_runtime_rounds: 30, rounds: null}"}, closing.set), available...)...)
				if s := mustRun(t, c, Options{}); s.Rounds != 30 || *s.RelativeSGDSteps != 1 {
					t.Errorf("%d rounds, relative steps %g; want 30, 1", s.Rounds, *s.RelativeSGDSteps)
				}
			})
		}
	}
}

// One class of equal, constant devices is the same as none, also for what is
// foreseen and compared. Where rounds are not all alike, the user is told that they are played.
func TestClasses_WithoutContent(t *testing.T) {
	plain := mustRun(t, runtest.Small(t, "train=false", "stop={equal_runtime_rounds: 20, rounds: null}"), Options{})
	class := mustRun(t, runtest.Small(t, "train=false", "stop={equal_runtime_rounds: 20, rounds: null}", "fleet=[{name: phone}]"), Options{})
	if plain.Fingerprint != class.Fingerprint || plain.EnergyJoules != nil || class.EnergyJoules != nil {
		t.Errorf("%+v\n%+v", plain, class)
	}
	defer func(tasks int) { longTiming = tasks }(longTiming)
	longTiming = 0
	var notices []string
	o := Options{Callbacks: Callbacks{Notice: func(line string) { notices = append(notices, line) }}}
	mustRun(t, runtest.Small(t, "train=false", "stop={equal_runtime_rounds: 20, rounds: null}", "dropout.probability=0.01"), o)
	if len(notices) != 1 || !strings.Contains(notices[0], "not all alike") {
		t.Errorf("%q, want that rounds are not all alike", notices)
	}
}

// What a run's clients spend, worked out by hand: constant devices of 1 s down,
// 4 s of computing and 2 s up; half of them take 9 s longer to compute.
func TestAccounts(t *testing.T) {
	t.Parallel()
	base := []string{"train=false", "clients=400", "cohort=40", "schedule={k: fixed, k0: 4}", "network={download_mbps: 8, upload_mbps: 4, model_megabits: 8}",
		"stop={rounds: 10}", "fleet=[{name: fast, seconds_per_step: 1, watts: {download: 1, compute: 5, upload: 2}}, {name: slow, seconds_per_step: 3.25, watts: {download: 1, compute: 5, upload: 2}}]"}
	run := func(sets ...string) folder.Summary {
		return mustRun(t, runtest.Small(t, append(base, sets...)...), Options{})
	}
	same := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	all := run()
	slow := (all.ClientSeconds.Useful - 400*7) / 9 // tasks of slow clients
	if slow < 150 || slow > 250 || slow != math.Trunc(slow) {
		t.Fatalf("%g of 400 tasks are slow", slow)
	}
	same("wasted time", all.ClientSeconds.Wasted, 0)
	same("steps", float64(all.ClientSteps.Useful), 1600)
	same("bytes", float64(all.Bytes.Useful), 400*2*1e6)
	same("energy", all.EnergyJoules.Useful, 400*(1+20+4)+slow*45)
	if *all.StragglerShare <= 0 || *all.StragglerShare > 9.0/16 { // 9 of 16 s in rounds with a fast majority, else nothing
		t.Errorf("the straggler share is %g", *all.StragglerShare)
	}

	// A deadline after 9 s: slow clients have their model and 8 of 13 s of
	// computing behind them, two whole steps.
	late := run("close={rule: deadline, seconds: 9}")
	same("useful time", late.ClientSeconds.Useful, (400-slow)*7)
	same("wasted time", late.ClientSeconds.Wasted, slow*9)
	same("useful steps", float64(late.ClientSteps.Useful), (400-slow)*4)
	same("wasted steps", float64(late.ClientSteps.Wasted), slow*2)
	same("wasted bytes", float64(late.Bytes.Wasted), slow*1e6)
	same("wasted energy", late.EnergyJoules.Wasted, slow*(1+8*5))
	same("straggler share", *late.StragglerShare, 0)

	// The run's end after 14 s: the round's fast clients were for nothing.
	cut := run("stop={virtual_seconds: 14, rounds: null}")
	if cut.Rounds != 0 || cut.ClientSeconds.Useful != 0 || cut.Outcomes[round.Cancelled] != 40 {
		t.Errorf("a run that ends within its first round: %+v", cut)
	}
	if n := cut.ClientSeconds.Wasted; n < 40*7 || n > 40*14 || cut.Bytes.Wasted <= 40*1e6 {
		t.Errorf("it wastes %g s and %d bytes", n, cut.Bytes.Wasted)
	}
}

// A model that every candidate has downloaded is not counted again for those
// who are chosen.
func TestCandidates_Accounts(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "select={rule: power_of_choice, candidates: 25}", "network={download_mbps: 8, upload_mbps: 4, model_megabits: 8}", "stop.rounds=4", "compute.seconds_per_step=1", "schedule={k: fixed, k0: 4}")
	s := mustRun(t, c, Options{})
	if s.Bytes.Useful != 4*10*2e6 || s.Bytes.Wasted != 4*15*1e6 {
		t.Errorf("bytes %+v, want 4 rounds of 10 chosen and 15 others", s.Bytes)
	}
	// Chosen: 1 s down, 1 s for the loss, 4 s of steps, 2 s up.
	if s.ClientSeconds.Useful != 4*10*8 || s.ClientSeconds.Wasted != 4*15*2 || s.ClientSteps.Useful != 4*10*4 || s.ClientSteps.Wasted != 0 {
		t.Errorf("%+v, %+v", s.ClientSeconds, s.ClientSteps)
	}
}

func TestTarget_Time(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "evaluate={every: 1, target: 0.1}", "stop.rounds=12", "schedule.k0=20")
	s := mustRun(t, c, Options{})
	rows, err := runtest.ReadRounds(filepath.Join(c.Out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r round.Report) bool { return metric.ValueAt(r.Metrics, 0) >= 0.1 })
	if i < 0 || s.TimeToTarget == nil || *s.TimeToTarget != rows[i].End.Seconds() || s.Rounds != 12 {
		t.Errorf("time to target %v, rounds %+v", s.TimeToTarget, rows)
	}
}

// Files of devices: what they hold decides, and a mistake in them is named with
// its file and line before anything is written.
func TestDevices_Files(t *testing.T) {
	t.Chdir(t.TempDir())
	runtest.WriteFile(t, "links.csv", "trace,second,download_mbps,upload_mbps\na,0,8,4\na,1,8,4\nb,0,80,40\n")
	runtest.WriteFile(t, "devices.csv", "device,milliseconds\npi,100\nphone,10\n")
	out := filepath.Join(t.TempDir(), "run")
	run := func(sets ...string) folder.Summary {
		t.Helper()
		return mustRun(t, runtest.Small(t, append([]string{"train=false", "network.model_megabits=8", "compute.seconds_per_step=1", "schedule={k: fixed, k0: 4}"}, sets...)...), Options{})
	}
	// Wait-for-all: a client of trace a is in every cohort, most likely.
	if s := run("fleet=[{name: x, links: {file: links.csv, traces: [a]}}]"); s.VirtualSeconds != 6*7 {
		t.Errorf("6 rounds on trace a take %g s, want 42", s.VirtualSeconds)
	}
	if s := run("fleet=[{name: x, links: {file: links.csv, traces: [b]}}]"); math.Abs(s.VirtualSeconds-6*4.3) > 1e-9 {
		t.Errorf("6 rounds on trace b take %g s, want 25.8", s.VirtualSeconds)
	}
	if s := run("network.links=links.csv", "compute={measured: devices.csv, reference: pi}"); s.VirtualSeconds <= 6*4 || s.VirtualSeconds > 6*7 {
		t.Errorf("6 rounds of all devices take %g s", s.VirtualSeconds)
	}
	runtest.WriteFile(t, "gap.csv", "trace,second,download_mbps,upload_mbps\na,0,8,4\na,2,8,4\n")
	runtest.WriteFile(t, "late.csv", "trace,from_second,to_second\na,5,3\n")
	runtest.WriteFile(t, "twice.csv", "device,milliseconds\npi,100\npi,10\n")
	for _, test := range []struct{ set, want string }{
		{"network.links=gap.csv", `network.links: gap.csv: link traces: line 3: second is "2", want 1: seconds count from 0 without gaps`},
		{"fleet=[{name: x, links: none.csv}]", `fleet[0].links: open none.csv: no such file or directory`},
		{"fleet=[{name: x, links: {file: links.csv, traces: [c]}}]", `fleet[0].links: links.csv: there is no link trace "c", want one of a, b`},
		{"availability={model: trace, sessions: late.csv}", `availability.sessions: late.csv: sessions: line 2: a session from 5 to 3 s, want its end behind its beginning, and both behind the trace's one before`},
		{"fleet=[{name: x, availability: {model: trace, sessions: none.csv}}]", `fleet[0].availability.sessions: open none.csv: no such file or directory`},
		{"compute={measured: twice.csv, reference: pi}", `compute.measured: twice.csv: measured devices: line 3: device "pi" stands in line 2 already`},
		{"compute={measured: devices.csv, reference: pie}", `compute.reference: devices.csv: no measured device is called "pie", want one of the 2 in the file`},
	} {
		_, err := Run(t.Context(), runtest.Small(t, test.set, "out="+out), Options{})
		if err == nil || err.Error() != test.want {
			t.Errorf("\n got %v\nwant %s", err, test.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a folder was left behind", test.set)
		}
	}
}

// An algorithm's state that would not fit is refused with its size before
// anything is written.
func TestState_Limited(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		// 8 B for each parameter of an update by itself: of the 80 of a buffer, or of all 200 clients
		"aggregate.algorithm=refl close={rule:buffered,n:80}":                                        "limits.state_gb: 0.1, but refl keeps up to 0.134 GB for 209662 parameters and 80 updates in a round (raise the limit, or take fewer updates in a round or another algorithm)",
		"aggregate.algorithm=refl close={rule:first,n:1} late={rule:use,limit:3}":                    "limits.state_gb: 0.1, but refl keeps up to 0.335 GB for 209662 parameters and 200 updates in a round (raise the limit, or take fewer updates in a round or another algorithm)",
		"aggregate.algorithm=refl close={rule:first,n:1} late={rule:use,limit:3} devices.names=[pi]": "limits.state_gb: 0.1, but refl keeps up to 0.337 GB for 209662 parameters and 201 updates in a round (raise the limit, or take fewer updates in a round or another algorithm)",
		"aggregate.algorithm=scaffold":                                                               "limits.state_gb: 0.1, but scaffold keeps up to 0.17 GB for 209662 parameters and 200 clients (raise the limit, or take fewer clients or another algorithm)",
		"compress=random_k":                                                                          "limits.state_gb: 0.1, but random_k keeps up to 0.168 GB for 209662 parameters and 200 clients (raise the limit, or take fewer clients or another compression)",
	} {
		c := runtest.Small(t, append(strings.Fields(sets), "limits.state_gb=0.1")...)
		_, err := Run(t.Context(), c, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
		if _, err := os.Stat(c.Out); err == nil {
			t.Error("a folder was left behind")
		}
	}
}

// Where nobody comes back the run ends and says why.
func TestStragglers_DesertedRun(t *testing.T) {
	t.Chdir(t.TempDir())
	runtest.WriteFile(t, "never.csv", "trace,from_second,to_second\na,0,1\n")
	c := runtest.Small(t, "train=false", "availability={model: trace, sessions: never.csv, period_seconds: 90000000}", "stop.rounds=100")
	var notices []string
	s := mustRun(t, c, Options{Callbacks: Callbacks{Notice: func(line string) { notices = append(notices, line) }}})
	want := fmt.Sprintf("The run ended after %d rounds: no client is available any more.", s.Rounds)
	if s.Rounds == 0 || s.Rounds >= 100 || len(notices) != 1 || notices[0] != want {
		t.Errorf("%q, want %q", notices, want)
	}
	// What nobody can do takes no time either.
	c = runtest.Small(t, "train=false", "availability={model: trace, sessions: never.csv, period_seconds: 90000000}", "stop={equal_runtime_rounds: 100, rounds: null}")
	if _, err := Run(t.Context(), c, Options{}); err == nil || !strings.Contains(err.Error(), "stop.equal_runtime_rounds: the fixed schedule ends after") {
		t.Errorf("got %v", err)
	}
}

// Dry runs of random rounds are exact, also of more rounds than are played to find out what they cost.
func TestStragglers_DryRun(t *testing.T) {
	slow.NotUnderRace(t)
	stays(t)
	defer func(tasks int) { trialTasks = tasks }(trialTasks)
	trialTasks = 400
	for rule, closing := range closings {
		sets := append([]string{closing.set, "train=false", "stop.rounds=100"}, availabilities["markov"]...)
		c := runtest.Stragglers(t, sets...)
		e, err := DryRun(t.Context(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s := mustRun(t, c, Options{}); e.Rounds != s.Rounds || e.Virtual != s.VirtualSeconds || e.Steps != s.SGDSteps || e.IsSampled {
			t.Errorf("%s: foreseen %d rounds, %g s, %d steps, came to %d rounds, %g s, %d steps", rule, e.Rounds, e.Virtual, e.Steps, s.Rounds, s.VirtualSeconds, s.SGDSteps)
		}
	}
}

// The scale that the round machine and the devices are built for: 10,000 of a
// million clients a round, lognormal speeds, three in ten available, a deadline.
func BenchmarkStragglersAtScale(b *testing.B) {
	for range b.N {
		c, err := config.Load("", []string{
			"train=false", "clients=1000000", "cohort=10000", "stop.rounds=100", "out=" + filepath.Join(b.TempDir(), "run"),
			"availability={model: bernoulli, probability: 0.3, period_seconds: 600}", "close={rule: deadline, seconds: 4}",
			"fleet=[{name: phone, seconds_per_step: {dist: lognormal, mean: 0.017, sigma: 0.5}," +
				"download_mbps: {dist: lognormal, mean: 20, sigma: 0.5}, upload_mbps: {dist: lognormal, mean: 5, sigma: 0.5}}]",
		})
		if err != nil {
			b.Fatal(err)
		}
		s := mustRun(b, c, Options{})
		tasks := int64(0)
		for _, n := range s.Outcomes {
			tasks += n
		}
		b.ReportMetric(float64(tasks)/s.WallSeconds, "client-rounds/s")
	}
}

// A round with too few updates for the combining rule is told, the first time.
func TestSecure_UnprotectedRound(t *testing.T) {
	t.Parallel()
	var told []string
	sets := []string{"cohort=6", "aggregate.combine={rule: trimmed_mean, liars: 0.1}", "dropout.probability=0.6", "stop={rounds: 30}"}
	mustRun(t, runtest.Small(t, sets...), Options{Callbacks: Callbacks{Notice: func(line string) {
		if strings.Contains(line, "is not protected: aggregate.combine.liars: 0.1 of ") {
			told = append(told, line)
		}
	}}})
	if len(told) != 1 {
		t.Errorf("told %q", told)
	}
}
