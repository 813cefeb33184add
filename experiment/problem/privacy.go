package problem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/algorithm/privacy/pld"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/experiment/folder"
	"fedpace/internal/human"
	"fedpace/registry"
)

// Privacy is a run's differential privacy: its options, and the accountant of what rounds cost. It is
// safe for concurrent use.
type Privacy struct {
	// options are the options of differential privacy in the configuration.
	options privacy.Options
	// updates is the number that the sum of a round's updates is divided by.
	updates int
	// draw says how the cohorts of rounds come about, which decides how much a round costs.
	draw privacy.Draw
	// accountant adds up what rounds cost.
	accountant *privacy.Accountant
	// simulated says that no real device takes part, so the noise follows from the seed.
	simulated bool
	// uncovered lists in sentences what the run reveals that epsilon does not cover.
	uncovered []string

	// mu guards epsilons.
	mu sync.Mutex
	// epsilons is a cache of one entry: it maps the number of rounds that was asked for last to the
	// epsilon that they cost.
	epsilons map[int]float64
	// tight is likewise a cache of one entry, of the two epsilons by privacy loss distributions.
	tight map[int][2]*float64
}

// settlePrivacy finds what each round costs in differential privacy, and sets the limit of rounds
// to the number that the configured epsilon allows. It refuses a configuration that the accounting
// does not cover. A timed run gets the same limit of rounds.
func (p *Problem) settlePrivacy() error {
	c := &p.Config
	if err := p.checkPrivacy(p.params()); err != nil {
		return err
	}
	v := &Privacy{
		options:   c.Privacy,
		updates:   p.maxUpdates(),
		draw:      p.cohortDraw(),
		simulated: len(c.Devices.Names) == 0,
		uncovered: p.uncovered(),
	}
	v.accountant = privacy.NewAccountant(c.Privacy.Noise, v.draw)
	// A run that is only timed takes over the limit of rounds, but adds no noise.
	if c.Train {
		p.Privacy = v
	}
	// An epsilon of 0 means that the configuration does not limit it.
	if c.Privacy.Epsilon == 0 {
		return nil
	}
	// The run stops at the earlier of its own limit and the last round that epsilon allows.
	limit := cmp.Or(c.Stop.Rounds, maxRounds)
	// The accountant finds the largest number of rounds that costs no more than the limit of
	// epsilon.
	c.Stop.Rounds = v.accountant.Rounds(c.Privacy.Epsilon, c.Privacy.Delta, limit)
	if c.Stop.Rounds == 0 {
		return &config.KeyError{
			Key: "privacy.epsilon",
			Problem: fmt.Sprintf(
				"%g, but one round costs %.4g (raise it or privacy.noise_multiplier)",
				c.Privacy.Epsilon,
				v.Epsilon(1),
			),
		}
	}
	return nil
}

// maxRounds is the largest number of rounds after which a run can stop.
const maxRounds = 1_000_000_000

// checkPrivacy refuses what would let a client's part of a round's sum be more than one clipped
// update, or a cohort depend on what clients learned: the accountant counts neither.
func (p *Data) checkPrivacy(params, trainable int) error {
	c := &p.Config
	refuse := func(key, format string, args ...any) error {
		return &config.KeyError{Key: key, RelatedKeys: []string{"privacy.clip"}, Problem: fmt.Sprintf(format, args...)}
	}
	// Only these closing rules let one client influence others in ways that the accountant knows.
	_, all := c.Close.(closing.All)
	_, first := c.Close.(closing.First)
	_, deadline := c.Close.(closing.Deadline)
	_, fits := c.Select.(selection.Fit)
	needs := registry.NeedsOf(c.Select)
	// Each case is an assumption of the accountant that the configuration would break.
	switch {
	case c.Aggregate.Weights != config.EqualWeights:
		return refuse("aggregate.weights", "with differential privacy no client counts more than another (set equal)")
	case c.Aggregate.Combine != nil:
		return refuse(
			"aggregate.combine",
			"how far one client moves a rule's result is not known, and noise must hide it (remove one of the two)",
		)
	case c.Aggregate.Clip != nil:
		return refuse("aggregate.clip", "privacy.clip is the bound on updates (remove aggregate.clip)")
	case closing.UsesLate(c.Late):
		return refuse("late", "a late update would count in a round beside another of its client (set drop)")
	case !all && !first && !deadline:
		return refuse("close", "whether others' updates count depends on one client in more ways than are "+
			"accounted for (set all, deadline or first)")
	case !all && c.Network.Shared():
		return refuse("close", "clients that share the server's bandwidth decide whether others' updates count "+
			"(set all, or remove network.server_download_mbps, network.server_upload_mbps and network.sites)")
	case fits:
		return refuse("select", "the steps of a round's clients follow the times of the others: one client moves "+
			"all their updates (set uniform)")
	case needs.Losses || needs.Candidates || needs.Samples:
		return refuse(
			"select",
			"%s chooses clients by what their samples are, which noise on the models does not hide (set uniform)",
			selection.Rules.NameOf(c.Select),
		)
	case trainable < params:
		return refuse("model", "noise makes nonsense of a batch norm's running variance (use group norm)")
	case c.Privacy.Delta >= 1/float64(p.Population()):
		return &config.KeyError{
			Key: "privacy.delta",
			Problem: fmt.Sprintf(
				"%g may be the loss of one of %d clients' samples (set less than %.2g)",
				c.Privacy.Delta,
				p.Population(),
				1/float64(p.Population()),
			),
		}
	}
	return nil
}

// Population returns the number of all clients of the run: simulated ones and real devices.
func (p *Data) Population() int { return p.Config.Clients + len(p.Config.Devices.Names) }

// cohortDraw returns what the accountant of differential privacy must know of the selection of clients.
//
// Displaces says that one client more takes the place of another: in a cohort of a fixed size that not all
// clients are in, or where only the first updates of a round count. Rate is the probability that a client
// is in a round. It is below 1, which lowers epsilon, only if the cohort is a random sample of a fixed
// population of simulated clients: which real devices take part is no secret, and if clients may be
// absent, the number of those to draw from changes.
func (p *Data) cohortDraw() privacy.Draw {
	c := &p.Config
	_, onlyFirstCount := c.Close.(closing.First)
	draw := privacy.Draw{Rate: 1, Displaces: onlyFirstCount || !p.selectsAll()}
	// changesOthers is false only for a uniform selection of clients that are always there.
	samplesFixedPopulation := !p.selectsAll() && !p.changesOthers()
	if samplesFixedPopulation && len(c.Devices.Names) == 0 {
		draw.Rate = float64(c.Cohort) / float64(c.Clients)
	}
	return draw
}

// selectsAll reports whether each client that is available is selected in each round, since the
// cohort has room for all of them.
func (p *Data) selectsAll() bool {
	c := &p.Config
	return c.Cohort >= c.Clients && (!c.DrawsDevices() || c.Cohort >= p.Population())
}

// changesOthers reports whether one more client in the population may change the rest of a cohort. A client that is
// selected always takes the place of one other, and the accountant of privacy allows for that. Where it may also
// change which of the others are selected, the accountant cannot count on a random sample. That is so where some
// clients are selected by anything but uniform chance, and where clients may be absent or have a battery: a client
// can make a round longer, and time decides which others are available.
func (p *Data) changesOthers() bool {
	c := &p.Config
	_, uniform := c.Select.(selection.Uniform)
	battery := slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Battery != nil })
	choosesByOthers := !uniform && !p.selectsAll()
	return choosesByOthers || battery || c.EverAbsent()
}

// uncovered lists, in sentences, what the run reveals of clients that the guarantee of epsilon does
// not cover, such as schedules that follow losses without noise. An empty list means that nothing
// is known to leak.
func (p *Problem) uncovered() (list []string) {
	c := &p.Config
	// The list is not nil, so that summary.json has an empty list and not null.
	list = []string{}
	for _, setting := range []struct {
		key      string
		schedule any
	}{{"schedule.k", c.Schedule.K}, {"schedule.eta", c.Schedule.Eta}} {
		needs := registry.NeedsOf(setting.schedule)
		if needs.Losses {
			list = append(
				list,
				setting.key+" follows the clients' training losses, which have no noise, and the models follow it",
			)
		}
		if needs.Validation {
			list = append(
				list,
				setting.key+" follows validations, which are covered only where no client's samples are held out",
			)
		}
		if needs.Stragglers {
			list = append(list, setting.key+" follows how long the clients take, and the models follow it")
		}
	}
	trainerKeepsState := p.Trainer != nil && p.Trainer.State > 0
	policyKeepsState := slices.ContainsFunc(
		[]any{c.Compress, c.Local, c.Aggregate.Algorithm},
		func(policy any) bool { return registry.NeedsOf(policy).ClientState },
	)
	clientsKeepState := len(c.Personal.Names) > 0 || trainerKeepsState || policyKeepsState
	// State that a client keeps depends on which rounds it was in, and so on who took its place.
	if clientsKeepState && p.cohortDraw().Displaces {
		list = append(list, "clients keep something from task to task: one that loses its place to another keeps "+
			"something else, which its later updates follow")
	}
	// When the run ends is public, so what decides that reveals something.
	if c.Stop.ValidationAccuracy != 0 || c.Stop.Metric.Reaches != nil {
		list = append(
			list,
			"the run's end follows validations, which are covered only where no client's samples are held out",
		)
	}
	if p.changesOthers() {
		list = append(
			list,
			"one client more may change who else is asked, and epsilon allows only for the one whose place it takes",
		)
	}
	if c.Schedule.Unit == config.Epochs || c.Correlation.Given() {
		list = append(list, "how long clients take depends on their samples, and decides which updates count")
	}
	return list
}

// Mechanism returns the mechanism that adds the run's noise to the sum of a round's updates. The
// noise follows from key, which itself follows from the seed if all clients are simulated.
func (v *Privacy) Mechanism(key privacy.Secret) *privacy.Mechanism {
	return &privacy.Mechanism{Options: v.options, Updates: v.updates, Key: key}
}

// Epsilon returns the epsilon of all models of this number of rounds together, at the delta of the
// options. The last value is kept, because pages and outputs ask for it again and again.
func (v *Privacy) Epsilon(rounds int) float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.epsilons[rounds]; ok {
		return e
	}
	e := v.accountant.Epsilon(rounds, v.options.Delta)
	v.epsilons = map[int]float64{rounds: e}
	return e
}

// tightEpsilons returns two epsilons of this number of rounds by privacy loss distributions, which give
// smaller bounds than the Rényi accountant: the first for the run's cohorts, the second for Poisson samples
// of the same rate, as other papers report it. An entry is nil if that accountant has no answer.
func (v *Privacy) tightEpsilons(rounds int) [2]*float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cached, ok := v.tight[rounds]; ok {
		return cached
	}
	forPoisson := v.options.Noise
	forCohorts := forPoisson
	// In cohorts of a fixed size a client that joins takes another one's place, so that two updates
	// differ: that halves the noise in effect.
	if v.draw.Displaces {
		forCohorts = forPoisson / 2
	}
	var epsilons [2]*float64
	for i, sigma := range [2]float64{forCohorts, forPoisson} {
		mechanism := pld.Mechanism{Sigma: sigma, Rate: v.draw.Rate}
		if e, err := mechanism.Epsilon(rounds, v.options.Delta); err == nil {
			e = privacy.RoundUp(e)
			epsilons[i] = &e
		}
	}
	// Only the newest number of rounds is kept, since callers ask for it again.
	v.tight = map[int][2]*float64{rounds: epsilons}
	return epsilons
}

// Summary returns what this number of rounds costs in epsilon, by both accountants, with the
// settings that it follows from, as summary.json has it.
func (v *Privacy) Summary(rounds int) *folder.Privacy {
	tight := v.tightEpsilons(rounds)
	return &folder.Privacy{
		Epsilon:        v.Epsilon(rounds),
		Delta:          v.options.Delta,
		Clip:           v.options.Clip,
		Noise:          v.options.Noise,
		Updates:        v.updates,
		Rate:           v.draw.Rate,
		PoissonEpsilon: v.accountant.Poisson(rounds, v.options.Delta),

		TightEpsilon:        tight[0],
		TightPoissonEpsilon: tight[1],

		Simulated:  v.simulated,
		NotCovered: v.uncovered,
	}
}

// Text returns sentences for the user that say what this number of rounds costs in epsilon, how the
// cohorts are drawn, and what epsilon does not cover.
func (v *Privacy) Text(rounds int) string {
	s := v.Summary(rounds)
	text := fmt.Sprintf("Privacy: epsilon %.4g at delta %g after %d %s, with norm %g, noise %g and %s (%.4g if "+
		"they were Poisson samples, which they are not).",
		s.Epsilon, s.Delta, rounds, human.Plural(rounds, "round"), s.Clip, s.Noise, v.samplingText(), s.PoissonEpsilon)
	// The accountant by distributions has no answer for some settings.
	if s.TightEpsilon != nil && s.TightPoissonEpsilon != nil {
		text += fmt.Sprintf(" By privacy loss distributions these are %.4g and %.4g.",
			*s.TightEpsilon, *s.TightPoissonEpsilon)
	}
	// Noise that anyone can calculate from the seed protects nobody, so the text says what it is
	// for.
	if s.Simulated {
		text += " The noise follows from the seed: it is for research."
	}
	for _, line := range s.NotCovered {
		text += " Not covered: " + line + "."
	}
	return text
}

// samplingText returns, as a part of a sentence, how the cohorts of rounds are drawn: by chance, at
// a rate below 1, or as any or all clients in each round.
func (v *Privacy) samplingText() string {
	switch {
	case v.draw.Rate < 1:
		return fmt.Sprintf("%.3g %% of the clients drawn for a round", 100*v.draw.Rate)
	case v.draw.Displaces:
		return "any client in any round"
	}
	return "every client in every round"
}

// checkLocalNoise refuses a configuration in which clients would send something beside their update that
// has no noise, such as control variates, kept state or losses, and a model that noise would spoil. It is
// called only with the noise of clients, privacy.local or privacy.distributed.
func (p *Problem) checkLocalNoise() error {
	c := &p.Config
	params, trainable := p.params()
	refuse := func(key, format string, args ...any) error {
		// Both kinds have the same needs, and the message names the one that is set.
		noise := "privacy.local.clip"
		if c.Privacy.Distributed.On() {
			noise = "privacy.distributed.clip"
			format = strings.ReplaceAll(format, "privacy.local", "privacy.distributed")
		}
		return &config.KeyError{Key: key, RelatedKeys: []string{noise}, Problem: fmt.Sprintf(format, args...)}
	}
	switch needs := registry.NeedsOf(c.Select); {
	// The coordinator keeps the state of devices for them, and so would see it without noise.
	case len(c.Devices.Names) > 0 && (p.Learning().MemoryValues() > 0 || registry.NeedsOf(c.Compress).ClientState):
		return refuse("devices.names", "what a device keeps goes to the coordinator, too, without noise (remove "+
			"privacy.local, or have clients keep nothing)")
	// Algorithms with control variates, such as SCAFFOLD, send a second vector.
	case algorithm.HasControlVariates(p.Algorithm):
		return refuse("aggregate.algorithm", "clients send a second vector beside the update, which has no noise "+
			"(remove privacy.local, or use another algorithm)")
	case needs.Losses || needs.Candidates:
		return refuse("select", "chooses clients by their losses, which have no noise (set uniform)")
	case trainable < params:
		return refuse("model", "noise makes nonsense of a batch norm's running variance (use group norm)")
	}
	return nil
}

// LocalNoise returns what the noise that clients add themselves guarantees: the epsilon of one
// update, and of one update in each of this number of rounds together. It is nil in a run without
// local noise or without training.
func (p *Data) LocalNoise(rounds int) *folder.LocalNoise {
	c := &p.Config
	l := c.Privacy.Local
	if !l.On() || !c.Train {
		return nil
	}
	return &folder.LocalNoise{
		Clip:          l.Clip,
		Noise:         l.Noise,
		Delta:         c.Privacy.Delta,
		Epsilon:       privacy.LocalEpsilon(l.Noise, 1, c.Privacy.Delta),
		Rounds:        rounds,
		RoundsEpsilon: privacy.LocalEpsilon(l.Noise, rounds, c.Privacy.Delta),
		Simulated:     c.Clients > 0,
	}
}

// AboutLocalNoise returns sentences for the user with the epsilon that local noise guarantees after
// this number of rounds. It is empty in a run without local noise.
func (p *Data) AboutLocalNoise(rounds int) string {
	v := p.LocalNoise(rounds)
	if v == nil {
		return ""
	}
	text := fmt.Sprintf("Local noise: each update has epsilon %.4g at delta %g by itself, also towards the "+
		"coordinator, and those of a client that sends one in each of %d %s have %.4g together, with norm %g and "+
		"noise %g.",
		v.Epsilon, v.Delta, rounds, human.Plural(rounds, "round"), v.RoundsEpsilon, v.Clip, v.Noise)
	if v.Simulated {
		text += " The noise of simulated clients follows from the seed: it is for research."
	}
	return text
}
