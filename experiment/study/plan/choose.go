package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/clientmodel"
	"fedpace/actors/measure"
	"fedpace/experiment/config"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
)

// choose recommends a setting: of those that were trained the best one, or one that no
// seed tells from it and that takes less energy or, where no watts are known, fewer bytes.
// Where nothing was trained it is the most promising.
func (p *Plan) choose() {
	p.Chosen = slices.IndexFunc(p.Settings, func(s Setting) bool { return s.Trained != nil && s.Trained.Best.N > 0 })
	if p.Chosen < 0 {
		p.Chosen = 0
		s := &p.Settings[0]
		p.Why = fmt.Sprintf("By its time alone: in %s it has %s rounds and %s local steps of all clients, and no other setting has a higher sqrt(steps) times rounds; nothing was trained to confirm it.",
			human.VirtualTime(p.Seconds), short(s.Rounds.P50), short(s.Work.P50))
		return
	}
	best := p.Chosen
	for i := range p.Settings {
		if p.better(i, best) {
			best = i
		}
	}
	p.Chosen = best
	what, cost := "fewer bytes", func(t *Trained) float64 { return t.Bytes.Mean }
	if p.Settings[best].Trained.Joules.N > 0 {
		what, cost = "less energy", func(t *Trained) float64 { return t.Joules.Mean }
	}
	for i := range p.Settings {
		t := p.Settings[i].Trained
		if t != nil && t.Best.N > 0 && t.Diverged == 0 && alike(t, p.Settings[best].Trained) && cost(t) < cost(p.Settings[p.Chosen].Trained) {
			p.Chosen = i
		}
	}
	t := p.Settings[p.Chosen].Trained
	p.Why = fmt.Sprintf("Its best %s in %s is %s", measure.Title(p.quality.Name), human.VirtualTime(p.Seconds), t.Best.Digits(4))
	switch {
	case p.Chosen == best && t.Best.N < 2:
		p.Why += ", the best of those that were trained; one seed does not tell how much of that is chance (--seeds 3)."
	case p.Chosen == best:
		p.Why += ", the best of those that were trained."
	default:
		p.Why += fmt.Sprintf("; the best of those that were trained, %s, is not told apart from it by the seeds, and this one takes %s.", p.Settings[best].Trained.Best.Digits(4), what)
	}
}

// better reports whether a setting came to a better mean than another.
func (p *Plan) better(i, than int) bool {
	t := p.Settings[i].Trained
	if t == nil || t.Best.N == 0 || t.Diverged > 0 {
		return false
	}
	now, before := t.Best.Mean, p.Settings[than].Trained.Best.Mean
	if p.quality.Better == measure.Lower {
		return now < before
	}
	return now > before
}

// alike reports whether seeds do not tell two settings apart: the mean of their
// differences, seed by seed, is within its interval. One seed tells nothing but equality.
func alike(a, b *Trained) bool {
	differences := make([]float64, len(a.bests))
	for i := range differences {
		differences[i] = a.bests[i] - b.bests[i]
	}
	d := statistics.EstimateMean(differences)
	return d.Mean == 0 || math.Abs(d.Mean) <= d.Half
}

// unknown says what the plan does not know.
func (p *Plan) unknown() (list []string) {
	say := func(is bool, format string, a ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, a...))
		}
	}
	var own *Setting
	some := func(is func(*Setting) bool) bool {
		return slices.ContainsFunc(p.Settings, func(s Setting) bool { return is(&s) })
	}
	for i := range p.Settings {
		if p.Settings[i].Own {
			own = &p.Settings[i]
		}
	}
	c := &own.config
	say(math.IsNaN(own.Joules.P50), "Energy: no class gives its watts.")
	say(!some(func(s *Setting) bool { return s.Rounds.P05 < s.Rounds.P95 || s.Bytes.P05 < s.Bytes.P95 }),
		"Scatter: no class varies (vary, step_cv), so the intervals of times are points.")
	say(len(c.Fleet) == 0, "The fleet: it has no classes, so all clients are as fast as network and compute say (measure them: fedpace-device calibrate).")
	say(some(func(s *Setting) bool { return s.AtMost }), "Schedules that follow losses: their times (at K_0) hold while K_r stays at K_0; training shows the rest.")
	say(some(func(s *Setting) bool { return s.Asks }), "The time to ask candidates for their losses is in what was trained, not in the other times.")
	say(!c.EverAbsent(), "Availability: clients are taken to be there always (set availability, or a class's).")
	say(!slices.ContainsFunc(c.Fleet, func(k clientmodel.Class) bool { return k.Dropout != nil }) && c.Dropout == clientmodel.Dropout{}, "Losses: no client is taken to leave in the middle of a task (set dropout).")
	devices := len(own.real.Devices.Names)
	say(devices > 0 && p.trained() > 0, "The devices' data: %d simulated clients with shares of %s stand for them.", devices, dataOf(c))
	say(p.trained() > 0 && c.IsSynthetic(), "The data: it is synthetic, so how well settings end there says little of other data.")
	return list
}

func dataOf(c *config.Config) string {
	if c.IsSynthetic() {
		return "synthetic data"
	}
	return c.Data.String()
}

// trained is how many settings were trained.
func (p *Plan) trained() (n int) {
	for i := range p.Settings {
		if p.Settings[i].Trained != nil {
			n++
		}
	}
	return n
}

// Config is the configuration of the recommended setting, with the real devices, for the
// plan's virtual time.
func (p *Plan) Config() config.Config {
	c := p.Settings[p.Chosen].real
	c.Name += "-plan"
	c.Out = config.OutFolder(c.Name)
	return c
}

// YAML is the file plan.yaml: that configuration, with what it is and why.
func (p *Plan) YAML() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The setting that fedpace plan recommends: %s.\n# %s\n", p.Settings[p.Chosen].Name, p.Why)
	for _, line := range p.Unknown {
		fmt.Fprintf(&b, "# Not known: %s\n", line)
	}
	c := p.Config()
	return append([]byte(b.String()), c.YAML()...)
}
