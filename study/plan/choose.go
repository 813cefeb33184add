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
	"fedpace/learn/metric"
	"fedpace/study/choice"
)

// chooseUntrained recommends a setting where nothing was trained: the one with the least time or energy
// for its updates or, as only training tells which model is better, the configuration as it is.
func (p *Plan) chooseUntrained() {
	if p.request.countsUpdates() {
		p.Chosen = p.Settings[0]
		p.Reason = p.reasonUpdates()
		return
	}
	p.Chosen = p.configuredSetting()
	p.Reason = "Nothing was trained, and times alone do not tell which model is better, " +
		"so no other setting is recommended."
	first := p.Settings[0]
	if first != p.Chosen {
		p.Reason += fmt.Sprintf(" Trained first would be %s, with %s rounds and %s local steps of all clients in %s.",
			first.Name, shortNumber(first.Rounds.P50), shortNumber(first.Work.P50), human.VirtualTime(p.Seconds))
	}
}

// choose recommends the setting that the search found best. Its reason has up to three sentences:
// what the setting reached, which settings the seeds do not tell from it, and which are one setting
// under two names.
func (p *Plan) choose() {
	p.Chosen = p.trainedSettings[p.outcome.Chosen().Setting]
	sentences := []string{p.reasonTrained()}
	if text := p.undecidedSentence(); text != "" {
		sentences = append(sentences, text)
	}
	if text := p.duplicatesSentence(); text != "" {
		sentences = append(sentences, text)
	}
	p.Reason = strings.Join(sentences, " ")
}

// reasonUpdates returns a sentence that says why the chosen setting is recommended for the time or the
// energy of its updates.
func (p *Plan) reasonUpdates() string {
	c := p.Chosen
	// In some draws of the fleet even the best setting gets too few updates.
	if c.TooFewUpdates > 0 {
		return fmt.Sprintf("No setting has its updates with every draw of the fleet, "+
			"and this one misses them least often, in %d of %d: lower stop.accepted, %s.",
			c.TooFewUpdates, p.Draws, forecast.MoreUpdates)
	}
	energy := ""
	if !math.IsNaN(c.Joules.P50) {
		energy = fmt.Sprintf(", with %s kJ", intervalText(c.Joules, 1e-3))
	}
	minimized := map[string]string{Updates: "time", Energy: "energy"}[p.request.Goal]
	return fmt.Sprintf("It has its updates after %s s%s: no other setting has them with less %s in the median. "+
		"How good its model is then, that does not say.",
		intervalText(c.Seconds, 1), energy, minimized)
}

// reasonTrained returns a sentence that says what the chosen setting reached in training: the time to the target, if
// that is the goal and every seed has reached it, and otherwise the quality in the last tenth of the time. It names
// the quality with fresh seeds if there are any, since a choice favours the seeds by which it was made.
func (p *Plan) reasonTrained() string {
	trained := p.Chosen.Trained
	var reason string
	// N is the number of seeds with a value.
	reachesTarget := trained.Target.N == trained.Seeds
	switch {
	case p.request.Goal == Target && reachesTarget:
		reason = fmt.Sprintf(
			"It reaches evaluate.target after %s s, with each of %d %s, the first of those that were trained.",
			trained.Target.Digits(4),
			trained.Seeds,
			human.Plural(trained.Seeds, "seed"),
		)
	// Fresh seeds give an estimate that the choice has not favoured.
	case trained.Fresh.N > 0:
		reason = fmt.Sprintf("Its %s in the last tenth of %s is %s with %d fresh %s, by which it was not chosen%s.",
			metric.Title(p.quality.Name), human.VirtualTime(p.Seconds), trained.Fresh.Digits(4), trained.Fresh.N,
			human.Plural(trained.Fresh.N, "seed"), p.confirmationText())
	// One seed has no deviation.
	case trained.Tail.N < 2:
		reason = fmt.Sprintf("Its %s in the last tenth of %s is %s, the best of those that were trained; one seed "+
			"does not tell how much of that is chance (--seeds 3).",
			metric.Title(p.quality.Name), human.VirtualTime(p.Seconds), trained.Tail.Digits(4))
	default:
		reason = fmt.Sprintf("Its %s in the last tenth of %s is %s, the best of those that were trained, and favoured "+
			"by the choice (--fresh 5 shows by how much).",
			metric.Title(p.quality.Name), human.VirtualTime(p.Seconds), trained.Tail.Digits(4))
	}
	if trained.Diverged > 0 {
		reason += fmt.Sprintf(" With %d of %d seeds it diverged, as others that were trained did.",
			trained.Diverged, trained.Seeds)
	}
	return reason
}

// confirmationText says whether the fresh seeds, with which settings were trained only after the search had chosen
// one, would by themselves recommend the same setting.
func (p *Plan) confirmationText() string {
	if p.outcome.Confirmed {
		return ", the best with these seeds, too"
	}
	return "; with these seeds alone another one is better, with all of them this one"
}

// undecidedSentence names the trained settings that the seeds do not tell from the chosen one, with the number of
// seeds that would decide and with what they would save. It leaves out settings with the same results as the
// chosen one, and those that diverged more often. It is empty if there are none.
func (p *Plan) undecidedSentence() string {
	var list []string
	for _, standing := range p.outcome.Standings[1:] {
		s := p.trainedSettings[standing.Setting]
		if standing.Distinct || s.Trained.sameAs(p.Chosen.Trained) || s.Trained.Diverged > p.Chosen.Trained.Diverged {
			continue
		}
		list = append(list, s.Name+p.seedsHint(standing)+p.savingText(s))
	}
	if len(list) == 0 {
		return ""
	}
	return "The seeds do not tell from it: " + strings.Join(list, "; ") + "."
}

// seedsHint returns the part of a sentence that says how many seeds would tell a setting from the
// chosen one, by its standing. It is empty if that is not known.
func (p *Plan) seedsHint(standing choice.Standing) string {
	if standing.SeedsToDecide == choice.Unknown {
		return ""
	}
	return fmt.Sprintf(" (about %s seeds would)", human.Thousands(int64(standing.SeedsToDecide)))
}

// savingText says how much less energy a setting takes than the chosen one or, where no watts are known, how
// many fewer bytes. It is empty for a setting that takes more.
func (p *Plan) savingText(s *Setting) string {
	resource := "bytes"
	mine := s.Trained.Bytes
	chosen := p.Chosen.Trained.Bytes
	if s.Trained.Joules.N > 0 {
		resource = "energy"
		mine = s.Trained.Joules
		chosen = p.Chosen.Trained.Joules
	}
	share := 1 - mine.Mean/chosen.Mean
	if !(share >= 0.005) {
		return ""
	}
	return fmt.Sprintf(", with %.0f %% less %s", 100*share, resource)
}

// duplicatesSentence names the trained settings that gave the same runs under several names. It is empty if there
// are none.
func (p *Plan) duplicatesSentence() string {
	var list []string
	for i, s := range p.trainedSettings {
		for _, other := range p.trainedSettings[:i] {
			if s.Trained.sameAs(other.Trained) {
				list = append(list, fmt.Sprintf("%s and %s", other.Name, s.Name))
				break
			}
		}
	}
	if len(list) == 0 {
		return ""
	}
	return "One setting under two names: " + strings.Join(list, "; ") + "."
}

// unknown lists, in sentences, what the plan does not know about the fleet, the data and the settings.
func (p *Plan) unknown() (list []string) {
	// addIf adds a sentence to the list if what it is about is unknown.
	addIf := func(unknown bool, format string, a ...any) {
		if unknown {
			list = append(list, fmt.Sprintf(format, a...))
		}
	}
	// anySetting reports whether some setting fulfils a condition.
	anySetting := func(condition func(*Setting) bool) bool { return slices.ContainsFunc(p.Settings, condition) }
	configured := p.configuredSetting()
	c := &configured.config
	addIf(math.IsNaN(configured.Joules.P50), "Energy: no class gives its watts.")
	// The draws of the fleet differ if some setting's quantiles over the draws do.
	scatters := anySetting(func(s *Setting) bool {
		return s.Rounds.P05 < s.Rounds.P95 || s.Bytes.P05 < s.Bytes.P95 || s.Seconds.P05 < s.Seconds.P95
	})
	addIf(p.Draws > 1 && !scatters, "Scatter: no class varies (vary, step_cv), so the intervals of times are points.")
	addIf(len(c.Fleet) == 0, "The fleet: it has no classes, so all clients are as fast as network and compute say "+
		"(measure them: fedpace-device calibrate).")
	addIf(
		anySetting(func(s *Setting) bool { return s.AtMost }),
		"Schedules that follow losses: their times (at K_0) hold while K_r stays at K_0; training shows the rest.",
	)
	addIf(
		anySetting(func(s *Setting) bool { return s.OmitsQueries }),
		"The time to ask candidates for their losses is in what was trained, not in the other times.",
	)
	addIf(!c.EverAbsent(), "Availability: clients are taken to be there always (set availability, or a class's).")
	addIf(
		!slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Dropout != nil }) &&
			c.Dropout == fleet.Dropout{},
		"Losses: no client is taken to leave in the middle of a task (set dropout).",
	)
	// real is the configuration as it would be run, with its real devices; c has simulated clients in their place.
	devices := len(configured.real.Devices.Names)
	addIf(
		devices > 0 && p.trained() > 0,
		"The devices' data: %d simulated clients with shares of %s stand for them.",
		devices,
		dataText(c),
	)
	addIf(
		p.trained() > 0 && c.IsSynthetic(),
		"The data: it is synthetic, so how well settings end there says little of other data.",
	)
	return list
}

// dataText names the data of configuration c for people: synthetic data, or the data set that it
// names.
func dataText(c *config.Config) string {
	if c.IsSynthetic() {
		return "synthetic data"
	}
	return c.Data.String()
}

// trained returns how many settings of the plan were trained. It is 0 for a plan that is made by
// times alone.
func (p *Plan) trained() (n int) {
	for _, s := range p.Settings {
		if s.Trained != nil {
			n++
		}
	}
	return n
}

// Config returns the configuration of the recommended setting as it would be run: with the real
// devices and the plan's virtual time, under a name and in a folder of its own.
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
