package algorithm_test

import (
	"fmt"
	"slices"

	. "fedpace/algorithm"
)

// Two hosts train two clients each. Whichever way the clients are grouped, the
// sums are the same integers and the next model has the same bits.
func Example() {
	global := []float32{1, -2}
	clients := [][]float32{{1.1, -2.3}, {0.7, -1.9}, {1.2, -2.2}, {0.9, -1.7}}
	weights := Equal(len(clients))
	host := func(members ...int) []int64 {
		sum := make([]int64, len(global))
		for _, c := range members {
			if err := Add(sum, weights[c], clients[c], global); err != nil {
				panic(err)
			}
		}
		return sum
	}
	together := func(a, b []int64) []int64 {
		if err := Merge(a, b); err != nil {
			panic(err)
		}
		return a
	}
	one, other := together(host(0, 1), host(2, 3)), together(host(3, 0), host(2, 1))
	fmt.Println("equal sums:", slices.Equal(one, other))

	NewInstance(Default, nil, len(global), len(global), 0, len(clients)).Server.Apply(global, one, 1)
	fmt.Println("next model:", global)
	// Output:
	// equal sums: true
	// next model: [0.975 -2.025]
}
