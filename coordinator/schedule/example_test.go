package schedule_test

import (
	"fmt"

	"fedpace/coordinator/schedule"
)

// K_r-rounds (Table 3) halves the local steps by round 8.
func ExampleRoundsK() {
	k, run := schedule.RoundsK{}, schedule.Setup{K0: 80}
	for _, r := range []int{1, 2, 8, 64, 1000, 10_000} {
		fmt.Printf("K_%d = %d\n", r, k.LocalSteps(schedule.Progress{Setup: run, Round: r}))
	}
	// Output:
	// K_1 = 80
	// K_2 = 64
	// K_8 = 40
	// K_64 = 20
	// K_1000 = 8
	// K_10000 = 4
}

// K_r-error (Table 3) follows the cube root of the training loss, which is the
// mean over a window of rounds (Eq. 15).
func ExampleErrorK() {
	k, run := schedule.ErrorK{}, schedule.Setup{K0: 80}
	window := schedule.NewWindow(schedule.WindowConfig{Size: 2})
	for r, loss := range []float64{4, 4, 2, 1, 0.5, 0.5} {
		progress := schedule.Progress{Setup: run, Round: r + 1}
		progress.LossRatio, progress.HasLoss = window.Ratio()
		fmt.Printf("K_%d = %d\n", r+1, k.LocalSteps(progress))
		window.Observe(loss)
	}
	// Output:
	// K_1 = 80
	// K_2 = 80
	// K_3 = 80
	// K_4 = 73
	// K_5 = 58
	// K_6 = 46
}
