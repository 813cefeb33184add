package coordinator_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"fedpace/algorithm"
	"fedpace/coordinator"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/internal/testkit/slow"
)

// sentByTopK returns p with only the tenth of its values that are largest in magnitude; the others are 0.
func sentByTopK(p []float64) []float64 { return largest(p, int(math.Ceil(0.1*float64(len(p))))) }

// largest returns p with only its k values of largest magnitude; the others are 0.
func largest(p []float64, k int) []float64 {
	order, sent := make([]int, len(p)), make([]float64, len(p))
	for j := range p {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(p[b]), math.Abs(p[a])) })
	for _, j := range order[:k] {
		sent[j] = p[j]
	}
	return sent
}

// sentBySparseLoCo returns p with only the fiftieth of each 512 values that are largest, each replaced by the mean of
// its bin, one of four; the others are 0.
func sentBySparseLoCo(p []float64) (sent []float64) {
	for chunk := range slices.Chunk(p, 512) {
		sent = append(sent, largest(chunk, int(math.Ceil(0.02*float64(len(chunk)))))...)
	}
	var chosen []float64
	for _, x := range sent {
		if x != 0 {
			chosen = append(chosen, x)
		}
	}
	mean, deviation := 0., 0.
	for _, x := range chosen {
		mean += x / float64(len(chosen))
	}
	for _, x := range chosen {
		deviation += (x - mean) * (x - mean) / float64(len(chosen)-1)
	}
	members := map[float64][]float64{}
	bin := func(x float64) float64 { return min(1, max(-2, math.RoundToEven((x-mean)/(6*math.Sqrt(deviation)/4)))) }
	for _, x := range chosen {
		members[bin(x)] = append(members[bin(x)], x)
	}
	for j, x := range sent {
		if x != 0 {
			sum := 0.
			for _, y := range members[bin(x)] {
				sum += y
			}
			sent[j] = sum / float64(len(members[bin(x)]))
		}
	}
	return sent
}

// A client's residual follows it from task to task: with top-k and error feedback every
// model is that of Stich et al. 2018, Algorithm 1, and with SparseLoCo that of Sarfi et al.
// 2025, Algorithm 1, both written out here, whoever trains. Late and dropped tasks
// leave the residual as it was.
func TestErrorFeedback_Published(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	testFeedback(t, algorithm.TopK{Share: 0.1, Feedback: true}, 1, 1, sentByTopK)
	testFeedback(t, algorithm.SparseLoCo{Share: 0.02, Chunk: 512, Decay: 0.75}, 0.75, 0.5, sentBySparseLoCo)
}

// testFeedback plays a run with compressed updates and compares its models with those of a reference, which compresses
// by the function sent and adds to each update the residual of the client's last one, times decay.
func testFeedback(t *testing.T, compression algorithm.Compression, decay, rate float64, sent func([]float64) []float64) {
	t.Helper()
	l, fleet := newLab(t), ruleFleet(t)
	c := ruleConfig(l, fleet, closing.Deadline{Seconds: 0.43}, nil)
	c.Stop.Rounds = 24
	compressed := *l
	compressed.problem.Compression = compression
	var models [][]float32
	params := l.problem.Model.Params()
	instance := algorithm.NewInstance(algorithm.FedAvg{Rate: rate}, compression, params, params, 0, c.Clients)
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
			for j := range p { // in float32, as the program: pixels with the same ink have values that all but tie
				p[j] = float64(float32(decay*p[j]) + (own[j] - base[j]))
			}
			for j, x := range sent(p) {
				want[j] += rate * x / float64(len(tasks))
				p[j] = float64(float32(p[j]) - float32(x))
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
	state := instance.ClientStates.State()
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
