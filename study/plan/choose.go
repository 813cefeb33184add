package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/experiment/forecast"
	"fedpace/internal/human"
	"fedpace/internal/statistics"
	"fedpace/learn/metric"
)

// choose recommends a setting and says why. Of the trained settings it takes the best, or one that the
// seeds do not tell apart from it and that takes less energy or, where no watts are known, fewer bytes.
// Where nothing was trained it takes the most promising one.
func (p *Plan) choose() {
	untrained := func(s *Setting) bool { return s.came().Best.N == 0 }
	trained := slices.DeleteFunc(slices.Clone(p.Settings), untrained)
	if len(trained) == 0 {
		// The settings are sorted with the most promising first.
		p.Chosen = p.Settings[0]
		p.Reason = p.reasonUntrained()
		return
	}
	best := trained[0]
	// First the setting with the best result is found.
	for _, s := range trained {
		if p.better(s.Trained, best.Trained) {
			best = s
		}
	}
	p.Chosen = best
	advantage := "fewer bytes"
	cost := func(t *Trained) float64 { return t.Bytes.Mean }
	// Energy is the cost that matters where it is known; otherwise it is traffic.
	if best.Trained.Joules.N > 0 {
		advantage = "less energy"
		cost = func(t *Trained) float64 { return t.Joules.Mean }
	}
	// Where a target is asked for, the time to it decides alone: no cheaper setting takes its place.
	if p.request.For != Target {
		for _, s := range trained {
			// Among settings that the seeds do not tell from the best, the cheapest is recommended.
			equallyGood := s.Trained.Diverged == 0 && alike(s.Trained, best.Trained)
			if equallyGood && cost(s.Trained) < cost(p.Chosen.Trained) {
				p.Chosen = s
			}
		}
	}
	p.Reason = p.reasonTrained(best, advantage)
}

// reasonUntrained says why the chosen setting is the most promising one, where nothing was trained.
func (p *Plan) reasonUntrained() string {
	c := p.Chosen
	if !p.request.toUpdates() {
		return fmt.Sprintf("By its time alone: in %s it has %s rounds and %s local steps of all clients, "+
			"and no other setting has a higher sqrt(steps) times rounds; nothing was trained to confirm it.",
			human.VirtualTime(p.Seconds), short(c.Rounds.P50), short(c.Work.P50))
	}
	if c.Short > 0 {
		return fmt.Sprintf("No setting has its updates with every draw of the fleet, "+
			"and this one misses them least often, in %d of %d: lower stop.accepted, %s.",
			c.Short, p.Draws, forecast.MoreUpdates)
	}
	energy := ""
	if !math.IsNaN(c.Joules.P50) {
		energy = fmt.Sprintf(", with %s kJ", text(c.Joules, 1e-3))
	}
	scarce := map[string]string{Updates: "time", Energy: "energy"}[p.request.For]
	return fmt.Sprintf("It has its updates after %s s%s: no other setting has them with less %s in the median. "+
		"How good its model is then, that does not say.",
		text(c.Seconds, 1), energy, scarce)
}

// reasonTrained says why the chosen setting is preferred to the other trained ones. best is the best of
// them, and advantage names what the chosen one takes less of, if it is another.
func (p *Plan) reasonTrained(best *Setting, advantage string) string {
	t := p.Chosen.Trained
	reason := fmt.Sprintf(
		"Its best %s in %s is %s",
		metric.Title(p.quality.Name),
		human.VirtualTime(p.Seconds),
		t.Best.Digits(4),
	)
	switch {
	case p.request.For == Target && t.reaches():
		reason = fmt.Sprintf(
			"It reaches evaluate.target after %s s, with each of %d seeds, the first of those that were trained.",
			t.Target.Digits(4),
			t.Seeds,
		)
	case p.Chosen == best && t.Best.N < 2:
		reason += ", the best of those that were trained; one seed does not tell how much of that is chance " +
			"(--seeds 3)."
	case p.Chosen == best:
		reason += ", the best of those that were trained."
	default:
		reason += fmt.Sprintf(
			"; the best of those that were trained, %s, is not told apart from it by the seeds, and this one takes %s.",
			best.Trained.Best.Digits(4),
			advantage,
		)
	}
	if t.Diverged > 0 {
		reason += fmt.Sprintf(" With %d of %d seeds it diverged, as others that were trained did.", t.Diverged, t.Seeds)
	}
	return reason
}

// better reports whether a setting is better than another: it reaches the target sooner where that is
// asked, or has no diverged seed where the other has one, or has the better mean.
func (p *Plan) better(t, than *Trained) bool {
	oneReaches := t.reaches() || than.reaches()
	// Where a time to the target is asked for, reaching it comes first, and then reaching it
	// sooner.
	if p.request.For == Target && oneReaches {
		otherIsAsSoon := than.reaches() && than.Target.Mean <= t.Target.Mean
		return t.reaches() && !otherIsAsSoon
	}
	neverDiverged := t.Diverged == 0
	switch {
	case neverDiverged != (than.Diverged == 0):
		return neverDiverged
	case p.quality.Better == metric.Lower:
		return t.Best.Mean < than.Best.Mean
	}
	return t.Best.Mean > than.Best.Mean
}

// reaches reports whether every seed reached the target.
func (t *Trained) reaches() bool { return t.Target.N == t.Seeds }

// alike reports whether the seeds do not tell two settings apart: the interval of the mean of their
// differences, seed by seed, contains zero. One seed tells nothing but equality.
func alike(a, b *Trained) bool {
	differences := make([]float64, len(a.bests))
	// The runs of two settings with the same seed share their draws, so they are compared in pairs.
	for i := range differences {
		differences[i] = a.bests[i] - b.bests[i]
	}
	d := statistics.EstimateMean(differences)
	return d.Mean == 0 || math.Abs(d.Mean) <= d.Half
}

// unknown lists, in sentences, what the plan does not know about the fleet, the data and the settings.
func (p *Plan) unknown() (list []string) {
	say := func(unknown bool, format string, a ...any) {
		if unknown {
			list = append(list, fmt.Sprintf(format, a...))
		}
	}
	some := func(condition func(*Setting) bool) bool { return slices.ContainsFunc(p.Settings, condition) }
	configured := p.configuredSetting()
	c := &configured.config
	say(math.IsNaN(configured.Joules.P50), "Energy: no class gives its watts.")
	say(p.Draws > 1 && !some(func(s *Setting) bool {
		return s.Rounds.P05 < s.Rounds.P95 || s.Bytes.P05 < s.Bytes.P95 || s.Seconds.P05 < s.Seconds.P95
	}),
		"Scatter: no class varies (vary, step_cv), so the intervals of times are points.")
	say(len(c.Fleet) == 0, "The fleet: it has no classes, so all clients are as fast as network and compute say "+
		"(measure them: fedpace-device calibrate).")
	say(
		some(func(s *Setting) bool { return s.AtMost }),
		"Schedules that follow losses: their times (at K_0) hold while K_r stays at K_0; training shows the rest.",
	)
	say(
		some(func(s *Setting) bool { return s.Asks }),
		"The time to ask candidates for their losses is in what was trained, not in the other times.",
	)
	say(!c.EverAbsent(), "Availability: clients are taken to be there always (set availability, or a class's).")
	say(
		!slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Dropout != nil }) &&
			c.Dropout == fleet.Dropout{},
		"Losses: no client is taken to leave in the middle of a task (set dropout).",
	)
	devices := len(configured.real.Devices.Names)
	say(
		devices > 0 && p.trained() > 0,
		"The devices' data: %d simulated clients with shares of %s stand for them.",
		devices,
		dataOf(c),
	)
	say(
		p.trained() > 0 && c.IsSynthetic(),
		"The data: it is synthetic, so how well settings end there says little of other data.",
	)
	return list
}

// dataOf names the data of a configuration.
func dataOf(c *config.Config) string {
	if c.IsSynthetic() {
		return "synthetic data"
	}
	return c.Data.String()
}

// trained is the number of settings that were trained.
func (p *Plan) trained() (n int) {
	for _, s := range p.Settings {
		if s.Trained != nil {
			n++
		}
	}
	return n
}

// Config is the configuration of the recommended setting, with the real devices and the plan's virtual
// time.
func (p *Plan) Config() config.Config {
	c := p.Chosen.real
	c.Name += "-plan"
	c.Out = config.OutFolder(c.Name)
	return c
}

// YAML is the content of plan.yaml: the recommended configuration, with comments that say what it is
// and why.
func (p *Plan) YAML() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# The setting that fedpace plan recommends: %s.\n# %s\n", p.Chosen.Name, p.Reason)
	// What the plan does not know goes with its recommendation, as comments of the file.
	for _, line := range p.Unknown {
		fmt.Fprintf(&b, "# Not known: %s\n", line)
	}
	c := p.Config()
	return append([]byte(b.String()), c.YAML()...)
}
