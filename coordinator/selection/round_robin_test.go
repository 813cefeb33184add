package selection

import (
	"slices"
	"testing"
)

// Cohorts go around the circle of clients: in clients/gcd(clients, cohort) rounds
// each is asked equally often.
func TestRoundRobin_EquallyOften(t *testing.T) {
	order, err := RoundRobin{}.Order(Setup{Clients: 10, Cohort: 4})
	if err != nil {
		t.Fatal(err)
	}
	var count [10]int
	for r := 1; r <= 5; r++ {
		for _, client := range cohortOf(order, r, 4) {
			count[client]++
		}
	}
	if count != [10]int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2} {
		t.Errorf("the clients are asked %v times in five rounds", count)
	}
	if got := cohortOf(order, 3, 99); !slices.Equal(got, []int{8, 9, 0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("the order of round 3 is %v", got)
	}
	order.Start(1<<31-1, 0) // 4 · (2^31 - 2) is 4 modulo 10
	if client, _ := order.Next(); client != 4 {
		t.Errorf("the last round there can be begins with client %d", client)
	}
}
