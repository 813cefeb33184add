package selection

import (
	"math"
	"slices"
	"testing"
)

// leastAvailable returns an order of clients; there returns which part of a time a client is available, and wrong is
// the part of wrong forecasts.
func leastAvailable(t *testing.T, clients int, wrong float64, there func(client int, from, to Time) float64) Order {
	t.Helper()
	o, err := LeastAvailable{Seconds: 10e-9, Error: wrong}.Order(Setup{Seed: 5, Clients: clients, Simulated: clients, AvailableShare: there})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// forecastOrder returns all clients in the order of a round that begins now.
func forecastOrder(o Order, round int, now Time) (order []int) {
	o.Start(round, now)
	for {
		client, ok := o.Next()
		if !ok {
			return order
		}
		order = append(order, client)
	}
}

// The forecast is of the window that begins as long after the choice as it is long.
func TestLeastAvailable_ComeFirst(t *testing.T) {
	share := []float64{0.5, 0, 1, 0.25, 0.75}
	var windows []Time
	o := leastAvailable(t, len(share), 0, func(client int, from, to Time) float64 {
		windows = append(windows, from, to)
		return share[client]
	})
	if got, want := forecastOrder(o, 1, 100), []int{1, 3, 0, 4, 2}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if slices.Min(windows) != 110 || slices.Max(windows) != 120 {
		t.Errorf("the window is %d to %d, want 110 to 120", slices.Min(windows), slices.Max(windows))
	}
}

// Late in a long run, and with the longest window, the end of a window is still a time.
func TestLeastAvailable_WindowsUntilEndOfTime(t *testing.T) {
	const window = 4e18 // ns
	for _, now := range []Time{0, 1e17, 2e18, MaxTime} {
		for _, given := range []LeastAvailable{{Seconds: 4e9}, {}} {
			asked := 0
			o, err := given.Order(Setup{Seed: 5, Clients: 1, Simulated: 1, Deadline: window, AvailableShare: func(_ int, from, to Time) float64 {
				if asked++; from < 0 || to-from != window || to > MaxTime || now == 0 && from != MaxTime-window {
					t.Errorf("at %d the window is %d to %d", now, from, to)
				}
				return 1
			}})
			if err != nil {
				t.Fatal(err)
			}
			if forecastOrder(o, 1, now); asked != 1 {
				t.Errorf("%d windows", asked)
			}
		}
	}
}

// Of two clients one is away in the window and one is there. The order is wrong only
// where both forecasts are: in half of those cases.
func TestLeastAvailable_WrongForecasts(t *testing.T) {
	const rounds = 100_000
	for _, wrong := range []float64{0, 0.25, 0.5, 1} {
		o := leastAvailable(t, 2, wrong, func(client int, _, _ Time) float64 { return float64(client) })
		right := 0.0
		for r := range rounds {
			if forecastOrder(o, r, 0)[0] == 0 {
				right++
			}
		}
		p := 1 - wrong*wrong/2
		if sd := math.Sqrt(rounds * p * (1 - p)); math.Abs(right-rounds*p) > 5*sd {
			t.Errorf("error %g: %v of %d rounds begin with the client that is away, want %.0f ± %.0f", wrong, right, rounds, rounds*p, 5*sd)
		}
	}
}

// Equal forecasts leave a uniform order: each client has each place equally often
// (chi-square, five standard deviations).
func TestLeastAvailable_EqualForecasts(t *testing.T) {
	const clients, rounds = 8, 40_000
	for name, o := range map[string]Order{
		"always there":   leastAvailable(t, clients, 0, nil),
		"all are wrong":  leastAvailable(t, clients, 1, func(client int, _, _ Time) float64 { return float64(client) }),
		"equally absent": leastAvailable(t, clients, 0, func(int, Time, Time) float64 { return 0.5 }),
	} {
		var count [clients][clients]float64
		for r := range rounds {
			for place, client := range forecastOrder(o, r, 0) {
				count[place][client]++
			}
		}
		chi := 0.0
		for _, places := range count {
			for _, n := range places {
				chi += (n - rounds/clients) * (n - rounds/clients) / (rounds / clients)
			}
		}
		const free = (clients - 1) * (clients - 1)
		if limit := 5 * math.Sqrt(2*free); math.Abs(chi-free) > limit {
			t.Errorf("%s: chi-square %.1f, want %d ± %.1f", name, chi, free, limit)
		}
	}
}
