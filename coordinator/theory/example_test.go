package theory_test

import (
	"fmt"

	"fedpace/coordinator/theory"
)

// Theorem 2: the longer the training has gone on, the fewer local steps are
// best. K* falls with the cube root of time.
func ExampleConstants_OptimalK() {
	constants := theory.Constants{L: 1, Mu: 0.1, Variance: 0.027, Gamma: 5.5, G: 5.2, FStar: 10.9, N: 10}
	runtime := theory.Runtime{Megabits: 1, DownloadMbps: 20, UploadMbps: 5, Step: 0.01}
	for _, seconds := range []float64{1, 8, 64} {
		k := constants.OptimalK(runtime, 17.1, 0.05, seconds)
		fmt.Printf("after %2.0f s: K* = %.2f, as whole steps %d\n", seconds, k, constants.Steps(runtime, 17.1, 0.05, seconds, 50))
	}
	// Output:
	// after  1 s: K* = 3.01, as whole steps 3
	// after  8 s: K* = 1.51, as whole steps 2
	// after 64 s: K* = 0.75, as whole steps 1
}
