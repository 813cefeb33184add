package live

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// report is round r of a made-up run that takes a second a round.
func report(r int) *round.Report {
	return &round.Report{
		Round: r, Start: round.Time(r-1) * 1e9, End: round.Time(r) * 1e9, LocalSteps: 80, LearningRate: 0.3, Cohort: 10,
		Outcomes: [round.Outcomes]int{round.Accepted: 10}, TrainingLoss: 4 / float64(r), WindowLoss: 5 / float64(r),
		SGDSteps: int64(80 * r), ValidationLoss: math.NaN(),
	}
}

// feed shows a hub one round.
func feed(h *Hub, r *round.Report, tasks ...metrics.Task) {
	_ = h.Round(&metrics.Round{Report: *r, Tasks: tasks, Usage: &metrics.Usage{}}) // it never fails
}

// end ends what a hub shows.
func end(t testing.TB, h *Hub, e metrics.End) {
	t.Helper()
	if err := h.Finish(&e); err != nil {
		t.Fatal(err)
	}
}

// However many rounds there are, a history is small, each point but the last
// stands for as many rounds as every other, and what the points sum up is what
// the rounds sum up.
func TestHistory_IsBoundedAndComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rounds := rapid.IntRange(1, 5*maxPoints).Draw(t, "rounds")
		h := newHistory(metrics.ColumnsOf())
		loss := slices.IndexFunc(h.columns, func(c metrics.Column) bool { return c.Name == trainingLoss })
		took := slices.IndexFunc(h.columns, func(c metrics.Column) bool { return c.Name == "round_seconds" })
		sum, losses, taken := 0.0, 0, round.Time(0)
		least, most := math.Inf(1), math.Inf(-1)
		for r := 1; r <= rounds; r++ {
			one := report(r)
			one.TrainingLoss = float64(r * 7919 % 1000)
			if r%5 == 0 {
				one.TrainingLoss = math.NaN()
			} else {
				sum += one.TrainingLoss
				losses++
				least, most = min(least, one.TrainingLoss), max(most, one.TrainingLoss)
			}
			taken += one.End - one.Start
			h.add(one)
		}
		if len(h.points) > maxPoints || rounds > maxPoints && len(h.points) <= maxPoints/2 {
			t.Fatalf("%d points for %d rounds", len(h.points), rounds)
		}
		n, gotSum, gotLosses, gotTaken := 0, 0.0, 0, 0.0
		low, high := math.Inf(1), math.Inf(-1)
		for i, p := range h.points {
			if p.rounds != h.each && i < len(h.points)-1 {
				t.Fatalf("point %d stands for %d rounds, want %d", i, p.rounds, h.each)
			}
			n += p.rounds
			if p.round != n || p.end != round.Time(n)*1e9 {
				t.Fatalf("point %d ends with round %d at %v, want %d", i, p.round, p.end, n)
			}
			v := p.values[loss]
			gotSum, gotLosses, gotTaken = gotSum+v.sum, gotLosses+v.measured, gotTaken+p.values[took].sum
			if v.measured > 0 {
				low, high = min(low, v.low), max(high, v.high)
				if m := v.mean(); m < v.low || m > v.high {
					t.Fatalf("point %d: mean %v of %v to %v", i, m, v.low, v.high)
				}
			} else if !math.IsNaN(v.mean()) || !math.IsInf(v.low, 1) {
				t.Fatalf("point %d has no loss but a mean of %v", i, v.mean())
			}
		}
		if n != rounds || gotSum != sum || gotLosses != losses || gotTaken != taken.Seconds() || low != least || high != most {
			t.Fatalf("the points come to %d rounds, losses %v of %d (%v to %v), %v; want %d, %v of %d (%v to %v), %v",
				n, gotSum, gotLosses, low, high, gotTaken, rounds, sum, losses, least, most, taken)
		}
	})
}

// A history depends on the rounds alone, and its memory is that of its start.
func TestHistory_OfMillionRounds(t *testing.T) {
	h, e := newHistory(metrics.ColumnsOf()), newEvaluations([]metric.Metric{{Name: metric.Accuracy}})
	for r := 1; r <= 1_000_000; r++ {
		h.add(report(r))
		e.add(evaluation{r, round.Time(r), 1 / float64(r), []float64{float64(r%1000) / 1000}})
	}
	if h.each != 1024 || len(h.points) != 977 || cap(h.points) != maxPoints {
		t.Errorf("%d points of %d rounds in memory for %d; want 977 of 1024 in %d", len(h.points), h.each, cap(h.points), maxPoints)
	}
	if cap(e.Kept) != maxPoints || e.best[0] != 0.999 {
		t.Errorf("evaluations in memory for %d, the best %v", cap(e.Kept), e.best)
	}
}

// Of two rounds that are one point a curve has the mean, but of what is a mean already the last.
// Evaluations have curves of their own.
func TestHistory_CurvesOfJoinedRounds(t *testing.T) {
	h := newHistory(metrics.ColumnsOf(metric.Accuracy))
	for r := 1; r <= 2*maxPoints; r++ {
		h.add(report(r))
	}
	text, err := json.Marshal(curves{history: h})
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Each     int
		Training []float64 `json:"training_loss"`
		Window   []float64 `json:"window_loss"`
	}
	if err := json.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Each != 2 || shown.Training[0] != (4+2.)/2 || shown.Window[0] != 5/2. {
		t.Errorf("points of %d rounds begin with a loss of %v and a window's of %v", shown.Each, shown.Training[0], shown.Window[0])
	}
	if bytes.Contains(text, []byte(metrics.Validation)) {
		t.Error("an evaluation is a value of each round")
	}
}

// The first evaluation, the newest, and evenly spread ones between are shown.
func TestHistory_EvaluationsAreThinned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5*maxPoints).Draw(t, "evaluations")
		e := newEvaluations([]metric.Metric{{Name: metric.Accuracy}, {Name: "error", Lower: true}})
		best := -1.0
		for i := 1; i <= n; i++ {
			accuracy := float64(i * 7 % 11)
			best = max(best, accuracy)
			e.add(evaluation{round: 50 * i, metrics: []float64{accuracy, 11 - accuracy}})
		}
		all := e.All()
		if len(all) > maxPoints+1 || all[0].round != 50 || all[len(all)-1].round != 50*n {
			t.Fatalf("%d points from round %d to %d, want 50 to %d", len(all), all[0].round, all[len(all)-1].round, 50*n)
		}
		for i, v := range all[:len(all)-1] {
			if v.round != 50*(1+i*e.Each) {
				t.Fatalf("point %d is round %d, want every %d of them", i, v.round, e.Each)
			}
		}
		if e.best[0] != best || e.best[1] != 11-best {
			t.Fatalf("best %v, want %v and %v", e.best, best, 11-best)
		}
	})
}

func TestHistory_Spread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) round.Time {
			return round.Time(rapid.Int64Range(1, int64(1)<<rapid.IntRange(1, 50).Draw(t, "bits")).Draw(t, "ns"))
		}), 1, 300).Draw(t, "durations")
		s := newSpread()
		for _, d := range durations {
			s.add(d)
		}
		slices.Sort(durations)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			want := durations[max(0, int(math.Ceil(q*float64(len(durations))))-1)]
			if got := quantile(s.sorted(), q); got != want {
				t.Fatalf("quantile %v is %d, want %d", q, got, want)
			}
		}
		bars, _ := s.bars(s.sorted())
		count := uint64(0)
		for i, b := range bars {
			count += b.Count
			if b.To <= b.From || i > 0 && math.Abs(float64(b.From-bars[i-1].To)) > 1e-9*float64(b.From) {
				t.Fatalf("bar %d reaches from %v to %v, the one before to %v", i, b.From, b.To, bars[max(0, i-1)].To)
			}
		}
		if len(bars) > maxBars || count != uint64(len(durations)) {
			t.Fatalf("%d bars hold %d durations, want %d", len(bars), count, len(durations))
		}
		if from, to := bars[0].From, bars[len(bars)-1].To; float64(from) > durations[0].Seconds()*(1+1e-9) || float64(to) < durations[len(durations)-1].Seconds() {
			t.Fatalf("bars from %v to %v do not hold %v and %v", from, to, durations[0].Seconds(), durations[len(durations)-1].Seconds())
		}
	})
}

// Rounds that take evenly spread times are evenly many in every bar, also where some of them stand
// for all.
func TestHistory_SpreadOfEvenTimes(t *testing.T) {
	s := newSpread()
	for i := range round.Time(96_000) {
		s.add(2_000_000_000 + i*10_000) // from 2 s to 2.96 s, across a power of two
	}
	bars, _ := s.bars(s.sorted())
	for _, b := range bars[1 : len(bars)-1] {
		if want := float64(b.To-b.From) / 10e-6; math.Abs(float64(b.Count)-want) > 0.01*want+1 {
			t.Errorf("from %v to %v s are %d, want %.0f", b.From, b.To, b.Count, want)
		}
	}
	if len(bars) < maxBars/2 {
		t.Errorf("%d bars", len(bars))
	}
}

// Rounds that are all alike are one bar.
func TestHistory_SpreadOfEqualRounds(t *testing.T) {
	s := newSpread()
	for range 100 {
		s.add(3_037_500_000)
	}
	bars, logarithmic := s.bars(s.sorted())
	if len(bars) != 1 || bars[0].Count != 100 || logarithmic || quantile(s.sorted(), 0.5) != 3_037_500_000 {
		t.Errorf("%+v, logarithmic %v, median %d", bars, logarithmic, quantile(s.sorted(), 0.5))
	}
}
