//go:build unix

package cmd

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/internal/testkit/slow"
	"fedpace/learn"
	"fedpace/metrics/outputs"
)

// Buffers of the runs below.
const (
	runBuffers = 8
	runSteps   = 3 // K
	runRounds  = 6
)

// bufferedTensors are those of a small trainer with buffers of floats, a count and a boolean.
func bufferedTensors(t *testing.T) (m learn.Model, tensors []learn.Tensor) {
	t.Helper()
	m, err := learn.Parse("mlp:784,62")
	if err != nil {
		t.Fatal(err)
	}
	n := m.Params()
	tensors = append(slices.Clone(m.Tensors()),
		learn.Tensor{Name: "running_mean", Shape: []int{runBuffers}, Offset: n},
		learn.Tensor{Name: "steps", Shape: []int{}, Offset: n + runBuffers, Type: "int64", Rule: learn.Largest},
		learn.Tensor{Name: "odd", Shape: []int{}, Offset: n + runBuffers + 1, Type: "bool", Rule: learn.Majority})
	return m, tensors
}

// Whatever closes a round, clips, combines, compresses or selects, a model with buffers trains to the same
// bits where its buffers are 900 times as large, as are variances of features that are 30 times as large. The
// buffers are 900 times as large then. A count is the steps of the clients that went furthest.
func TestBuffers_WholeRuns(t *testing.T) {
	slow.Test(t, "it plays many runs with a trainer")
	t.Parallel()
	m, tensors := bufferedTensors(t)
	const uneven = "fleet=[{name: fast, count: 16, seconds_per_step: 0.1}, {name: slow, count: 8, seconds_per_step: 0.25}]"
	for name, sets := range map[string][]string{
		"fedavg":           nil,
		"samples":          {"aggregate.weights=samples"},
		"deadline":         {"close={rule: deadline, seconds: 0.6}"},
		"late":             {"close={rule: deadline, seconds: 0.6}", "late={rule: use, limit: 5}"},
		"first":            {"close={rule: first, n: 4}"},
		"quorum":           {"close={rule: quorum, n: 5, m: 3, seconds: 0.5}"},
		"buffered":         {"close={rule: buffered, n: 3}"},
		"fedbuff":          {"close={rule: buffered, n: 3}", "aggregate.algorithm=fedbuff"},
		"fedasync":         {"close={rule: buffered, n: 1}", "aggregate.algorithm=fedasync"},
		"refl":             {"close={rule: deadline, seconds: 0.6}", "late={rule: use, limit: 5}", "aggregate.algorithm=refl"},
		"fedavgm":          {"aggregate.algorithm=fedavgm"},
		"fedadam":          {"aggregate.algorithm=fedadam"},
		"fedyogi":          {"aggregate.algorithm=fedyogi"},
		"fedadagrad":       {"aggregate.algorithm=fedadagrad"},
		"fedprox":          {"aggregate.algorithm=fedprox"},
		"fednova":          {"aggregate.algorithm=fednova"},
		"fedexp":           {"aggregate.algorithm=fedexp"},
		"scaffold":         {"aggregate.algorithm=scaffold"},
		"median":           {"aggregate.combine=median"},
		"trimmed_mean":     {"aggregate.combine=trimmed_mean"},
		"krum":             {"aggregate.combine={rule: krum, liars: 0.1}"},
		"multi_krum":       {"aggregate.combine={rule: multi_krum, liars: 0.1}"},
		"geometric_median": {"aggregate.combine=geometric_median"},
		"nnm":              {"aggregate.combine=nnm"},
		"fixed clip":       {"aggregate.clip={bound: fixed, norm: 0.1}"},
		"median clip":      {"aggregate.clip=median"},
		"quantile clip":    {"aggregate.clip=quantile"},
		"late, clipped":    {"close={rule: buffered, n: 3}", "aggregate.clip=quantile"},
		"top_k":            {"compress=top_k"},
		"random_k":         {"compress=random_k"},
		"qsgd":             {"compress=qsgd"},
		"sign":             {"compress={method: sign, step: 0.001}"},
		"four_bit":         {"compress=four_bit"},
		"sparseloco":       {"compress=sparseloco"},
		"power_of_choice":  {"select={rule: power_of_choice, candidates: 12}"},
		"oort":             {"select={rule: oort, seconds: 0.6}"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			play := func(scale string) []float32 {
				t.Helper()
				out := filepath.Join(dir, scale)
				args := []string{
					"run", "--quiet", "--out", out,
					"--trainer", femnistTrainer("-model", m.String(), "-buffers", "8", "-integers", "-scale", scale),
					"--set", uneven,
				}
				for _, set := range append([]string{
					"task=femnist", "clients=24", "cohort=6", "batch=8", "schedule.k=fixed", "schedule.k0=3",
					"stop.rounds=6", "evaluate.samples=64", "nats.url=none", "network.model_megabits=0.01",
				}, sets...) {
					args = append(args, "--set", set)
				}
				ends(t, out, args...)
				params, err := folder.ReadModel(filepath.Join(out, outputs.ModelFile), tensors)
				if err != nil {
					t.Fatal(err)
				}
				return params
			}
			plain, large := play("1"), play("900")
			n := m.Params()
			if !slices.Equal(plain[:n], large[:n]) {
				t.Error("what is trained depends on the scale of buffers")
			}
			moved := false
			for i := n; i < n+runBuffers; i++ {
				want := 900 * float64(plain[i])
				moved = moved || want != 0
				if math.Abs(float64(large[i])-want) > 1e-4*math.Abs(want) {
					t.Errorf("buffer %d is %g at scale 900, %g without", i-n, large[i], plain[i])
				}
			}
			integers := plain[n+runBuffers:]
			if !moved || !slices.Equal(integers, large[n+runBuffers:]) {
				t.Errorf("buffers %v and %v", plain[n:], large[n:])
			}
			if steps := integers[0]; steps < runSteps || steps > runSteps*runRounds || math.Mod(float64(steps), runSteps) != 0 {
				t.Errorf("a client's largest count of steps is %v", steps)
			}
		})
	}
}
