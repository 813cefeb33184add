package run

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"fedpace/coordinator/measure"
	"fedpace/coordinator/round"
	"fedpace/experiment/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run/runtest"
)

// realData is the path of a file of real data; the test is skipped, by name, where
// it is absent.
func realData(t testing.TB, name string) string {
	t.Helper()
	path, ok := realPath(name)
	if !ok {
		t.Skipf("no %s (set FEDPACE_DATA to the folder that holds %s)", path, name)
	}
	return path
}

// realPath is where a file of real data would be, and whether it is there.
func realPath(name string) (path string, ok bool) {
	folder := os.Getenv("FEDPACE_DATA")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "data")
	}
	path = filepath.Join(folder, filepath.FromSlash(name))
	_, err := os.Stat(path)
	return path, err == nil
}

// reference is FEMNIST's validation loss and accuracy on the 3,000 writers by
// independent PyTorch and C programs with the same settings (paper/NOTES,
// "Reference curves"): two seeds.
var reference = map[int]struct{ loss, accuracy [2]float64 }{
	10:  {[2]float64{1.707, 1.709}, [2]float64{.565, .568}},
	50:  {[2]float64{1.086, 1.106}, [2]float64{.694, .685}},
	100: {[2]float64{.902, .911}, [2]float64{.733, .732}},
	300: {[2]float64{.682, .690}, [2]float64{.786, .784}},
}

func femnist(t *testing.T, sets ...string) []round.Report {
	t.Helper()
	out := filepath.Join(t.TempDir(), "run")
	c, err := config.Load("", append([]string{"task=femnist", "data=" + realData(t, "femnist/femnist.parquet"), "evaluate.every=10", "out=" + out}, sets...))
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, Options{})
	rows, err := folder.ReadRounds(filepath.Join(out, folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// follows compares a curve with the reference at its rounds: accuracy within
// 0.02 and loss within 0.05 of the two seeds' range.
func follows(t *testing.T, rows []round.Report) {
	t.Helper()
	for _, r := range rows {
		want, ok := reference[r.Round]
		if !ok {
			continue
		}
		t.Logf("round %d, %.1f s: validation loss %.3f, accuracy %.3f; reference %v, %v",
			r.Round, r.End.Seconds(), r.ValidationLoss, measure.At(r.Metrics, 0), want.loss, want.accuracy)
		if off(r.ValidationLoss, want.loss) > 0.05 || off(measure.At(r.Metrics, 0), want.accuracy) > 0.02 {
			t.Errorf("round %d leaves the reference", r.Round)
		}
	}
}

// off is the distance of x from the range of two values.
func off(x float64, of [2]float64) float64 {
	low, high := min(of[0], of[1]), max(of[0], of[1])
	return math.Max(0, math.Max(low-x, x-high))
}

// The first point of the reference curve: ten rounds of 60 writers. .ci/run runs this
// test by its name.
func TestRealFEMNISTStartsAsTheReference(t *testing.T) {
	if !longTests {
		t.Skip("long: set FEDPACE_LONG=1 to run it")
	}
	rows := femnist(t, "stop.rounds=10")
	if len(rows) != 10 {
		t.Fatalf("%d rounds", len(rows))
	}
	follows(t, rows)
}

// The whole reference curve with two seeds, and K_r-rounds ahead of
// K-eta-fixed at equal virtual time. Some five minutes on two cores.
func TestRealFEMNISTFollowsTheReference(t *testing.T) {
	t.Parallel()
	if !longTests {
		t.Skip("long: set FEDPACE_LONG=1 to run it")
	}
	var decaying []round.Report
	for seed := range 2 {
		decaying = femnist(t, "stop.rounds=300", fmt.Sprintf("seed=%d", seed+1))
		follows(t, decaying)
	}
	fixed := femnist(t, "stop.rounds=40", "schedule.k=fixed", "seed=2")
	for _, f := range fixed[19:] {
		if math.IsNaN(measure.At(f.Metrics, 0)) {
			continue
		}
		loss, accuracy := at(decaying, f.End.Seconds())
		t.Logf("at %.1f s: K_r-rounds %.3f, %.3f; K-eta-fixed %.3f, %.3f after round %d", f.End.Seconds(), loss, accuracy, f.ValidationLoss, measure.At(f.Metrics, 0), f.Round)
		if accuracy <= measure.At(f.Metrics, 0) || loss >= f.ValidationLoss {
			t.Errorf("at %.1f s K_r-rounds is not ahead", f.End.Seconds())
		}
	}
}

// at is a curve's validation loss and accuracy at a virtual time, on the line
// between the evaluations before and after it.
func at(rows []round.Report, seconds float64) (loss, accuracy float64) {
	var before round.Report
	for _, after := range rows {
		if math.IsNaN(measure.At(after.Metrics, 0)) {
			continue
		}
		if after.End.Seconds() >= seconds {
			w := (seconds - before.End.Seconds()) / (after.End.Seconds() - before.End.Seconds())
			return before.ValidationLoss + w*(after.ValidationLoss-before.ValidationLoss),
				measure.At(before.Metrics, 0) + w*(measure.At(after.Metrics, 0)-measure.At(before.Metrics, 0))
		}
		before = after
	}
	return math.NaN(), math.NaN()
}

// Two shards of LEAF's own JSON: ten writers, learned by heart in few rounds.
func TestRealLEAFRuns(t *testing.T) {
	t.Parallel()
	c := runtest.Small(t, "clients=all", "cohort=5", "stop.rounds=15", "schedule.k=fixed", "schedule.k0=80", "data="+realData(t, "femnist/leaf"))
	s := mustRun(t, c, Options{})
	if *s.ValidationAccuracy < 0.5 {
		t.Errorf("validation accuracy %.3f after 15 rounds, expected at least 0.5", *s.ValidationAccuracy)
	}
}

// Sent140, users with at least 3 tweets: after 1,000 rounds K_r-rounds is at
// .732 to .747 in the notes' reference runs (two splits, two seeds). Another
// split may be as far from those as they are from each other.
func TestRealSent140FollowsTheReference(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "run")
	c, err := config.Load("", []string{"task=sent140", "sent140.min_tweets=3", "data=" + realData(t, "sent140/tweets_with_users.csv.gz"),
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
