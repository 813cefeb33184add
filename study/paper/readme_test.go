package paper

import (
	"encoding/csv"
	"os"
	"regexp"
	"strconv"
	"testing"

	"fedpace/internal/statistics"
	"fedpace/internal/testkit/prose"
	"fedpace/study"
)

// A shortRun is one run of README.md's comparison on FEMNIST, a row of docs/study/femnist-runs.csv.
type shortRun struct {
	schedule string
	seed     uint64
	// tail is the mean accuracy of the evaluations in the last tenth of the virtual time.
	tail float64
	// steps are the SGD steps of a client.
	steps float64
}

// readShortRuns returns the runs of README.md's comparison on FEMNIST by schedule.
func readShortRuns(t *testing.T) map[string][]shortRun {
	t.Helper()
	file, err := os.Open("../../docs/study/femnist-runs.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	runs := map[string][]shortRun{}
	for _, record := range records[1:] {
		number := func(name string) float64 {
			value, err := strconv.ParseFloat(record[column[name]], 64)
			if err != nil {
				t.Fatalf("docs/study/femnist-runs.csv: %s: %v", name, err)
			}
			return value
		}
		schedule := record[column["schedule"]]
		runs[schedule] = append(runs[schedule], shortRun{
			schedule: schedule,
			seed:     uint64(number("seed")),
			tail:     number("tail_validation_accuracy"),
			steps:    number("client_sgd_steps"),
		})
	}
	return runs
}

// lead is how far the tails of one schedule are above those of another with the same seeds.
func lead(mine, theirs []shortRun) statistics.Estimated {
	seed := func(r *shortRun) uint64 { return r.seed }
	tail := func(r *shortRun) float64 { return r.tail }
	return statistics.EstimateMean(study.Paired(mine, theirs, seed, tail))
}

// meanOf is the mean of a quantity of runs with its interval.
func meanOf(runs []shortRun, quantity func(shortRun) float64) statistics.Estimated {
	var values []float64
	for _, r := range runs {
		values = append(values, quantity(r))
	}
	return statistics.EstimateMean(values)
}

// readmeSentences lists the sentences of README.md with figures that follow from committed runs.
func readmeSentences(t *testing.T) []prose.Sentence {
	t.Helper()
	const users = "sent140-users"
	e := readEvidence(t)
	gain := func(folder, schedule, than string) float64 { return e.above(folder, schedule, than).Mean }
	runs := readShortRuns(t)
	tail := func(schedule string) statistics.Estimated {
		return meanOf(runs[schedule], func(r shortRun) float64 { return r.tail })
	}
	steps := func(schedule string) float64 {
		return meanOf(runs[schedule], func(r shortRun) float64 { return r.steps }).Mean
	}
	return []prose.Sentence{
		prose.Says("On Sentiment140's users training ends one point better than with K = K_0",
			prose.Number("one point", gain(users, "rounds", "fixed"))),
		prose.Says("a constant K of as few steps has nine tenths of that gain",
			prose.Number("nine tenths", gain(users, "rounds-constant", "fixed")/gain(users, "rounds", "fixed"))),
		prose.Says("the accuracy is 0.748 ± 0.005 with `rounds`", prose.Interval(tail("rounds"), "0.748", "0.005")...),
		prose.Says("0.735 ± 0.005 with fixed K", prose.Interval(tail("fixed"), "0.735", "0.005")...),
		prose.Says("which takes 2.4 times as many steps", prose.Number("2.4", steps("fixed")/steps("rounds"))),
		prose.Says("and 0.442 ± 0.018 with dSGD", prose.Interval(tail("dsgd"), "0.442", "0.018")...),
		prose.Says("`rounds` ends 0.012 ± 0.007 above fixed K",
			prose.Interval(lead(runs["rounds"], runs["fixed"]), "0.012", "0.007")...),
		prose.Says("and 0.008 ± 0.001 above its control",
			prose.Interval(lead(runs["rounds"], runs["rounds-constant"]), "0.008", "0.001")...),
		prose.Says("on the Shakespeare task, in 245,895 rounds", prose.Number("245,895", float64(e.timed("shakespeare").Rounds))),
	}
}

// readmeGiven lists what stands with numbers in the prose of README.md and is no result of a learning run.
var readmeGiven = []string{
	"a PyTorch script of 25 lines",
	"You need Go 1.26 and nothing else",
	"Go compiles for about 90 seconds",
	"goes on from here in 15 minutes",
	"with the paper's 3,000 writers, its cohort of 60",
	"That is after 100 rounds of the paper's 10,000",
	"AVX-512 and AVX2",
	"Apache-2.0",
	"CIFAR-100",
	"a constant K of 5 ends above a K that decays", // held by its direction below
}

// Each number in a sentence of README.md is what committed runs give, or is given.
func TestReadme_Sentences(t *testing.T) {
	pictures := regexp.MustCompile(`<img[^>]*>`)
	page := prose.Read(t, "../../README.md").Without(pictures)
	page.Check(t, readmeSentences(t), readmeGiven, names)
	five := readEvidence(t).above("sent140-iid", "k5", "rounds")
	if five.Mean-five.Half <= 0 {
		t.Errorf("where clients are alike K = 5 ends %v points above rounds, and README.md says that it ends above", five)
	}
}
