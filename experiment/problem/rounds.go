package problem

import (
	"cmp"
	"fmt"
	"math"

	"fedpace/actors/external"
	"fedpace/actors/fleet"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/fairshare"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/registry"
)

// StepSamples returns how many samples one local step of a client takes: a minibatch, of the size
// that the client's class or the configuration says, or all of its samples if they are fewer.
func (p *Timing) StepSamples(client int) int {
	batch := p.Config.Batch
	if classBatch := p.Batch(); classBatch != nil {
		batch = cmp.Or(classBatch(client), batch)
	}
	// A client with fewer samples than a minibatch takes all of them. The samples of real devices
	// are not known.
	if p.Set != nil && client < p.Set.Clients() {
		batch = min(batch, p.Set.Samples(client))
	}
	return batch
}

// Tokens returns how many tokens a sample of the run has. It is 0 if samples have none, or if a
// trainer with data of its own does not say.
func (p *Timing) Tokens() int64 {
	if p.Set == nil {
		return 0
	}
	// A trainer with its own samples says itself how many tokens they have.
	if trainerSet, ok := p.Set.(*external.Owned); ok {
		return int64(trainerSet.Tokens())
	}
	// Every sample of a text has the same number of tokens, one for each feature.
	if samples := p.Set.Info().Samples; samples.Input == learn.Tokens {
		return int64(samples.Features)
	}
	return 0
}

// Rounds returns the configuration of the round machine for this problem: rules, schedules, limits,
// and the functions by which the machine asks how long tasks take and who is available. limit is
// the virtual time at which the run ends, 0 for none.
func (p *Problem) Rounds(limit round.Time) (r round.Config, err error) {
	c := p.Config
	// A limit of tokens could never be reached if samples have none.
	if c.Stop.Tokens > 0 && p.Tokens() == 0 {
		return r, &config.KeyError{
			Key:     "stop.tokens",
			Problem: "the run's samples have no tokens, or nobody says how many (set stop.samples)",
		}
	}
	r = round.Config{
		Seed:            c.Seed,
		Clients:         c.Clients,
		Cohort:          c.Cohort,
		CohortFormula:   closing.RoundFormula(c.Schedule.Cohort),
		Epochs:          p.epochs(),
		Loss:            c.Schedule.FollowedLoss(),
		Window:          schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == config.FromFirst},
		Plateau:         schedule.PlateauConfig{Patience: c.Schedule.Patience, MinDelta: c.Schedule.MinDelta},
		Train:           c.Train,
		Evaluate:        metric.Timetable{Every: c.Evaluate.Every, Grid: int64(p.Grid)},
		EvaluateClients: metric.Timetable{Every: c.Evaluate.Clients.Every, Rounds: c.Evaluate.Clients.Rounds},
		Metrics:         p.Metrics,
		Quality:         p.Quality,
		Stop: round.Limits{
			Rounds:          c.Stop.Rounds,
			Time:            limit,
			Accepted:        c.Stop.Accepted,
			Targets:         p.Targets,
			Samples:         int64(c.Stop.Samples),
			Tokens:          int64(c.Stop.Tokens),
			TokensPerSample: p.Tokens(),
			SamplesPerStep:  p.StepSamples,
			Budget:          p.budget(),
			Uses:            p.uses(),
		},
		Select:     c.Select,
		Overlap:    c.Overlap(),
		Failed:     p.Policies.Err,
		SiteRounds: c.Aggregate.SiteRounds,
	}
	// Evaluation by virtual time takes the place of evaluation by rounds.
	if p.Grid > 0 {
		r.Evaluate.Every = 0
	}
	// A device that falls silent counts as lost after the shorter of the two limits, here in
	// nanoseconds.
	if n := len(c.Devices.Names); n > 0 {
		r.Devices = round.Devices{
			Count:    n,
			Sampled:  c.DrawsDevices(),
			Liveness: round.Time(math.Round(min(c.Devices.LivenessSeconds, c.Devices.TaskSeconds) * 1e9)),
		}
		// A device with a class has an expected duration of its own even before its first task.
		r.Devices.Modelled = func(device int) bool { return c.Devices.Names[device].Class != "" }
	}
	// Schedules know K_0, eta_0 and, for some of them, the constants of the theory.
	r.Setup = c.Schedule.Setup()
	r.K = c.Schedule.K
	r.Eta = c.Schedule.Eta
	// The schedule of Eq. 9 needs the constants of the theory, which settleTheory has calculated.
	if c.UsesTheory() {
		r.Setup.Theory, err = p.theory(limit)
		if err != nil {
			return r, err
		}
	}
	r.Closing = c.Close
	r.Late = c.Late
	r.Secure = p.secureRounds()
	r.Expect = p.expectations()
	if p.Set != nil {
		r.Samples = func(client int) int {
			// The number stands for a real device, whose samples are its own and not known here.
			if client >= p.Set.Clients() {
				return 1
			}
			return p.Set.Samples(client)
		}
	}
	// Soonest is a lower bound on the duration of any task, which rounds that overlap make use of.
	if closing.Overlaps(c.Close) {
		r.Soonest = round.Time(p.Fleet.Soonest(p.Bits))
	}
	// The fleet decides nothing about real devices.
	if c.DevicesAlone() {
		return r, nil
	}
	// Where every client is always available, the round need not ask for it.
	if c.EverAbsent() {
		r.Available = func(client int, t round.Time) bool { return p.Fleet.Available(client, int64(t)) }
		r.NextChange = p.nextChange
		r.AvailableShare = p.availableShare
	}
	// Clients with a battery stop taking part once it is empty.
	if p.Fleet.Batteries() {
		r.Batteries = batteries{p.Fleet}
	}
	return r, p.shareServer(&r)
}

// EvaluationSamples returns on how many of its own samples a client is evaluated: all of them, or
// at most the limit in the configuration.
func (p *Data) EvaluationSamples(client int) int {
	n := p.Set.Samples(client)
	// A limit of 0 means that the client is evaluated on all its samples.
	if limit := p.Config.Evaluate.Clients.Samples; limit > 0 {
		n = min(n, limit)
	}
	return n
}

// epochs returns how epochs become local steps: the size of a minibatch, the mean number of
// samples, and the minibatches of particular clients. It is the zero value if K counts local steps.
func (p *Timing) epochs() (e schedule.Epochs) {
	c := &p.Config
	if c.Schedule.Unit != config.Epochs {
		return e
	}
	// The mean number of samples turns epochs into steps where no particular client is meant.
	all := 0
	for client := range c.Clients {
		all += p.Set.Samples(client)
	}
	return schedule.Epochs{Batch: c.Batch, Samples: float64(all) / float64(c.Clients), PerClient: p.Batch()}
}

// InitialSteps returns K_0 in local steps. Where K counts epochs, these are the steps of a client
// with the mean number of samples.
func (p *Timing) InitialSteps() int {
	return p.Steps(p.Config.Schedule.Setup().K0)
}

// Steps turns a value of a schedule of K, k, into local steps. Where K counts epochs, these are the
// steps of a client with the mean number of samples.
func (p *Timing) Steps(k int) int {
	if e := p.epochs(); e.Batch > 0 {
		return e.Steps(k, e.Samples)
	}
	return k
}

// shareServer sets in a round's configuration what the sharing of bandwidth needs: for each shared link of the
// server and of sites the work of one transfer (see package fairshare), the number of sites, and when clients
// leave.
func (p *Timing) shareServer(r *round.Config) error {
	n := p.Config.Network
	r.Server.Sites = n.Sites.Count
	for _, way := range []struct {
		key  string
		mbps float64
		bits int64
		need *fairshare.Work
	}{
		// The work of a transfer is its bits relative to the rate of the link that it shares.
		{"network.server_download_mbps", n.ServerDownloadMbps, p.Bits.Down, &r.Server.Download},
		{"network.server_upload_mbps", n.ServerUploadMbps, p.Bits.Up, &r.Server.Upload},
		{"network.sites.download_mbps", n.Sites.DownloadMbps, p.Bits.Down, &r.Server.SiteDownload},
		{"network.sites.upload_mbps", n.Sites.UploadMbps, p.Bits.Up, &r.Server.SiteUpload},
	} {
		// A rate of 0 means that this link is not shared.
		if way.mbps == 0 {
			continue
		}
		need, err := fairshare.Need(way.bits, way.mbps)
		if err != nil {
			return fmt.Errorf(
				"%s: %g Mbit/s are too few for a transfer of %g Mbit: it would take years",
				way.key,
				way.mbps,
				float64(way.bits)/1e6,
			)
		}
		*way.need = need
	}
	// A client that leaves gives its share of the bandwidth back to the others.
	if n.Shared() && p.Config.EverAbsent() {
		r.Leaves = func(client int, t round.Time) (round.Time, bool) {
			departure, ok := p.Fleet.Leaves(client, int64(t))
			return round.Time(departure), ok
		}
	}
	return nil
}

// expectations returns a function that says how long a client's task of some local steps is
// expected to take, in virtual time: for a simulated client by its own device, and for a real one
// by the mean of its class, or of all classes if it has none.
func (p *Timing) expectations() func(client, steps int) round.Time {
	type classSteps struct{ class, steps int }
	classMeans := map[classSteps]round.Time{}
	return func(client, steps int) round.Time {
		// The numbers of simulated clients come first; real devices follow them.
		if client < p.Config.Clients {
			d, err := p.Fleet.Expect(client, steps, p.Bits)
			if err != nil {
				// The task would take longer than any round waits.
				return round.MaxDuration
			}
			return round.Time(d.Total())
		}
		// The mean of a class is asked for again for each of its devices, so it is kept.
		key := classSteps{p.Fleet.DeviceClass(client), steps}
		if _, ok := classMeans[key]; !ok {
			// Where the class has no mean, the task counts as longer than any round waits.
			classMeans[key] = round.MaxDuration
			if d, err := p.Fleet.MeanOf(key.class, steps, p.Bits); err == nil {
				classMeans[key] = round.Time(d.Total())
			}
		}
		return classMeans[key]
	}
}

// availableShare returns the share of the time from begin to end in which a client is available,
// from 0 to 1. begin must be before end. It looks at 64 changes at most: the share is then that of the time
// up to the last of them.
func (p *Timing) availableShare(client int, begin, end round.Time) float64 {
	var available round.Time
	now := begin
	for changes := 0; now < end && changes < 64; changes++ {
		// Between two changes the client is either available all the time or not at all.
		next := min(end, round.Time(p.Fleet.NextChange(client, int64(now))))
		if p.Fleet.Available(client, int64(now)) {
			available += next - now
		}
		now = next
	}
	return float64(available) / float64(now-begin)
}

// nextChange returns the next time after t at which some simulated client becomes available or, if some are
// available at t, at which any becomes available or absent. It may return an earlier time up to which
// nothing changes. The result false says that nothing changes any more. The machine asks if it found no free
// client, which mostly means that none is available at all.
func (p *Timing) nextChange(t round.Time) (round.Time, bool) {
	clients := p.Config.Clients
	next := p.Fleet.NextAny(clients, int64(t))
	// If a client is available at t already, the next change of any client is meant.
	if next <= int64(t) {
		next = p.Fleet.NextAnyChange(clients, int64(t))
	}
	return round.Time(next), next != fleet.Never
}

// FixedRound returns the virtual time of one round of fixed K, by Eq. 3 with K_0. allEqual is false if
// rounds differ, because of the clients' devices or because a rule changes rounds; the duration is
// then 0.
func (p *Timing) FixedRound() (duration round.Time, allEqual bool) {
	c := &p.Config
	devicesDiffer := c.DevicesAlone() || !p.Fleet.Constant()
	_, closesByFormula := c.Close.(closing.PerRound)
	// Without an overlap all updates of equal clients arrive at the same time.
	closingVaries := closesByFormula || c.Close.Deadline() > 0 || closing.Overlaps(c.Close) || c.Overlap() > 0
	// Tasks of one round differ where samples decide the steps, or where clients share a link.
	tasksDiffer := c.Schedule.Unit == config.Epochs || c.Network.Shared()
	hasMoreMessages := c.Secure.On || registry.NeedsOf(c.Select).Candidates
	cohortVaries := c.Schedule.Cohort != ""
	if devicesDiffer || closingVaries || cohortVaries || tasksDiffer || hasMoreMessages {
		return 0, false
	}
	duration, err := p.MeanRound(c.Schedule.K0)
	return duration, err == nil
}

// MeanRound returns the virtual time of a round with k local steps on devices that all have the
// mean speed: download, computing and upload.
func (p *Timing) MeanRound(k int) (round.Time, error) {
	d, err := p.Fleet.Mean(k, p.Bits)
	return round.Time(d.Download + d.Compute + d.Upload), err
}
