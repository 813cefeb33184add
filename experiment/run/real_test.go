package run

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
	"fedpace/learn/metric"
)

// reference is FEMNIST's validation loss and accuracy on the 3,000 writers by
// independent PyTorch and C programs with the same settings (paper/NOTES,
// "Reference curves"): two seeds. Deviations are those of this program over eight
// seeds, which TestRealFEMNIST_Curve prints.
var reference = map[int]struct{ loss, accuracy known }{
	10:  {known{[2]float64{1.707, 1.709}, 0.0321}, known{[2]float64{.565, .568}, 0.0065}},
	50:  {known{[2]float64{1.086, 1.106}, 0.0111}, known{[2]float64{.694, .685}, 0.0022}},
	100: {known{[2]float64{.902, .911}, 0.0177}, known{[2]float64{.733, .732}, 0.0046}},
	300: {known{[2]float64{.682, .690}, 0.0099}, known{[2]float64{.786, .784}, 0.0042}},
}

// known is what two seeds of the reference came to, and the standard deviation of one.
type known struct {
	values    [2]float64
	deviation float64
}

func femnist(t *testing.T, sets ...string) []round.Report {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	c, err := config.Load("", append([]string{"task=femnist", "data=" + realdata.Path(t, "femnist/femnist.parquet"), "evaluate.every=10", "out=" + out}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, Options{})
	rows, err := runtest.ReadRounds(filepath.Join(out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// follows compares the mean of some seeds' curves with the reference at its rounds: by no
// more than three deviations of the difference of two such means.
func follows(t *testing.T, curves [][]round.Report) {
	t.Helper()
	for _, number := range slices.Sorted(maps.Keys(reference)) {
		want := reference[number]
		for _, x := range []struct {
			name string
			of   known
			at   func(round.Report) float64
		}{
			{"loss", want.loss, func(r round.Report) float64 { return r.ValidationLoss }},
			{"accuracy", want.accuracy, func(r round.Report) float64 { return metric.ValueAt(r.Metrics, 0) }},
		} {
			var values []float64
			for _, rows := range curves {
				if number <= len(rows) {
					values = append(values, x.at(rows[number-1]))
				}
			}
			if values == nil {
				continue
			}
			mean, deviation := stat.MeanStdDev(values, nil)
			off := math.Abs(mean - stat.Mean(x.of.values[:], nil))
			most := 3 * x.of.deviation * math.Sqrt(1/float64(len(values))+1/float64(len(x.of.values)))
			t.Logf("round %d: %s %.4f, mean of %d seeds with a deviation of %.4f; reference %v, %.4f away, at most %.4f", number, x.name, mean, len(values), deviation, x.of.values, off, most)
			if !(off <= most) {
				t.Errorf("round %d leaves the reference", number)
			}
			if len(values) >= 8 && !(deviation < 2*x.of.deviation && deviation > x.of.deviation/2) {
				t.Errorf("round %d: %d seeds have a deviation of %.4f, not about %.4f", number, len(values), deviation, x.of.deviation)
			}
		}
	}
}

// The first point of the reference curve: ten rounds of 60 writers, three seeds. .ci/run runs
// this test by its name.
func TestRealFEMNIST_FirstPoint(t *testing.T) {
	slow.NotUnderRace(t)
	slow.Test(t, "it trains for ten rounds of 60 writers, three times")
	var curves [][]round.Report
	for seed := range 3 {
		rows := femnist(t, "stop.rounds=10", fmt.Sprintf("seed=%d", seed+1))
		if len(rows) != 10 {
			t.Fatalf("%d rounds", len(rows))
		}
		curves = append(curves, rows)
	}
	follows(t, curves)
}

// The whole reference curve with eight seeds, and K_r-rounds ahead of K-eta-fixed at equal
// virtual time. Some eight minutes on two cores.
func TestRealFEMNIST_Curve(t *testing.T) {
	slow.NotUnderRace(t)
	slow.Test(t, "it trains for the whole reference curve, eight times")
	t.Parallel()
	var curves [][]round.Report
	for seed := range 8 {
		curves = append(curves, femnist(t, "stop.rounds=300", fmt.Sprintf("seed=%d", seed+1)))
	}
	follows(t, curves)
	decaying := curves[1]
	fixed := femnist(t, "stop.rounds=40", "schedule.k=fixed", "seed=2")
	for _, f := range fixed[19:] {
		if math.IsNaN(metric.ValueAt(f.Metrics, 0)) {
			continue
		}
		loss, accuracy := at(decaying, f.End.Seconds())
		t.Logf("at %.1f s: rounds %.3f, %.3f; fixed K %.3f, %.3f after round %d", f.End.Seconds(), loss, accuracy, f.ValidationLoss, metric.ValueAt(f.Metrics, 0), f.Round)
		if accuracy <= metric.ValueAt(f.Metrics, 0) || loss >= f.ValidationLoss {
			t.Errorf("at %.1f s rounds is not ahead", f.End.Seconds())
		}
	}
}

// at is a curve's validation loss and accuracy at a virtual time, on the line
// between the evaluations before and after it.
func at(rows []round.Report, seconds float64) (loss, accuracy float64) {
	var before round.Report
	for _, after := range rows {
		if math.IsNaN(metric.ValueAt(after.Metrics, 0)) {
			continue
		}
		if after.End.Seconds() >= seconds {
			w := (seconds - before.End.Seconds()) / (after.End.Seconds() - before.End.Seconds())
			return before.ValidationLoss + w*(after.ValidationLoss-before.ValidationLoss),
				metric.ValueAt(before.Metrics, 0) + w*(metric.ValueAt(after.Metrics, 0)-metric.ValueAt(before.Metrics, 0))
		}
		before = after
	}
	return math.NaN(), math.NaN()
}

// Two shards of LEAF's own JSON: ten writers, learned by heart in few rounds.
func TestRealLEAF_Runs(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	c := runtest.Small(t, "clients=all", "cohort=5", "stop.rounds=15", "schedule.k=fixed", "schedule.k0=80", "data="+realdata.Path(t, "femnist/leaf"))
	s := mustRun(t, c, Options{})
	if *s.ValidationAccuracy < 0.5 {
		t.Errorf("validation accuracy %.3f after 15 rounds, expected at least 0.5", *s.ValidationAccuracy)
	}
}

// Sent140, users with at least 3 tweets: after 1,000 rounds K_r-rounds is at
// .732 to .747 in the notes' reference runs (two splits, two seeds). Another
// split may be as far from those as they are from each other.
func TestRealSent140_Curve(t *testing.T) {
	slow.Test(t, "it trains on all tweets")
	slow.NotUnderRace(t)
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	c, err := config.Load("", []string{"task=sent140", "sent140.min_tweets=3", "data=" + realdata.Path(t, "sent140/tweets_with_users.csv.gz"),
		"stop.rounds=1000", "evaluate.every=100", "out=" + out})
	if err != nil {
		t.Fatal(err)
	}
	s := mustRun(t, c, Options{})
	t.Logf("validation accuracy %.3f", *s.ValidationAccuracy)
	if *s.ValidationAccuracy < .717 || *s.ValidationAccuracy > .762 {
		t.Errorf("validation accuracy %.3f after 1,000 rounds, reference .732 to .747", *s.ValidationAccuracy)
	}
}
