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
		BatchFormula:    closing.RoundFormula(c.Schedule.Batch),
		Batch:           c.Batch,
		Epochs:          p.epochs(),
		Loss:            c.Schedule.FollowedLoss(),
		Window:          schedule.WindowConfig{Size: c.Schedule.Window, FirstRound: c.Schedule.F0 == config.FromFirst},
		Plateau:         schedule.PlateauConfig{Patience: c.Schedule.Patience, MinDelta: c.Schedule.MinDelta},
		Train:           c.Train,
		Evaluate:        metric.Timetable{Every: c.Evaluate.Every, Grid: int64(p.EvaluationInterval)},
		EvaluateClients: metric.Timetable{Every: c.Evaluate.Clients.Every, Rounds: c.Evaluate.Clients.Rounds},
		Metrics:         p.Metrics,
		Quality:         p.Quality,
		Stop:            p.limits(limit),
		Select:          c.Select,
		Overlap:         c.Overlap(),
		Holds:           c.HoldsClients(),
		Failed:          p.Policies.Err,
		SiteRounds:      c.Aggregate.SiteRounds,
		Devices:         roundDevices(c.Devices, c.DrawsDevices()),
		PrivateLosses:   c.PrivateLosses(),
	}
	// Evaluation by virtual time takes the place of evaluation by rounds.
	if p.EvaluationInterval > 0 {
		r.Evaluate.Every = 0
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
	// Clients that compute while updates are sent may take less.
	if closing.Overlaps(c.Close) && c.Overlap() == 0 && c.Schedule.Batch == "" {
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
	p.awaitSamples(&r)
	// Clients with a battery stop taking part once it is empty.
	if p.Fleet.Batteries() {
		r.Batteries = batteries{p.Fleet}
	}
	return r, p.shareServer(&r)
}

// limits returns what ends the run: the virtual time limit, 0 for none, and the configured numbers of
// rounds, updates, samples and tokens, targets of metrics and the budget of clients. The round machine
// counts local steps; the functions turn these into samples, tokens and what clients use.
func (p *Problem) limits(limit round.Time) round.Limits {
	s := &p.Config.Stop
	return round.Limits{
		Rounds:          s.Rounds,
		Time:            limit,
		Accepted:        s.Accepted,
		Targets:         p.Targets,
		Samples:         int64(s.Samples),
		Tokens:          int64(s.Tokens),
		TokensPerSample: p.Tokens(),
		SamplesPerStep:  p.StepSamples,
		Budget:          p.budget(),
		Uses:            p.uses(),
	}
}

// roundDevices returns what the round machine must know of the real devices of a configuration; the zero
// value if it has none. sampled says that devices are drawn into cohorts like simulated clients; otherwise
// every device takes part in every round.
func roundDevices(d config.Devices, sampled bool) round.Devices {
	n := len(d.Names)
	if n == 0 {
		return round.Devices{}
	}
	// A device that falls silent counts as lost after the shorter of the two limits.
	silenceSeconds := min(d.LivenessSeconds, d.TaskSeconds)
	return round.Devices{
		Count:    n,
		Sampled:  sampled,
		Liveness: round.Time(math.Round(silenceSeconds * 1e9)),
		// A device with a class has an expected duration of its own even before its first task.
		Modelled: func(device int) bool { return d.Names[device].Class != "" },
	}
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
// samples of a client, and the minibatch sizes of particular clients. Where schedules count local steps,
// nothing is converted: the result is then the zero value, which callers know by its Batch of 0.
func (p *Timing) epochs() schedule.Epochs {
	c := &p.Config
	if c.Schedule.Unit != config.Epochs {
		return schedule.Epochs{}
	}
	// The mean number of samples turns epochs into steps where no particular client is meant.
	total := 0
	for client := range c.Clients {
		total += p.Set.Samples(client)
	}
	return schedule.Epochs{
		Batch:     c.Batch,
		Samples:   float64(total) / float64(c.Clients),
		PerClient: p.Batch(),
	}
}

// InitialSteps returns K_0 in local steps. Where K counts epochs, these are the steps of a client
// with the mean number of samples.
func (p *Timing) InitialSteps() int {
	return p.Steps(p.Config.Schedule.Setup().K0)
}

// Steps returns for how many local steps a value k of the schedule of K stands. Where the schedule counts
// local steps, that is k itself. Where it counts parts of an epoch, it is the steps that a client with the
// mean number of samples takes.
func (p *Timing) Steps(k int) int {
	epochs := p.epochs()
	countsSteps := epochs.Batch == 0
	if countsSteps {
		return k
	}
	return epochs.Steps(k, epochs.Samples)
}

// shareServer sets in r what the round machine needs where transfers share the bandwidth of the server or
// of sites (such as base stations): for each shared link the work of one transfer (see package fairshare),
// the number of sites, and a function that says when clients leave.
func (p *Timing) shareServer(r *round.Config) error {
	n := p.Config.Network
	r.Server.Sites = n.Sites.Count
	for _, link := range []struct {
		// key names the link's rate in the configuration, mbps is that rate, bits the size of a transfer,
		// and work where the work of a transfer is written.
		key  string
		mbps float64
		bits int64
		work *fairshare.Work
	}{
		// The work of a transfer is its bits relative to the rate of the link that it shares.
		{"network.server_download_mbps", n.ServerDownloadMbps, p.Bits.Down, &r.Server.Download},
		{"network.server_upload_mbps", n.ServerUploadMbps, p.Bits.Up, &r.Server.Upload},
		{"network.sites.download_mbps", n.Sites.DownloadMbps, p.Bits.Down, &r.Server.SiteDownload},
		{"network.sites.upload_mbps", n.Sites.UploadMbps, p.Bits.Up, &r.Server.SiteUpload},
	} {
		// A rate of 0 means that this link is not shared.
		if link.mbps == 0 {
			continue
		}
		work, err := fairshare.Need(link.bits, link.mbps)
		if err != nil {
			return fmt.Errorf(
				"%s: %g Mbit/s are too few for a transfer of %g Mbit: it would take years",
				link.key,
				link.mbps,
				float64(link.bits)/1e6,
			)
		}
		*link.work = work
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

// expectedTasks says how long clients' tasks are expected to take. It keeps the mean duration of tasks of a
// class and a number of local steps, because that is asked for again for each device of the class.
type expectedTasks struct {
	timing     *Timing
	classMeans map[classSteps]round.Time
}

// classSteps is a class of the fleet, by its index, and the number of a task's local steps.
type classSteps struct{ class, steps int }

// expectations returns a function that says how long a client's task with a number of local steps is
// expected to take, in virtual time (see [expectedTasks.duration]).
func (p *Timing) expectations() func(client, steps int) round.Time {
	expected := &expectedTasks{timing: p, classMeans: map[classSteps]round.Time{}}
	return expected.duration
}

// duration returns how long a client's task is expected to take, in virtual time: for a simulated client by
// its own device, and for a real device by the mean of its class, or of all classes if it has none. It is
// round.MaxDuration, the longest duration of a task, if the task would take longer.
func (x *expectedTasks) duration(client, steps int) round.Time {
	p := x.timing
	// The numbers of simulated clients come first; real devices follow them.
	isSimulated := client < p.Config.Clients
	if isSimulated {
		d, err := p.Fleet.Expect(client, steps, p.Bits)
		if err != nil {
			return round.MaxDuration
		}
		return round.Time(d.Total())
	}
	key := classSteps{class: p.Fleet.DeviceClass(client), steps: steps}
	if mean, ok := x.classMeans[key]; ok {
		return mean
	}
	mean := round.MaxDuration
	if d, err := p.Fleet.MeanOf(key.class, steps, p.Bits); err == nil {
		mean = round.Time(d.Total())
	}
	x.classMeans[key] = mean
	return mean
}

// availableShare returns the share of the time from begin to end in which a client is available,
// from 0 to 1. begin must be before end. It looks at 64 changes between available and absent at most; if
// there are more, the share is that of the time up to the 64th.
func (p *Timing) availableShare(client int, begin, end round.Time) float64 {
	const maxChanges = 64
	var available round.Time
	now := begin
	for changes := 0; now < end && changes < maxChanges; changes++ {
		// Between two changes the client is either available all the time or not at all.
		next := min(end, round.Time(p.Fleet.NextChange(client, int64(now))))
		if p.Fleet.Available(client, int64(now)) {
			available += next - now
		}
		now = next
	}
	return float64(available) / float64(now-begin)
}

// nextChange returns the next time after now at which it is worth looking for a free client again. The round
// machine calls it when it found none, which mostly means that none is available at all. The result is when
// some simulated client becomes available or, if some are available now but busy, when any client becomes
// available or absent. It may be an earlier time, up to which nothing changes. false says that nothing
// changes any more.
func (p *Timing) nextChange(now round.Time) (round.Time, bool) {
	clients := p.Config.Clients
	next := p.Fleet.NextAny(clients, int64(now))
	someAvailableNow := next <= int64(now)
	if someAvailableNow {
		next = p.Fleet.NextAnyChange(clients, int64(now))
	}
	return round.Time(next), next != fleet.Never
}

// FixedRound returns the virtual time of one round of FedAvg with K fixed at K_0, where all rounds take the
// same time, which Eq. 3 of the paper gives. allEqual is false if rounds differ, because devices differ or
// because a rule of the configuration changes rounds; the duration is then 0.
func (p *Timing) FixedRound() (duration round.Time, allEqual bool) {
	c := &p.Config
	devicesDiffer := c.DevicesAlone() || !p.Fleet.Constant()
	_, closesByFormula := c.Close.(closing.PerRound)
	// Without an overlap all updates of equal clients arrive at the same time.
	closingVaries := closesByFormula || c.Close.Deadline() > 0 || closing.Overlaps(c.Close) || c.Overlap() > 0
	// Tasks of one round differ where samples decide the steps, or where clients share a link.
	tasksDiffer := c.Schedule.Unit == config.Epochs || c.Network.Shared()
	hasMoreMessages := c.Secure.On || registry.NeedsOf(c.Select).Candidates
	cohortVaries := c.Schedule.Cohort != "" || c.Schedule.Batch != ""
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
