package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
)

// choices are settings of which a run draws a few. Many do not go together, and are refused.
var choices = []struct {
	key    string
	values []string
}{
	{"task", []string{"quadratic"}},
	{"clients", []string{"7", "60"}},
	{"cohort", []string{"1", "6"}},
	{"batch", []string{"1", "7"}},
	{"close", []string{"{rule: deadline, seconds: 1}", "{rule: first, n: 3}", "{rule: formula, seconds: 1.1 * expected}", "{rule: formula, n: cohort * (1 - straggler_share), seconds: quantile(0.7), m: 2}", "{rule: buffered, n: 2}", "{rule: buffered, n: 2, grace: 0.5}", "{rule: buffered, n: 2, staleness_limit: 2}", "{rule: quorum, n: 4, m: 2, seconds: 1}"}},
	{"late", []string{"{rule: use, limit: 2}"}},
	{"schedule.k", []string{"fixed", "error", "step", "dsgd", "{rule: adacomm, seconds: 2}", "auto", "{rule: expression, formula: k0 / cbrt(r) + straggler_share}", "{rule: power, power: -1/2, max: 30}"}},
	{"schedule.eta", []string{"rounds", "error", "{rule: warmup, rounds: 4, then: rounds}"}},
	{"schedule.unit", []string{"epochs"}},
	{"schedule.loss", []string{"validation", "trimmed"}},
	{"aggregate", []string{
		"{algorithm: fedprox}", "{algorithm: scaffold}", "{algorithm: fednova}", "{algorithm: fedadam}", "{algorithm: fedavgm, nesterov: true}", "{algorithm: fedexp}", "{algorithm: fedbuff}",
		"{algorithm: fedasync}", "{algorithm: refl}", "{algorithm: streaming, fragments: 2, overlap: 2}", "{algorithm: decoupled, fragments: 2, overlap: 2}", "{weights: samples}", "{clip: median}", "{clip: quantile}", "{combine: trimmed_mean}", "{combine: {rule: multi_krum, liars: 0}}",
	}},
	{"network.sites", []string{"{count: 2, upload_mbps: 3}"}},
	{"aggregate.site_rounds", []string{"2"}},
	{"network.server_upload_mbps", []string{"5"}},
	{"privacy", []string{"{clip: 1, noise_multiplier: 1, delta: 1e-3}"}},
	{"privacy.local", []string{"{clip: 1, noise_multiplier: 0.1}"}},
	{"compress", []string{"top_k", "{method: random_k, share: 0.2}", "qsgd", "{method: sign, step: 0.01}", "{method: four_bit, block: 10}", "{method: sparseloco, share: 0.1, chunk: 20}"}},
	{"local", []string{"adam", "{optimizer: adamw, keep: true}", "{momentum: 0.9, nesterov: true}", "{momentum: 0.9, keep: true}", "{clip: 0.5}"}},
	{"select", []string{"fit", "{rule: flanp, begin: 1, rounds: 2}", "{rule: power_of_choice, candidates: 7}", "{rule: oort, seconds: 1}", "round_robin", "{rule: tifl, tiers: 2, interval: 3}", "{rule: least_available, seconds: 5}"}},
	{"availability", []string{"{model: bernoulli, probability: 0.6, period_seconds: 3}", "{model: markov, on_seconds: 5, off_seconds: 2}"}},
	{"dropout", []string{"{probability: 0.3}", "{away: wait}", "{when_unavailable: true}"}},
	{"slowdown", []string{"{every_seconds: 5, for_seconds: 2, factor: 3, links: true}"}},
	{"fleet", []string{
		"[{name: a, seconds_per_step: {dist: lognormal, mean: 0.02, sigma: 0.5}, step_cv: 0.3}, {name: b, upload_mbps: 1, batch: 5}]",
		"[{name: a, count: 1, attack: {kind: sign_flip}}, {name: b, watts: 3, battery: {joules: 5, charge_watts: 1}}]",
		"[{name: a, weight: 1, attack: {kind: min_max}}, {name: b, weight: 3, availability: {model: markov, on_seconds: 4, off_seconds: 1}}]",
		"[{name: a, attack: {kind: false_loss}}, {name: b, attack: {kind: late}}, {name: c, vary: {compute: {dist: uniform, min: 0.5, max: 3}}}]",
	}},
	{"personal.names", []string{"[bias]"}},
	{"evaluate.clients.every", []string{"2"}},
	{"stop", []string{"{virtual_seconds: 5}", "{accepted: 30, rounds: 40}", "{equal_runtime_rounds: 6}"}},
}

// Whatever goes together: a run has one result, through NATS and without, with any number of trainers, and
// stopped in any round; and a dry run that names its length without an interval names the run's.
func TestAnyRun_OneResult(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	n := 12
	if slow.On() {
		n = 600
	}
	played, foretold := 0, 0
	for i := range n {
		r := rand.New(rand.NewPCG(20, uint64(i)))
		sets := []string{"task=logistic", "clients=20", "cohort=5", "schedule.k0=5", "schedule.window=2", "stop.rounds=10", "evaluate.every=3", "outputs=[tasks]", fmt.Sprint("seed=", i)}
		for _, c := range choices {
			if r.IntN(5) == 0 {
				sets = append(sets, c.key+"="+c.values[r.IntN(len(c.values))])
			}
		}
		load := func(more ...string) (config.Config, error) {
			return config.Load("", slices.Concat(sets, more, []string{"out=" + filepath.Join(t.TempDir(), "run")}))
		}
		c, err := load("nats.url=none")
		if err != nil {
			continue
		}
		want, err := Run(t.Context(), c, Options{Place: Place{Workers: 1}})
		if _, begun := os.Stat(c.Out); err != nil && begun != nil { // it is refused, and leaves nothing
			continue
		} else if err != nil {
			t.Errorf("%s: %v", sets, err)
			continue
		}
		played++
		same := func(how string, got folder.Summary, err error) {
			if err != nil {
				t.Errorf("%s, %s: %v", sets, how, err)
			} else if diff := cmp.Diff(history(want), history(got)); diff != "" {
				t.Errorf("%s, %s:\n%s", sets, how, diff)
			}
		}
		c, err = load("events.sample=0")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Run(t.Context(), c, Options{Place: Place{Hosts: 2, Workers: 3}})
		same("through NATS", s, err)
		c, err = load("nats.url=none", "checkpoint.seconds=1000")
		if err != nil {
			t.Fatal(err)
		}
		last := 1 + r.IntN(max(1, want.Rounds))
		ctx, stop := context.WithCancel(t.Context())
		s, err = Run(ctx, c, Options{Callbacks: Callbacks{Round: func(r *round.Report) {
			if r.Round >= last {
				stop()
			}
		}}})
		stop()
		if errors.Is(err, context.Canceled) {
			var resumed Resumed
			resumed, err = Resume(t.Context(), c.Out, Options{})
			s = resumed.Summary
		}
		same(fmt.Sprint("stopped in round ", last), s, err)
		f, err := DryRun(t.Context(), c, Options{})
		exact := f.VirtualWithin == nil && f.RoundsWithin == nil && !f.FollowsMeasures && !f.IsSampled && !f.IsUpperBound && !f.MayEndSooner
		if exact {
			foretold++
		}
		if err != nil || exact && (f.Rounds != want.Rounds || f.Virtual != want.VirtualSeconds) {
			t.Errorf("%s: foreseen are %d rounds and %g s (%v), it has %d and %g", sets, f.Rounds, f.Virtual, err, want.Rounds, want.VirtualSeconds)
		}
	}
	t.Logf("of %d drawn runs %d go together, and %d are foretold without an interval", n, played, foretold)
	if played < n/5 || foretold < played/5 {
		t.Error("the test says little")
	}
}

// history is what a summary says of a run but how and where it was played, with the digests of tables.
func history(s folder.Summary) folder.Summary {
	s.WallSeconds, s.Bus, s.SummarySHA256, s.Version = 0, "", "", ""
	s.Files = slices.DeleteFunc(slices.Clone(s.Files), func(f folder.FileDigest) bool {
		return !strings.HasPrefix(f.Name, "rounds.") && !strings.HasSuffix(f.Name, ".parquet")
	})
	return s
}
