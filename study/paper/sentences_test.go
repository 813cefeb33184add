package paper

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fedpace/internal/statistics"
	"fedpace/study"
)

// A sentence is a part of docs/paper.md whose numbers follow from the committed curves.
type sentence struct {
	// says is the part as it stands on the page, with one space between words.
	says string
	// figures are all of its numbers that follow from the curves.
	figures []printed
}

// A printed figure is a number or a word of a sentence and what the curves give for it.
type printed struct {
	// text is the figure as the sentence writes it, with all of its digits.
	text string
	// value is what the curves give. Rounded to the digits of text it must be text.
	value float64
}

// numberWords are the words by which sentences write round numbers.
var numberWords = map[string]string{
	"a point":     "1",
	"a fifth":     "0.2",
	"half":        "0.5",
	"a third":     "0.3",
	"nine tenths": "0.9",
}

// holds reports whether the value, rounded to the digits of the text, is the text.
func (p printed) holds() bool {
	text := p.text
	if digits, isWord := numberWords[text]; isWord {
		text = digits
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "−", "-"), ",", "")
	_, decimals, _ := strings.Cut(text, ".")
	return strconv.FormatFloat(p.value, 'f', len(decimals), 64) == text
}

// evidence gives the committed curves by folder.
type evidence map[string][]Curve

// curves returns the completed curves of a schedule in a folder.
func (e evidence) curves(folder, schedule string) (list []Curve) {
	for _, c := range e[folder] {
		if c.Schedule == schedule && c.Completed {
			list = append(list, c)
		}
	}
	return list
}

// above is how far the tails of one schedule are above those of another with the same seeds, in
// points.
func (e evidence) above(folder, schedule, than string) statistics.Estimated {
	tail := func(c *Curve) float64 { return 100 * c.TailAccuracy }
	return e.difference(folder, schedule, than, tail)
}

// ahead is how far the best accuracy of one schedule is above that of another after a tenth of the
// virtual time, in points.
func (e evidence) ahead(folder, schedule, than string) statistics.Estimated {
	claim := Claim{Quantity: "best_accuracy", TimeShare: 0.1}
	early := func(c *Curve) float64 { return 100 * claim.take(c) }
	return e.difference(folder, schedule, than, early)
}

// difference is the mean of a quantity's paired differences between two schedules, by seeds.
func (e evidence) difference(folder, schedule, than string, quantity func(*Curve) float64) statistics.Estimated {
	return statistics.EstimateMean(
		study.Paired(e.curves(folder, schedule), e.curves(folder, than), (*Curve).seed, quantity),
	)
}

// seedOne returns the curve of a schedule with seed 1.
func (e evidence) seedOne(folder, schedule string) *Curve {
	list := e.curves(folder, schedule)
	for i := range list {
		if list[i].Seed == 1 {
			return &list[i]
		}
	}
	panic(fmt.Sprintf("%s has no run of %s with seed 1", folder, schedule))
}

// tailGap is how far the tail of one schedule's run with seed 1 is above another's, in points.
func (e evidence) tailGap(folder, schedule, than string) float64 {
	return 100 * (e.seedOne(folder, schedule).TailAccuracy - e.seedOne(folder, than).TailAccuracy)
}

// meanSteps is the mean over seeds of the steps of a schedule relative to those of K-eta-fixed.
func (e evidence) meanSteps(folder, schedule string) float64 {
	sum := 0.0
	list := e.curves(folder, schedule)
	for _, c := range list {
		sum += c.RelativeSteps
	}
	return sum / float64(len(list))
}

// decays returns the first and the last round after which a step schedule's runs decayed, and the
// mean.
func (e evidence) decays(folder string) (first, last, mean float64) {
	first = math.Inf(1)
	list := e.curves(folder, "step")
	for _, c := range list {
		first = min(first, float64(c.Decayed))
		last = max(last, float64(c.Decayed))
		mean += float64(c.Decayed) / float64(len(list))
	}
	return first, last, mean
}

// readEvidence loads all folders of curves.
func readEvidence(t *testing.T) evidence {
	t.Helper()
	e := evidence{}
	for _, dir := range kept(t) {
		curves, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		e[filepath.Base(dir)] = curves
	}
	return e
}

// interval is a mean and half of its interval, as two figures of a sentence.
func interval(e statistics.Estimated, mean, half string) []printed {
	return []printed{{mean, e.Mean}, {half, e.Half}}
}

// sentences lists the sentences of docs/paper.md with figures that follow from the curves.
func (e evidence) sentences() []sentence {
	const users, ten, skew, iid = "sent140-users", "sent140-ten", "sent140-skew", "sent140-iid"
	gain := func(folder, schedule, than string) float64 { return e.above(folder, schedule, than).Mean }
	lead := func(folder, schedule, than string) float64 { return e.ahead(folder, schedule, than).Mean }
	firstDecay, lastDecay, _ := e.decays("cifar100")
	_, _, usersDecay := e.decays(users)
	rounds := e.seedOne("femnist", "rounds")
	return []sentence{
		{"On Sentiment140's users decaying K gains a point over K = 60.", []printed{
			{"a point", gain(users, "rounds", "fixed")},
		}},
		{"a constant K of 3, 5, 8, 10 or 20 gains 0.9, 0.8, 0.7, 0.6 and 0.4", []printed{
			{"0.9", gain(users, "k3", "fixed")},
			{"0.8", gain(users, "k5", "fixed")},
			{"0.7", gain(users, "k8", "fixed")},
			{"0.6", gain(users, "k10", "fixed")},
			{"0.4", gain(users, "k20", "fixed")},
		}},
		{"that takes as many steps as `rounds`, nine tenths.", []printed{
			{"nine tenths", gain(users, "rounds-constant", "fixed") / gain(users, "rounds", "fixed")},
		}},
		{"but small: 0.12 ± 0.05 points.", interval(e.above(users, "rounds", "rounds-constant"), "0.12", "0.05")},
		{"is seen to be decay's (-0.07 ± 0.16)", interval(e.above(ten, "rounds", "rounds-constant"), "-0.07", "0.16")},
		{"K = 1 ends 0.8 ± 0.1 points above `rounds`.", interval(e.above(ten, "dsgd", "rounds"), "0.8", "0.1")},
		{"`rounds` ends 0.4 points below K = 60", []printed{
			{"0.4", -gain(iid, "rounds", "fixed")},
		}},
		{"by 0.1 points above 3 and that of as many steps, 0.2 above 5, 0.6 above 20.", []printed{
			{"0.1", gain(users, "rounds", "k3")},
			{"0.1", gain(users, "rounds", "rounds-constant")},
			{"0.2", gain(users, "rounds", "k5")},
			{"0.6", gain(users, "rounds", "k20")},
		}},
		{"Where clients are alike K = 5, 10 and 20 end above `rounds`, by 0.2 to 0.4.", []printed{
			{"0.2", min(gain(iid, "k5", "rounds"), gain(iid, "k10", "rounds"), gain(iid, "k20", "rounds"))},
			{"0.4", max(gain(iid, "k5", "rounds"), gain(iid, "k10", "rounds"), gain(iid, "k20", "rounds"))},
		}},
		{"ahead of the constant of as many steps by 0.4 points on the users and 0.8 where clients are alike", []printed{
			{"0.4", lead(users, "rounds", "rounds-constant")},
			{"0.8", lead(iid, "rounds", "rounds-constant")},
		}},
		{"4.8 times fewer steps on Sentiment140, 9 times fewer on FEMNIST, 1.3 times on Shakespeare", []printed{
			{"4.8", 1 / e.meanSteps(users, "rounds")},
			{"9", 1 / e.meanSteps("femnist", "rounds")},
			{"1.3", 1 / e.timingSteps("shakespeare")},
		}},
		{"the largest factor is FEMNIST's 8.97.", []printed{{"8.97", 1 / e.timingSteps("femnist")}}},
		{"With seed 1 K_r-rounds ends 1.1 points above fixed K.", []printed{
			{"1.1", e.tailGap("femnist", "rounds", "fixed")},
		}},
		{"Its accuracy falls by 1.2 points", []printed{
			{"1.2", 100 * (rounds.BestAccuracy - rounds.FinalAccuracy)},
		}},
		{"dSGD, 4.4 points behind fixed K after a tenth of the time", []printed{
			{"4.4", lead("femnist", "fixed", "dsgd")},
		}},
		{"After a tenth of the time K_r-rounds is 5.8 ± 0.6 points ahead of dSGD",
			interval(e.ahead("femnist", "rounds", "dsgd"), "5.8", "0.6")},
		{"at the end not told apart (−0.2 ± 0.7, three seeds)",
			interval(e.above("femnist", "rounds", "dsgd"), "−0.2", "0.7")},
		{"K = 10 and 20 lower by 0.5 and 0.8.", []printed{
			{"0.5", e.tailGap("femnist", "rounds", "k10")},
			{"0.8", e.tailGap("femnist", "rounds", "k20")},
		}},
		{"K_r-step decays after round 3,850", []printed{{"3,850", float64(e.seedOne("femnist", "step").Decayed)}}},
		{"and gains 0.4 points.", []printed{{"0.4", e.tailGap("femnist", "step", "fixed")}}},
		{"K_r-error takes 0.806 of the steps.", []printed{{"0.806", e.meanSteps("femnist", "error")}}},
		{"K_r-rounds ends 3.8 ± 3.5 points above the fixed schedule, with a third of its steps",
			append(interval(e.above("cifar100", "rounds", "fixed"), "3.8", "3.5"),
				printed{"a third", e.meanSteps("cifar100", "rounds")})},
		{"K_r-step converges after 330 to 410 rounds", []printed{{"330", firstDecay}, {"410", lastDecay}}},
		{"dSGD is 7 points behind", []printed{{"7", gain("cifar100", "fixed", "dsgd")}}},
		{"K_r-rounds ends 1.0 points above the fixed schedule with a fifth of the steps", []printed{
			{"1.0", gain(users, "rounds", "fixed")},
			{"a fifth", e.meanSteps(users, "rounds")},
		}},
		{"K_r-step 0.8 points above with half of them.", []printed{
			{"0.8", gain(users, "step", "fixed")},
			{"half", e.meanSteps(users, "step")},
		}},
		{"dSGD ends 0.95 points above the fixed schedule", []printed{{"0.95", gain(users, "dsgd", "fixed")}}},
		{"K_r-step converged by our rule after some 1,790 rounds", []printed{{"1,790", 10 * math.Round(usersDecay/10)}}},
		{"The fixed schedule ends 4.4 ± 0.5 points above dSGD",
			interval(e.above("shakespeare", "fixed", "dsgd"), "4.4", "0.5")},
		{"9,314 with at least 3 tweets, 50 a round", []printed{
			{"9,314", float64(e.seedOne(users, "fixed").Clients)},
			{"50", float64(e.seedOne(users, "fixed").Cohort)},
		}},
		{"leave 453 users here", []printed{{"453", float64(e.seedOne(ten, "fixed").Clients)}}},
		{"All of the paper's 3,000 writers, 60 a round", []printed{
			{"3,000", float64(e.seedOne("femnist", "fixed").Clients)},
			{"60", float64(e.seedOne("femnist", "fixed").Cohort)},
		}},
		{"in 100 clients of 100, 5 a round. The grouping", []printed{
			{"100", float64(e.seedOne("cifar100", "fixed").Clients)},
			{"5", float64(e.seedOne("cifar100", "fixed").Cohort)},
		}},
		{"the paper's 660 clients, 10 a round, but 30 rounds of K-eta-fixed", []printed{
			{"660", float64(e.seedOne("shakespeare", "fixed").Clients)},
			{"10", float64(e.seedOne("shakespeare", "fixed").Cohort)},
			{"30", float64(e.seedOne("shakespeare", "fixed").FixedRounds)},
		}},
		{"paper's number, 21,876 clients", []printed{{"21,876", float64(e.seedOne(skew, "fixed").Clients)}}},
	}
}

// timingSteps is the relative number of steps of K_r-rounds on a task, by the runs that simulate
// timing alone.
func (e evidence) timingSteps(task string) float64 {
	for _, c := range e["timing"] {
		if string(c.Task) == task && c.Schedule == "rounds" {
			return c.RelativeSteps
		}
	}
	return math.NaN()
}

// given lists what stands with numbers in the prose of docs/paper.md and is no result of a run:
// settings, rules of the evaluation, and what the paper prints.
var given = []string{
	"all of FEMNIST's 3,000 writers",
	// Settings of runs, which the commands beside the tables have, and facts of the data.
	"decaying K gains a point over K = 60",
	"makes the gain over K = 60",
	"no gain over K = 60",
	"(twenty seeds, fifteen of them after a look at five), and one of 3, now and then 4,",
	"median 2 and mean 3.3 (the paper's have 15)",
	"Of the plain constants from 3 on all end below `rounds` on the users, and K = 5, 10 and 20 above it",
	"it is not seen to be ahead of K = 5 and more",
	"With seed 1 K = 5 ends as they do",
	"10,000 training and 2,000 test images",
	"500 rounds of K-eta-fixed instead of 10,000",
	"instead of 10,000. The window of Eq. 15 is 10 rounds to fit, and accuracy is that of 4,096 of the 356,921",
	"Commit 4830865c",
	"with 17 or 18 each",
	"Dir(0.5)",
	// Rules of the evaluation.
	"± half of the 95 % interval",
	`"Matches" asks for more than -0.5 points`,
	"Holm's method (1979)",
	"is at most 0.05",
	"a difference of losses below 0.005",
	"could not be below 0.05",
	"over 100 rounds",
	"differences of the lowest below 0.005",
	"s + 1 rounds",
	"rounds r - s to r - 1, s = 100",
	"in the last 10 evaluations",
	"every 50 rounds",
	"x_k = x_(k-1) - eta grad f(x_(k-1))",
	// What the paper prints, and what follows from its formulas.
	"for the virtual time of 10,000 rounds of K-eta-fixed (65.33, 506.25, 4250 and 20217.08 minutes by Eq. 4 and 5)",
	"Its 0.090 does not follow from a model of 40 Mb. A model of 320 Mb (40 mega*bytes*) would give it, or " +
		"steps divided by 10,000 x 80",
	`"over 10x less computation"`,
	"(the paper's cell means 3,273)",
	"The paper sees over 18 points",
	"The paper's 21,876 have at least 10",
	"a decay after round 5,058",
	"at about minute 2500",
	"only K-eta-fixed has 10,000 rounds",
	"computing is 99 % of a round here",
	`**FEMNIST** has 509,654 training images; "501k" is most likely 510k`,
	"needs 32x32, not the 28x28",
	"660 clients follow from a training fraction of 0.9",
	`"Only 68%"`,
}

// names are words with digits that are no figures.
var names = regexp.MustCompile(
	"`[^`]*`|\\]\\([^)]*\\)|CIFAR100|Sentiment140|sent140|Sent140|(Eq\\.|Tables?|Figures?|Algorithm|line) [0-9]+( (to|and) [0-9]+)?" +
		"|[A-Za-z]+_0|seed 1\\b|K = 1\\b|K = 3\\b",
)

// TestDocs_Sentences holds each number in a sentence of docs/paper.md against the curves.
func TestDocs_Sentences(t *testing.T) {
	page := readProse(t)
	for _, s := range readEvidence(t).sentences() {
		if !strings.Contains(page, s.says) {
			t.Errorf("docs/paper.md does not say %q", s.says)
		}
		for _, f := range s.figures {
			if !strings.Contains(s.says, f.text) {
				t.Errorf("%q does not have the figure %q", s.says, f.text)
			}
			if !f.holds() {
				t.Errorf("%q: %s is %v by the curves", s.says, f.text, f.value)
			}
		}
	}
}

// TestDocs_EveryNumberIsHeld fails for a number in the prose of docs/paper.md that is neither among
// the sentences that [TestDocs_Sentences] and [TestDocs_PaceOnFEMNIST] recompute nor given.
func TestDocs_EveryNumberIsHeld(t *testing.T) {
	page := readProse(t)
	// This is the part that TestDocs_PaceOnFEMNIST holds.
	pace := regexp.MustCompile(`best accuracy, [0-9.]+, at minute [0-9]+, in round [0-9,]+\.|` +
		`at minute [0-9]+, in round [0-9,]+, with [0-9]+ times the steps\.|` +
		`from its best, [0-9.]+ at minute [0-9]+,|passes fixed K's best accuracy at minute [0-9]+ `)
	page = pace.ReplaceAllString(page, "")
	for _, text := range given {
		if !strings.Contains(page, text) {
			t.Errorf("docs/paper.md does not say %q any more: remove it from the list", text)
		}
	}
	var held []string
	for _, s := range readEvidence(t).sentences() {
		held = append(held, s.says)
	}
	for _, text := range append(held, given...) {
		page = strings.ReplaceAll(page, text, "")
	}
	page = names.ReplaceAllString(page, "")
	for _, place := range regexp.MustCompile(`[0-9]`).FindAllStringIndex(page, -1) {
		from := max(0, place[0]-60)
		to := min(len(page), place[1]+60)
		t.Errorf("docs/paper.md has a number that nothing holds: …%s…", page[from:to])
	}
}

// notProse finds blocks, commands, tables and headings of the page, which have tests of their own
// or hold no results.
var notProse = regexp.MustCompile(`(?sm)<!-- .*?<!-- end -->|^    [^\n]*$|^\|[^\n]*$|^#[^\n]*$`)

// readProse returns the sentences of docs/paper.md with one space between words.
func readProse(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(docs + ".md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(notProse.ReplaceAllString(string(text), "")), " ")
}
