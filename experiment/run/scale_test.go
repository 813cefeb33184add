package run

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/slow"
)

// scaledData writes samples of ten clients with the features times scale, and returns the file's path.
func scaledData(t *testing.T, scale float32) string {
	t.Helper()
	const clients, samples, features = 10, 24, 6
	r := rand.New(rand.NewPCG(31, 0))
	var b strings.Builder
	b.WriteString("client,split,x0,x1,x2,x3,x4,x5,y\n")
	for client := range clients {
		shift := 0.3 * r.NormFloat64()
		for i := range samples {
			split := "train"
			if i%4 == 0 {
				split = "test"
			}
			fmt.Fprintf(&b, "c%d,%s", client, split)
			sum := 0.5 * r.NormFloat64()
			for k := range features {
				x := float32(r.NormFloat64() + shift)
				sum += float64(x) * float64(1-k%3)
				fmt.Fprintf(&b, ",%v", scale*x)
			}
			// With two classes the moves of the output's two rows would be opposite, and as large but for rounding.
			label := 0
			if sum > 0.7 {
				label = 1
			}
			if sum < -0.7 {
				label = 2
			}
			fmt.Fprintf(&b, ",%d\n", label)
		}
	}
	path := filepath.Join(t.TempDir(), "scaled.csv")
	runtest.WriteFile(t, path, b.String())
	return path
}

// The scale of features under a batch norm changes nothing but by rounding, whichever updates a rule
// chooses, clips or compresses. Both scales are far above the norm's ε, the square root of 1e-5, which is
// part of what trains: from features of deviation 1 to those of 30 it alone moves values by 5e-6, a ReLU
// behind it makes more of that where a sample is close to its bend, and of two clients with nearly equal
// scores a rule may then choose the other one.
func TestBatchNorm_ScaleOfFeatures(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	small := scaledData(t, 32)
	large := scaledData(t, 32*30)
	const liars = "fleet=[{name: honest, count: 8}, {name: liar, count: 2, attack: {kind: sign_flip, factor: 3}}]"
	for name, sets := range map[string][]string{
		"mean":             nil,
		"krum":             {"aggregate.combine={rule: krum, liars: 0.2}", liars},
		"multi_krum":       {"aggregate.combine={rule: multi_krum, liars: 0.2}", liars},
		"honest":           {"aggregate.combine={rule: multi_krum, liars: 0.2}"},
		"nnm":              {"aggregate.combine={rule: nnm, liars: 0.2, then: multi_krum}", liars},
		"geometric_median": {"aggregate.combine=geometric_median", liars},
		"trimmed_mean":     {"aggregate.combine=trimmed_mean", liars},
		"fixed clip":       {"aggregate.clip={bound: fixed, norm: 0.1}"},
		"median clip":      {"aggregate.clip={bound: median, times: 1.1}", liars},
		"quantile clip":    {"aggregate.clip=quantile"},
		"buffered":         {"close={rule: buffered, n: 3}", "compute.std=0.05"},
		"fedasync":         {"close={rule: buffered, n: 1}", "aggregate.algorithm=fedasync", "compute.std=0.05"},
		"fednova":          {"aggregate.algorithm=fednova", "close={rule: deadline, seconds: 3}"},
		"fedexp":           {"aggregate.algorithm=fedexp"},
		"fedadam":          {"aggregate.algorithm=fedadam"},
		"top_k":            {"compress=top_k"},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(data string) (trained []float32) {
				c := custom(t, append([]string{
					"data={path: " + data + ", client: client, split: split, features: x*, label: y}",
					"model=[batch_norm, dense: 4, relu, dense]",
					"cohort=10",
					"batch=6",
					"schedule.k=fixed",
					"schedule.k0=5",
					"schedule.eta0=0.1",
					"stop.rounds=20",
					"nats.url=none",
				}, sets...)...)
				mustRun(t, c, Options{Callbacks: Callbacks{Model: func(_ int, params []float32) { trained = params }}})
				// Running means and variances of six channels, and the count of batches.
				const running = 6 + 6 + 1
				return trained[:len(trained)-running]
			}
			of32 := play(small)
			of960 := play(large)
			furthest := 0.0
			for i := range of32 {
				furthest = max(furthest, math.Abs(float64(of32[i]-of960[i])))
			}
			t.Logf("off by %.2g", furthest)
			if furthest > 2e-6 {
				t.Errorf("trained values differ by %g with features times 30", furthest)
			}
		})
	}
}
