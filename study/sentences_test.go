package study

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"fedpace/internal/statistics"
	"fedpace/internal/testkit/prose"
)

// A docRun names the runs of one schedule at one point of a grid, "" without one.
type docRun struct{ file, point, schedule string }

// values are a quantity of these runs by their seeds.
func (d docRun) values(t *testing.T, quantity string) map[string]float64 {
	t.Helper()
	rows, header := readRows(t, filepath.Join(docs, d.file))
	bySeed := map[string]float64{}
	for _, r := range rows {
		if r["schedule"] == d.schedule && (d.point == "" || r[header[0]] == d.point) {
			bySeed[r["seed"]] = r.number(quantity)
		}
	}
	if len(bySeed) == 0 {
		t.Fatalf("%s has no runs of %v", d.file, d)
	}
	return bySeed
}

const (
	deadline = "{rule: deadline, seconds: 5}"
	first    = "{rule: first, n: 10}"
	buffered = "{rule: buffered, n: 10}"
)

// even are runs of the study of stragglers with equal clients.
func even(schedule string) docRun { return docRun{"study/even-runs.csv", "", schedule} }

// spread are its runs with clients that differ, under a closing rule.
func spread(rule, schedule string) docRun { return docRun{"study/stragglers-runs.csv", rule, schedule} }

// dealt are the runs with tweets dealt to clients by a partition.
func dealt(partition, schedule string) docRun {
	return docRun{"study/alpha-runs.csv", partition + ".fedpace", schedule}
}

// optioned are the runs of the study of a schedule's options.
func optioned(schedule string) docRun { return docRun{"study/schedules-runs.csv", "", schedule} }

// candidate are the runs of a setting that the tuning chose or had left out early, played to the end.
func candidate(setting string) docRun { return docRun{"study/candidates-runs.csv", "", setting} }

// finalist are the runs of the best of these with further seeds.
func finalist(setting string) docRun { return docRun{"study/finalists-runs.csv", "", setting} }

// A studies value reads the runs behind docs/study.md.
type studies struct{ t *testing.T }

// above is how far the tails of runs are above those of others with the same seeds, in points.
func (s studies) above(runs, than docRun) statistics.Estimated {
	s.t.Helper()
	tails := runs.values(s.t, tailColumn)
	others := than.values(s.t, tailColumn)
	var differences []float64
	for _, seed := range slices.Sorted(maps.Keys(tails)) {
		differences = append(differences, 100*(tails[seed]-others[seed]))
	}
	return statistics.EstimateMean(differences)
}

// mean is the mean of a quantity over the seeds of runs.
func (s studies) mean(runs docRun, quantity string) float64 {
	s.t.Helper()
	sum := 0.0
	values := runs.values(s.t, quantity)
	for _, seed := range slices.Sorted(maps.Keys(values)) {
		sum += values[seed]
	}
	return sum / float64(len(values))
}

// percent is the mean of a share over the seeds of runs, in percent.
func (s studies) percent(runs docRun, share string) float64 {
	s.t.Helper()
	return 100 * s.mean(runs, share)
}

// steps are the SGD steps of runs in percent of those of others, each in the mean over seeds.
func (s studies) steps(runs, than docRun) float64 {
	s.t.Helper()
	const steps = "client_sgd_steps"
	return 100 * s.mean(runs, steps) / s.mean(than, steps)
}

// stepsUnder are the steps of a schedule in percent of fixed K's, under each closing rule but to wait
// for all.
func (s studies) stepsUnder(schedule string) []float64 {
	s.t.Helper()
	var list []float64
	for _, rule := range []string{deadline, first, buffered} {
		list = append(list, s.steps(spread(rule, schedule), spread(rule, "fixed")))
	}
	return append(list, s.steps(even(schedule), even("fixed")))
}

// stragglers lists the sentences of the study of stragglers.
func (s studies) stragglers() []prose.Sentence {
	const wasted = "wasted_time_share"
	waiting := spread("all", "fixed")
	roundsSteps := s.stepsUnder("rounds")
	errorSteps := append(s.stepsUnder("error"), s.steps(spread("all", "error"), waiting))
	gainOfAll := s.above(spread("all", "rounds"), waiting)
	return []prose.Sentence{
		prose.Says("120 virtual seconds are 39 rounds of fixed K",
			prose.Number("39", s.mean(even("fixed"), "rounds"))),
		prose.Says("waiting for all ends 8.5 ± 1.8 points below equal clients",
			prose.Interval(s.above(even("fixed"), waiting), "8.5", "1.8")...),
		prose.Says("`rounds` wins 2.7 ± 1.5 of them back.", prose.Interval(gainOfAll, "2.7", "1.5")...),
		prose.Says("54 % of a round is the wait", prose.Number("54", s.percent(waiting, "straggler_share"))),
		prose.Says("a deadline ends 4.5 ± 2.4 points above waiting for all",
			prose.Interval(s.above(spread(deadline, "fixed"), waiting), "4.5", "2.4")...),
		prose.Says("the first 10 of 13 end 5.3 ± 1.1 above",
			prose.Interval(s.above(spread(first, "fixed"), waiting), "5.3", "1.1")...),
		prose.Says("buffered rounds 7.8 ± 2.4.",
			prose.Interval(s.above(spread(buffered, "fixed"), waiting), "7.8", "2.4")...),
		prose.Says("waste 3 % of client time in place of 24 and 32",
			prose.Number("3", s.percent(spread(buffered, "fixed"), wasted)),
			prose.Number("24", s.percent(spread(deadline, "fixed"), wasted)),
			prose.Number("32", s.percent(spread(first, "fixed"), wasted))),
		prose.Says("told from equal clients (0.7 ± 1.3 points)",
			prose.Interval(s.above(even("fixed"), spread(buffered, "fixed")), "0.7", "1.3")...),
		prose.Says("but the 1.2 ± 1.5 points between the two are not distinguished", s.gainsApart()...),
		prose.Says("It takes 68 % of fixed K's steps in (b), 51 to 56 % elsewhere.",
			prose.Number("68", s.steps(spread("all", "rounds"), waiting)),
			prose.Number("51", slices.Min(roundsSteps)),
			prose.Number("56", slices.Max(roundsSteps))),
		prose.Says("91 to 98 % of fixed K's steps",
			prose.Number("91", slices.Min(errorSteps)),
			prose.Number("98", slices.Max(errorSteps))),
	}
}

// gainsApart are the figures of how much more `rounds` gains where the coordinator waits for all than
// where the first ten close a round, in points.
func (s studies) gainsApart() []prose.Figure {
	s.t.Helper()
	gains := func(rule string) map[string]float64 { return spread(rule, "rounds").values(s.t, gainColumn) }
	all := gains("all")
	ten := gains(first)
	var differences []float64
	for _, seed := range slices.Sorted(maps.Keys(all)) {
		differences = append(differences, 100*(all[seed]-ten[seed]))
	}
	return prose.Interval(statistics.EstimateMean(differences), "1.2", "1.5")
}

// clients lists the sentences of the studies of clients that differ.
func (s studies) clients() []prose.Sentence {
	const relative = "relative_sgd_steps"
	synthetic := docRun{"heterogeneity-runs.csv", "2", "rounds"}
	gain := s.above(synthetic, docRun{"heterogeneity-runs.csv", "2", "fixed"})
	return []prose.Sentence{
		prose.Says("is seen at 2 alone, 1.0 ± 0.3 points", prose.Interval(gain, "1.0", "0.3")...),
		prose.Says("`rounds` takes 57 % of the steps.", prose.Number("57", s.percent(synthetic, relative))),
		prose.Says("with a thirteenth of fixed K's steps",
			prose.Number("a thirteenth", s.mean(dealt("alpha-0.05", "dsgd"), relative))),
		prose.Says("`rounds` takes 30 % of the steps throughout.",
			prose.Number("30", s.percent(dealt("alpha-0.05", "rounds"), relative)),
			prose.Number("30", s.percent(dealt("iid", "rounds"), relative))),
	}
}

// options lists the sentences of the study of a schedule's options.
func (s studies) options() []prose.Sentence {
	var gains []float64
	for _, exponent := range []string{"{rule: power, power: 1/4}", "rounds", "{rule: power, power: 1/2}", "{rule: power, power: 1}"} {
		gains = append(gains, s.above(optioned("{k: "+exponent+"}"), optioned("{k: fixed}")).Mean)
	}
	eta := func(schedule string) docRun { return docRun{"study/energy-eta-runs.csv", "", schedule} }
	byRounds := docRun{"study/energy-k-runs.csv", "", "rounds"}
	below := func(schedule string) float64 { return s.above(byRounds, eta(schedule)).Mean }
	others := []float64{below("fixed"), below("eta-error"), below("eta-step")}
	return []prose.Sentence{
		prose.Says("each of the four gains 0.8 to 1.0 points",
			prose.Number("0.8", slices.Min(gains)),
			prose.Number("1.0", slices.Max(gains))),
		prose.Says("With equal energy `eta-rounds` ends 3.3 points below `rounds`, the others 1.4 to 1.5.",
			prose.Number("3.3", below("eta-rounds")),
			prose.Number("1.4", slices.Min(others)),
			prose.Number("1.5", slices.Max(others))),
	}
}

// tuned lists the sentences of the study of each schedule at its best.
func (s studies) tuned() []prose.Sentence {
	s.t.Helper()
	decay := finalist("{k: rounds, k0: 60, eta0: 3}")
	four := finalist("{k: fixed, k0: 4, eta0: 3}")
	// sooner holds by how many seconds decay reaches the level before the constant 4, seed by seed.
	var sooner []float64
	reached := decay.values(s.t, "seconds_to_level")
	others := four.values(s.t, "seconds_to_level")
	for _, seed := range slices.Sorted(maps.Keys(reached)) {
		sooner = append(sooner, others[seed]-reached[seed])
	}
	gain := s.above(candidate("{k: rounds, k0: 60, eta0: 3}"), candidate("{k: rounds, k0: 150, eta0: 6}"))
	overTwo := s.above(decay, finalist("{k: fixed, k0: 2, eta0: 3}"))
	largest := 0.0
	for _, constant := range []string{"1", "4"} {
		lead := s.above(decay, finalist("{k: fixed, k0: "+constant+", eta0: 3}"))
		if lead.Mean-lead.Half > 0 {
			s.t.Errorf("decay ends %v points above a constant of %s, which is a difference", lead, constant)
		}
		largest = max(largest, lead.Mean+lead.Half)
	}
	return []prose.Sentence{
		prose.Says("ends 0.13 ± 0.09 points above a constant of 2", prose.Interval(overTwo, "0.13", "0.09")...),
		prose.Says("(0.2 points are not excluded)", prose.Number("0.2", largest)),
		prose.Says("It is 253 ± 165 s sooner at 0.7694 than K = 4.",
			append(prose.Interval(statistics.EstimateMean(sooner), "253", "165"),
				prose.Number("0.7694", s.mean(decay, "level")))...),
		prose.Says("from 60 with 3 ends 0.33 ± 0.11 points above its choice", prose.Interval(gain, "0.33", "0.11")...),
	}
}

// controlled lists the sentences of the study of stragglers with controls.
func (s studies) controlled() []prose.Sentence {
	s.t.Helper()
	const waiting = "straggler_share"
	sixty := uneven("all", "fixed")
	decay := uneven("all", "rounds")
	decayOfForty := uneven(firstForty, "rounds")
	return []prose.Sentence{
		prose.Says("`rounds` gains 2.2 ± 0.2 points over K = 60", prose.Interval(s.above(decay, sixty), "2.2", "0.2")...),
		prose.Says("a constant of 3 gains 2.0 ± 0.3.", prose.Interval(s.above(uneven("all", "k3"), sixty), "2.0", "0.3")...),
		prose.Says("close a round it gains 0.7 ± 0.2.",
			prose.Interval(s.above(decayOfForty, uneven(firstForty, "fixed")), "0.7", "0.2")...),
		prose.Says("above 3 decay ends by 0.2.",
			prose.Number("0.2", s.above(decay, uneven("all", "k3")).Mean),
			prose.Number("0.2", s.above(decayOfForty, uneven(firstForty, "k3")).Mean)),
		prose.Says("every schedule ends 0.5 to 2.0 points higher with the first 40.", s.fortyLeads()...),
		prose.Says("83 % of a round of K = 60 is the wait for stragglers, 61 % with `rounds`.",
			prose.Number("83", s.percent(sixty, waiting)),
			prose.Number("61", s.percent(decay, waiting))),
	}
}

// fortyLeads are the least and the largest lead of the first 40 over waiting for all, over schedules.
func (s studies) fortyLeads() []prose.Figure {
	s.t.Helper()
	var leads []float64
	for _, schedule := range append([]string{"rounds"}, unevenConstants...) {
		leads = append(leads, s.above(uneven(firstForty, schedule), uneven("all", schedule)).Mean)
	}
	return []prose.Figure{prose.Number("0.5", slices.Min(leads)), prose.Number("2.0", slices.Max(leads))}
}

// given lists what stands with numbers in the prose of docs/study.md and is no result of a run that a
// test here reads: settings, facts of the data, and results that the page links to.
var given = []string{
	"half of the 95 % interval over five seeds",
	"(LEAF's, 3,000 writers)",
	"13 clients work at a time, K_0 = 80.",
	"(mean 0.017 s, sigma 1)",
	"(20 and 5 Mbit/s, sigma 0.5)",
	"rounds last 5 s",
	"Time of 30 rounds with fixed K",
	"Of heterogeneities 0, 0.5, 1, 2 and 4",
	"dSGD (K = 1) has hardly begun",
	"dealt to 21,876 clients of 17 or 18",
	"At 0.05 nearly all of a client's tweets have one label, at 5 nearly all clients have both.",
	"50 clients a round, K_0 = 60, the time of 2,500 rounds with fixed K, 50 evaluations.",
	"at 0.05 K = 1 (dSGD) gains",
	"(9,314, 50 a round, K_0 = 60, median 2 training tweets)",
	"the time of 10,000 rounds with fixed K",
	"Table 4, 0.68, lie within the interval of 20",
	"Decay from the paper's 60",
	"no difference is seen from 1 or 4",
	"chose 4 and 6 for fixed K and 150 and 6 for `rounds`",
	"a rate of 3 is behind at a third of the time",
	"Sentiment140's users at full length, 50 a round",
	"as in the paper's Eq. 3",
	"**No constant of 3 or 5 is far behind**: both match decay by the margin of 0.5 points",
	"From 5 no difference is decided",
	"With the first 40 constants of 1 and 10 match it",
	"or end with the first 40 updates",
	"Where the first 40",
}

// Each number in a sentence of docs/study.md is what the runs give, or is given.
func TestDocs_Sentences(t *testing.T) {
	s := studies{t}
	sentences := slices.Concat(s.stragglers(), s.clients(), s.options(), s.tuned(), s.controlled())
	page := prose.Read(t, filepath.Join(docs, "study.md"))
	page.Check(t, sentences, given, regexp.MustCompile("`[^`]*`|\\]\\([^)]*\\)|[A-Za-z]+_0|Sent140|Sentiment140"))
}

// Buffered rounds are ahead of a deadline and of the first ten, as docs/study.md says.
func TestDocs_BufferedLeads(t *testing.T) {
	for _, rule := range []string{deadline, first} {
		lead := studies{t}.above(spread(buffered, "fixed"), spread(rule, "fixed"))
		if lead.Mean-lead.Half <= 0 {
			t.Errorf("buffered rounds end %v points above %s", lead, rule)
		}
	}
}
