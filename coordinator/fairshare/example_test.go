package fairshare_test

import (
	"fmt"

	"fedpace/coordinator/fairshare"
)

// A model of 10 Mbit leaves a server of 10 Mbit/s to three clients. Client 3
// has a link of 2 Mbit/s, which the server does not slow down. The other two
// share the rest, 4 Mbit/s each.
func Example() {
	const bits, second = 10_000_000, 1_000_000_000
	need, err := fairshare.Need(bits, 10)
	if err != nil {
		panic(err)
	}
	server := fairshare.New(need, 0)
	server.Resume(0, 1, second/10, need) // 100 Mbit/s: 0.1 s if alone
	server.Resume(0, 2, second/10, need)
	server.Resume(0, 3, 5*second, need) // 2 Mbit/s: 5 s if alone
	for {
		at, ok := server.Due()
		if !ok {
			break
		}
		client, _ := server.Take(at)
		fmt.Printf("client %d is done after %.1f s\n", client, float64(at)/second)
	}
	// Output:
	// client 1 is done after 2.5 s
	// client 2 is done after 2.5 s
	// client 3 is done after 5.0 s
}
