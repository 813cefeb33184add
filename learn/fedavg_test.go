package learn

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"fedpace/internal/testkit/realdata"
	"fedpace/internal/testkit/slow"
)

// The loop that testdata/fedavg.py plays in PyTorch.
const (
	fedClients, fedOwn, fedCohort, fedSteps, fedBatch, fedHeld = 20, 50, 5, 5, 16, 200
	fedRate                                                    = 0.05
)

// fedImages are the first samples of a file of CIFAR-100, or the test is skipped.
func fedImages(t *testing.T, name string, count int) *Batch {
	raw, err := os.ReadFile(realdata.Path(t, "cifar100/"+name))
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{N: count}
	for s := range count {
		record := raw[3074*s:][:3074]
		b.Labels = append(b.Labels, int32(record[1]))
		for _, v := range record[2:] {
			b.X = append(b.X, float32(v)/63.75-2)
		}
	}
	return b
}

// some are samples of a batch.
func some(b *Batch, index []int) *Batch {
	c, width := &Batch{N: len(index)}, len(b.X)/b.N
	for _, i := range index {
		c.Labels = append(c.Labels, b.Labels[i])
		c.X = append(c.X, b.X[i*width:][:width]...)
	}
	return c
}

// firstOf are the first n of a permutation of 0..most-1.
func firstOf(stream, n, most int) []int {
	index := make([]int, most)
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		if goldenHash(stream, a) < goldenHash(stream, b) {
			return -1
		}
		return 1
	})
	return index[:n]
}

// On real images a ResNet has PyTorch's gradient, and rounds of FedAvg follow a plain loop
// in PyTorch of the same seed far closer than two seeds follow each other. What differs is
// rounding, which a network that learns makes larger step by step.
func TestResNet_FedAvgFollowsPyTorch(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/fedavg.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Gradient goldenSummary
		Runs     []struct{ Losses, Accuracies []float64 }
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	train, held := fedImages(t, "train.bin", fedClients*fedOwn), fedImages(t, "test.bin", fedHeld)
	m := parse(t, "layers:image=3x32x32,classes=100;"+resnet8)
	base, gradient := layeredWeights(m, isScale(m)), make([]float32, m.Params())
	w := m.NewWorkspace(fedHeld, here())
	first := &Batch{N: 32, Labels: train.Labels[:32], X: train.X[:32*3072]}
	if _, err := w.Gradient(gradient, base, first); err != nil {
		t.Fatal(err)
	}
	d := golden.Gradient.distance(gradient) / golden.Gradient.Norm
	t.Logf("the gradient is %.2g of its norm from PyTorch's", d)
	if d > 1e-5 {
		t.Errorf("the gradient of 32 real images is %.2g from PyTorch's", d)
	}
	rounds := len(golden.Runs[0].Losses)
	if !slow.On() {
		rounds = 2
	}
	var off, spread float64 // mean differences of losses: from PyTorch, and between seeds
	for seed, run := range golden.Runs {
		if seed > 0 && !slow.On() {
			break
		}
		for r, loss := range fedAvg(t, m, w, train, held, seed, rounds) {
			off += math.Abs(loss - run.Losses[r])
			spread += math.Abs(run.Losses[r] - golden.Runs[(seed+1)%len(golden.Runs)].Losses[r])
		}
	}
	t.Logf("losses differ from PyTorch's by %.2g of what they differ between seeds", off/spread)
	if off > spread/4 {
		t.Errorf("losses differ from PyTorch's by %.2g of what they differ between seeds", off/spread)
	}
}

// fedAvg is the held-out loss after each round.
func fedAvg(t *testing.T, m Model, w Workspace, train, held *Batch, seed, rounds int) (losses []float64) {
	base := layeredWeights(m, isScale(m))
	for i, part := range m.Tensors() {
		if len(part.Shape) > 1 {
			bound := float32(math.Sqrt(float64(part.Len() / part.Shape[0])))
			for j := range part.Len() {
				base[part.Offset+j] = goldenUniform(5000+100*seed+i, j) / bound
			}
		}
	}
	local := slices.Clone(base)
	for r := range rounds {
		sum := make([]int64, len(base))
		for _, c := range firstOf(10_000*(seed+1)+r, fedCohort, fedClients) {
			for k := range fedSteps {
				own := firstOf(1_000_000*(seed+1)+(r*fedClients+c)*fedSteps+k, fedBatch, fedOwn)
				for i := range own {
					own[i] += c * fedOwn
				}
				if _, err := w.Step(local, some(train, own), fedRate); err != nil {
					t.Fatal(err)
				}
			}
			if bad := AddExactAndReset(sum, 1.0/fedCohort, local, base); bad >= 0 {
				t.Fatalf("parameter %d of client %d is refused", bad, c)
			}
		}
		for i, s := range sum {
			base[i] = float32(float64(base[i]) + float64(s)*0x1p-44)
		}
		copy(local, base)
		loss, _, err := evaluate(m, w, base, held)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, loss/fedHeld)
	}
	return losses
}
