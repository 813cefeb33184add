package fleet_test

import (
	"fmt"
	"time"

	"fedpace/actors/fleet"
)

// Half of the clients are phones whose speeds differ, the others are boards that
// are all alike. A client's time for a task is a function of the seed, the client
// and the task.
func Example() {
	const mbit = 1_000_000
	devices, err := fleet.NewFleet(fleet.Config{
		Network: fleet.Network{DownloadMbps: 20, UploadMbps: 5},
		Compute: fleet.Compute{SecondsPerStep: 0.017},
		Fleet: []fleet.Class{
			{Name: "phone", SecondsPerStep: fleet.Lognormal{Mean: 0.017, Sigma: 1}},
			{Name: "board", SecondsPerStep: fleet.Constant{Value: 0.1}},
		},
	}, 1)
	if err != nil {
		panic(err)
	}
	for client := range 6 {
		plan, err := devices.Plan(devices.Client(client), 1, 80, fleet.SameBits(6.71*mbit), 0)
		if err != nil {
			panic(err)
		}
		fmt.Println(devices.Classes()[devices.Class(client)],
			time.Duration(plan.Download), time.Duration(plan.Compute).Round(time.Millisecond), time.Duration(plan.Upload))
	}
	// Output:
	// phone 335.5ms 231ms 1.342s
	// board 335.5ms 8s 1.342s
	// board 335.5ms 8s 1.342s
	// board 335.5ms 8s 1.342s
	// board 335.5ms 8s 1.342s
	// phone 335.5ms 508ms 1.342s
}
