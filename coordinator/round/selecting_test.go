package round

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
)

// A place is filled uniformly among the clients that are free,
// whether there are many, so that trying finds one, or so few that they are
// listed: chi-square within five standard deviations.
func TestSelection_FairPlaces(t *testing.T) {
	const clients, places = 5000, 10_000
	for _, x := range []struct {
		name string
		rule selection.Rule
		free func(client int) bool
	}{
		{"uniform, many free", selection.Uniform{}, func(c int) bool { return c%2 == 0 }},
		{"uniform, few free", selection.Uniform{}, func(c int) bool { return c%500 == 7 }},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := config()
			c.Clients, c.Select, c.Closing = clients, x.rule, closing.Buffered{N: 1}
			c.Samples = func(c int) int { return c % 4 }
			c.Available = func(client int, _ Time) bool { return x.free(client) }
			c.NextChange = func(Time) (Time, bool) { return 0, false }
			m, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			// Groups of clients, so that each has many draws.
			group := func(client int) int { return client * 10 / clients }
			var want, got [10]float64
			total := 0.0
			for client := range clients {
				if x.free(client) {
					want[group(client)] += float64(m.sampling.drawing.Weight(client))
					total += float64(m.sampling.drawing.Weight(client))
				}
			}
			for i := range places {
				client, ok := m.sampling.drawClient(uint64(i + 1))
				if !ok || !x.free(client) || m.sampling.drawing.Weight(client) == 0 {
					t.Fatalf("the place goes to client %d (%v)", client, ok)
				}
				got[group(client)]++
			}
			chi, cells := 0.0, -1.0
			for g := range want {
				if e := want[g] / total * places; e > 0 {
					chi += (got[g] - e) * (got[g] - e) / e
					cells++
				}
			}
			if limit := 5 * math.Sqrt(2*cells); cells < 4 || math.Abs(chi-cells) > limit {
				t.Errorf("chi-square %.1f, want %.0f ± %.1f: %v for %v", chi, cells, limit, got, want)
			}
		})
	}
}

// Power of choice takes the candidates with the highest losses (Cho, Wang and
// Joshi 2020, section 4): no candidate that is passed over has a higher one
// than any that is taken.
func TestPowerOfChoice_HighestLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Cohort = rapid.IntRange(1, 5).Draw(t, "cohort")
		c.Select = chosen("power_of_choice", "candidates", rapid.IntRange(c.Cohort, 10).Draw(t, "candidates"))
		p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(Task) Plan { return Plan{Compute: 1} })
		for p.machine.Phase() != Querying {
			p.turn(t)
		}
		passed := map[int]float64{}
		for _, f := range p.machine.candidates.list {
			passed[int(f.Client)] = lossOf(Task{Client: int(f.Client)})
		}
		p.turn(t)
		lowest := math.Inf(1)
		for _, x := range p.underway {
			lowest = min(lowest, passed[x.Client])
			delete(passed, x.Client)
		}
		if len(p.underway) != c.Cohort {
			t.Fatalf("%d are taken, want %d", len(p.underway), c.Cohort)
		}
		for client, loss := range passed {
			if loss > lowest {
				t.Fatalf("client %d with loss %v is passed over, one with %v taken", client, loss, lowest)
			}
		}
	})
}

// Who is left out is passed over, and counted.
func TestFit_TooSlowAreLeftOut(t *testing.T) {
	c := config()
	c.Closing, c.Select, c.Stop.Rounds = after(100), chosen("fit", "least", 1), 1
	c.Expect = func(client, k int) Time { return Time(30*client + 10*k) }
	reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		if x.Client > 3 || x.LocalSteps != min(8, 10-3*x.Client) {
			t.Errorf("client %d has %d steps", x.Client, x.LocalSteps)
		}
		return Plan{Compute: 1}
	})
	// The order of round 1, of whom 0 to 3 can do a step in 100 ns.
	o, err := selection.Uniform{}.Order(selection.Setup{Seed: c.Seed, Clients: 10})
	if err != nil {
		t.Fatal(err)
	}
	o.Start(1, 0)
	left := 0
	for asked := 0; asked < 3; {
		if client, _ := o.Next(); client <= 3 {
			asked++
		} else {
			left++
		}
	}
	if r := reports[0]; r.Excluded != left || left == 0 || r.Cohort != 3 {
		t.Errorf("%d are left out and %d asked, want %d and 3", r.Excluded, r.Cohort, left)
	}
}

// A round that nobody can be asked in ends the run; where a client that is away could,
// the round waits for it.
func TestFit_AllTooSlow(t *testing.T) {
	for away, want := range map[Time]string{0: Excluded, 50: "2 rounds"} {
		c := config()
		c.Closing, c.Select, c.Stop.Rounds = after(100), chosen("fit", "least", 2), 2
		c.Expect = func(client, k int) Time {
			if client == 3 && away > 0 {
				return 1
			}
			return Time(60 * k)
		}
		c.Available = func(client int, at Time) bool { return client != 3 || at >= away }
		c.NextChange = func(at Time) (Time, bool) { return at + 10, true }
		_, _, stop := play(t, c, rand.New(rand.NewPCG(1, 1)), func(Task) Plan { return Plan{Compute: 10} })
		if stop.Reason != want {
			t.Errorf("the run ends with %q, want %q", stop.Reason, want)
		}
	}
}

// A late update counts although nobody can be asked any more. K is 1 in round 1, which
// client 1 does too late, and then 9, which takes all clients too long.
func TestFit_LateUpdateOfTooSlow(t *testing.T) {
	c := config()
	c.Clients, c.Cohort, c.Closing, c.Late, c.Select, c.Stop.Rounds = 2, 2, after(100), closing.Use{Limit: 1}, chosen("fit", "least", 9), 9
	c.Expect = func(_, k int) Time { return Time(50 * k) }
	c.K = schedule.ListK{Values: []schedule.StepsFrom{{Value: 1}, {Value: 9}}}
	reports, _, stop := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan { return Plan{Compute: Time(50 + 100*x.Client)} })
	if len(reports) != 2 || reports[1].End != 150 || reports[1].Outcomes[Accepted] != 1 || stop.Reason != Excluded || stop.Outcomes[Accepted] != 2 {
		t.Errorf("%d rounds, stopped as %+v", len(reports), stop)
	}
}

// Without a deadline all arrive within one step of the fastest, who does K_r. If the
// slowest cannot do the fewest by then, it does these, and nobody waits for another:
// all others do as many as fit.
func TestFit_WithoutDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := config()
		c.Seed = rapid.Uint64().Draw(t, "seed")
		c.Cohort = rapid.IntRange(1, 10).Draw(t, "cohort")
		least := rapid.IntRange(0, 10).Draw(t, "least")
		fit := chosen("fit", "least", least)
		c.Select, c.Stop.Rounds = fit, 1
		if rapid.Bool().Draw(t, "candidates") {
			c.Select = chosen("power_of_choice", "candidates", 10, "from", fit)
		}
		fixed := rapid.SliceOfN(rapid.IntRange(0, 300), 10, 10).Draw(t, "transfers")
		step := rapid.SliceOfN(rapid.IntRange(1, 100), 10, 10).Draw(t, "steps")
		c.Expect = func(client, k int) Time { return Time(fixed[client] + k*step[client]) }
		var asked []Task
		reports, _, _ := play(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
			if !x.Probe {
				asked = append(asked, x)
			}
			return Plan{Download: Time(fixed[x.Client]), Compute: Time(x.LocalSteps * step[x.Client])}
		})
		fastest, slowest := MaxTime, Time(0)
		for _, x := range asked {
			fastest = min(fastest, c.Expect(x.Client, 8))
			slowest = max(slowest, c.Expect(x.Client, max(1, min(least, 8))))
		}
		for _, x := range asked {
			takes := c.Expect(x.Client, x.LocalSteps)
			if takes > max(fastest, slowest) || x.LocalSteps < 8 && c.Expect(x.Client, x.LocalSteps+1) <= max(fastest, slowest) {
				t.Errorf("client %d does %d steps in %d ns, the others arrive after %d", x.Client, x.LocalSteps, takes, max(fastest, slowest))
			}
		}
		if reports[0].Excluded > 0 || len(asked) != c.Cohort {
			t.Errorf("%d are asked, and %d left out", len(asked), reports[0].Excluded)
		}
	})
}

// In a run each cohort is of those that are there at the choice and least in the
// window after the deadline.
func TestLeastAvailable_Rounds(t *testing.T) {
	c := config()
	c.Closing, c.Select, c.Stop.Rounds = after(100), chosen("least_available"), 4
	c.Available = func(client int, at Time) bool { return (at/50+Time(client))%10 < 5 }
	c.NextChange = func(at Time) (Time, bool) { return at + 50 - at%50, true }
	c.AvailableShare = func(client int, from, to Time) (share float64) {
		for at := from; at < to; at++ {
			if c.Available(client, at) {
				share += 1 / float64(to-from)
			}
		}
		return share
	}
	chosen := map[Time][]int{}
	play(t, c, rand.New(rand.NewPCG(1, 1)), func(task Task) Plan {
		chosen[task.Start] = append(chosen[task.Start], task.Client)
		return Plan{Compute: 100}
	})
	for at, clients := range chosen {
		most := 0.0
		for _, client := range clients {
			most = max(most, c.AvailableShare(client, at+100, at+200))
		}
		for client := range c.Clients {
			if !slices.Contains(clients, client) && c.Available(client, at) && c.AvailableShare(client, at+100, at+200) < most {
				t.Errorf("at %d client %d is passed over, and chosen are %v", at, client, clients)
			}
		}
	}
	if len(chosen) != 4 {
		t.Errorf("%d rounds", len(chosen))
	}
}

// What a machine remembers decides: the run goes on from a checkpoint to the cohorts
// that it would have had, and to others if it forgets.
func TestSelection_Remembers(t *testing.T) {
	t.Parallel()
	plan := func(x Task) Plan {
		r := rand.New(rand.NewPCG(7, x.Task))
		return Plan{Download: Time(r.IntN(20)), Compute: Time((x.Client + 1) * r.IntN(20)), Upload: Time(1 + r.IntN(20))}
	}
	for name, s := range map[string]selection.Rule{
		"oort":  chosen("oort", "seconds", 60e-9, "window", 2, "penalty", 2, "explore", 0.9, "decay", 0.9, "least", 0.2, "cut_off", 0.9, "clip", 0.9, "picks", 9),
		"tifl":  chosen("tifl", "tiers", 4, "interval", 3, "credits", 4),
		"flanp": chosen("flanp", "begin", 4, "patience", 2, "min_delta", 0.2),
	} {
		c := config()
		c.Clients, c.Cohort, c.Select, c.Stop.Rounds = 30, 5, s, 24
		c.Samples = func(client int) int { return 10 + client%7 }
		c.Expect = func(client, steps int) Time { return Time(20 + steps*(1+client)) }
		trained := map[string][]Task{}
		for _, way := range []string{"whole", "cut", "forgets"} {
			p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), plan)
			for i := 0; p.machine.Phase() != Stopped; i++ {
				p.turn(t)
				switch {
				case way == "cut":
					p.cut(t, i%2 == 0)
				case way == "forgets" && p.machine.Round() == 9:
					fresh, err := s.Order(p.machine.sampling.setup)
					if err != nil {
						t.Fatal(err)
					}
					if err := p.machine.sampling.following.Restore(fresh.(selection.Following).Memory()); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.over(t)
			trained[way] = p.trained
		}
		if !slices.Equal(trained["whole"], trained["cut"]) {
			t.Errorf("%s: a run that was cut asks others", name)
		}
		if slices.Equal(trained["whole"], trained["forgets"]) {
			t.Errorf("%s: a run that forgets asks the same clients", name)
		}
	}
}
