package round

import (
	"math/rand/v2"
	"testing"

	"fedpace/coordinator/schedule"
)

// playLosses plays 60 rounds of auto and returns the K of each. The loss of each round is drawn around base,
// from round 31 on around base + rise. The machine is cut every few steps, as a resumed run is.
func playLosses(t *testing.T, base, rise float64, change func(*Config)) (local []int, reports []Report) {
	t.Helper()
	c := config()
	c.Train = true
	c.K = schedule.Auto{Start: 0.8, Until: 0.9, Power: 1}
	c.Setup.K0 = 50
	c.Stop = Limits{Rounds: 60}
	change(&c)
	r := rand.New(rand.NewPCG(7, 8))
	p := newPlayer(t, c, rand.New(rand.NewPCG(1, 1)), func(x Task) Plan {
		return Plan{Download: 1e6, Compute: Time(x.LocalSteps) * 1e3}
	})
	for turn := 0; p.machine.Phase() != Stopped; turn++ {
		for i := range p.queue {
			e := &p.queue[i]
			if e.Kind != Trained || e.Loss >= base {
				continue
			}
			e.Loss = base + 1 + 0.1*r.NormFloat64()
			if p.machine.Round() > 30 {
				e.Loss += rise
			}
		}
		p.turn(t)
		if turn%7 == 0 {
			p.cut(t, true)
		}
	}
	for _, report := range p.reports {
		local = append(local, report.LocalSteps)
	}
	return local, p.reports
}

// K rises again after losses have risen, and the reports say when that was noticed; without a rise, or where
// losses are private, it falls to 1 as ever. Cutting the machine changes nothing of that.
func TestMachine_ChangesOfData(t *testing.T) {
	const base = 1000
	plain, _ := playLosses(t, base, 0, func(*Config) {})
	private, _ := playLosses(t, base, 1, func(c *Config) { c.PrivateLosses = true })
	raised, reports := playLosses(t, base, 1, func(*Config) {})
	for i := range plain {
		before := reports[i].Reason.ChangeRound
		switch {
		case private[i] != plain[i]:
			t.Errorf("round %d: K = %d with private losses, want %d", i+1, private[i], plain[i])
		case i >= 30 && i < 33 && before != 0:
			t.Errorf("round %d: a change was noticed in round %d", i+1, before)
		case i < 33 && raised[i] != plain[i]:
			t.Errorf("round %d: K = %d before the change is noticed, want %d", i+1, raised[i], plain[i])
		case i == 33 && (raised[i] != 50 || before != 33):
			t.Errorf("K = %d in round 34, after a change in round %d; want 50, 33", raised[i], before)
		}
	}
	if plain[33] > 25 || plain[59] != 1 || raised[59] != 1 {
		t.Errorf("K is %d in round 34, and %d and %d in round 60", plain[33], plain[59], raised[59])
	}
}
