package coordinator_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"fedpace/actors/algorithm"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
)

// A client's residual follows it from task to task: with top-k and error feedback every
// model is that of Stich et al. 2018, Algorithm 1, written out here in float64, whoever
// trains. Late and dropped tasks leave the residual as it was.
func TestErrorFeedbackIsPublished(t *testing.T) {
	t.Parallel()
	l, fleet := newLab(t), ruleFleet(t)
	c := ruleConfig(l, fleet, closing.Deadline{Seconds: 0.43}, nil)
	c.Stop.Rounds = 24
	compressed := *l
	compression := algorithm.TopK{Share: 0.1, Feedback: true}
	compressed.problem.Compression = compression
	var models [][]float32
	instance := algorithm.New(algorithm.Default, compression, l.problem.Model.Params(), c.Clients)
	ruleRunWith(t, &compressed, fleet, c, 3, 4, func(c *coordinator.Config) {
		c.Learning.Algorithm = instance
		c.Observer.Model = func(_ int, params []float32) { models = append(models, params) }
	})

	trainer := newTrainer(t, l)
	residuals, again := map[int][]float64{}, 0
	_, _, stop := referenceWith(t, l, fleet, c, func(tasks []round.Task, versions [][]float32) ([]float32, []float64) {
		base := versions[len(versions)-1]
		want := make([]float64, len(base))
		for j, v := range base {
			want[j] = float64(v)
		}
		for _, task := range tasks {
			own := ownModel(t, trainer, base, task)
			p := slices.Clone(residuals[task.Client])
			if p == nil {
				p = make([]float64, len(base))
			} else {
				again++
			}
			order := make([]int, len(base))
			for j := range p {
				p[j] += float64(own[j]) - float64(base[j])
				order[j] = j
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(p[b]), math.Abs(p[a])) })
			for _, j := range order[:int(math.Ceil(0.1*float64(len(p))))] {
				want[j] += p[j] / float64(len(tasks))
				p[j] = 0
			}
			residuals[task.Client] = p
		}
		got := models[len(versions)-1]
		nearFormula(t, len(versions), got, want)
		return got, nil
	})
	if again < 10 || stop.Outcomes[round.Late] == 0 || stop.Outcomes[round.Dropped] == 0 {
		t.Errorf("%d residuals were used again, outcomes %v: the test says little", again, stop.Outcomes)
	}
	state := instance.Variates.State()
	if len(state.Clients) != len(residuals) {
		t.Errorf("%d clients keep a residual, want %d", len(state.Clients), len(residuals))
	}
	for i, client := range state.Clients {
		for j, x := range state.Values[i].Values {
			if math.Abs(float64(x)-residuals[client][j]) > 1e-6 {
				t.Fatalf("client %d keeps %g of parameter %d, want %g", client, x, j, residuals[client][j])
			}
		}
	}
}
