package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fedpace/bus/admission"
	"fedpace/bus/embedded"
	"fedpace/coordinator"
	"fedpace/coordinator/realdevices"
	"fedpace/coordinator/round"
	"fedpace/data/federated"
	"fedpace/experiment/checkpoint"
	"fedpace/experiment/devicelog"
	"fedpace/experiment/folder"
	"fedpace/experiment/forecast"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// progressEvery is how often progress is reported, in wall time.
const progressEvery = 100 * time.Millisecond

// maxEmptyRounds is how many rounds in a row without an update pass before the user hears of it:
// a run that stops at a number of updates would go on for ever.
const maxEmptyRounds = 1000

// recorder follows a run on behalf of its outputs: it hands them what the coordinator reports,
// keeps the values that the summary needs and that nobody else knows, and reports progress.
//
// Its methods are called by the coordinator, all from the run's goroutine, and so need no lock.
// The exceptions are stats, deviceStates and remainingTime, which pages and scrapes call from others;
// what they read is atomic or behind the lock of remaining.
type recorder struct {
	// p is the experiment that the recorder follows.
	p *experiment
	// outputs are the run's outputs, which write its files and serve its pages.
	outputs *metrics.Recorder
	// results is the folder that the run writes to; it is set before the first report.
	results *folder.Results
	// started is when the run began, moved back by the wall time of earlier attempts.
	started time.Time
	// pause stops the run cleanly, for Options.Until.
	pause func()
	// lastProgress is when progress was reported last.
	lastProgress time.Time

	// server is the run's own NATS server; it is nil where the run has none.
	server *embedded.Embedded
	// reported is what the coordinator reported last; it is nil before the first event.
	reported atomic.Pointer[coordinator.Stats]
	// checkpoint is when the last checkpoint was written; it is nil before the first.
	checkpoint atomic.Pointer[time.Time]
	// due is when the next checkpoint is to be written. It is never nil once reported is set.
	due atomic.Pointer[time.Time]
	// workers is the number of trainers in this process.
	workers int
	// checkpointFailures counts the checkpoints that could not be written.
	checkpointFailures atomic.Int64

	remaining struct {
		sync.Mutex
		*forecast.Remaining
		// lastRoundEnd is the wall time at which the last round ended or, before that, at which this attempt's first
		// round began.
		lastRoundEnd time.Time
		// trainingBegan is when the training of clients began; it is zero while no client is being
		// trained.
		trainingBegan time.Time
		// trainedSeconds is for how much wall time of this round clients were being trained.
		trainedSeconds float64
	}

	// emptyRounds counts the rounds in a row, up to the last, that brought no update.
	emptyRounds int
	// warnedTooFew says that the user knows of a round with too few updates for the combining rule.
	warnedTooFew bool
	// qualities are the measures of the model that the summary shows, in its order.
	qualities []metric.Quality
	// progress is what the caller is shown; its values are brought up to date before each call.
	progress Progress
	// saved holds the values of the summary that a checkpoint has to keep.
	saved checkpoint.Summary
}

// newRecorder opens the outputs of a run, which write nothing before start. waiting says what the
// coordinator waits for a server to do, and since when; it may be nil. limit is the virtual time at
// which the run ends, 0 for none. started is when this attempt began. Close the outputs after use.
func newRecorder(
	ctx context.Context,
	p *experiment,
	waiting func() (string, time.Time),
	limit round.Time,
	started time.Time,
) (*recorder, error) {
	// A value that has not been measured is NaN.
	nan := math.NaN()
	r := &recorder{
		p:         p,
		started:   started,
		qualities: metric.Shown(p.Metrics, p.Quality),
		saved: checkpoint.Summary{
			Last:    round.Report{TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan},
			Reached: nan, BestLoss: nan,
		},
		progress: Progress{
			Schedule:     p.Config.Schedule.Name(),
			Quality:      p.Quality,
			Rounds:       p.Config.Stop.Rounds,
			VirtualTotal: limit.Seconds(),
		},
	}
	for range r.qualities {
		r.saved.Best = append(r.saved.Best, nan)
	}
	remaining, err := forecast.NewRemaining(ctx, &p.Problem, limit)
	if err != nil {
		return nil, err
	}
	r.remaining.Remaining = remaining
	r.remaining.lastRoundEnd = time.Now()
	about := p.about(limit, started)
	// Outputs ask for these values while the run goes on, from other goroutines.
	about.Remaining = r.remainingTime
	about.Stats = r.stats
	about.Seen = r.deviceStates
	about.Waiting = waiting
	sinks, err := p.sinks()
	if err != nil {
		return nil, err
	}
	r.outputs, err = metrics.Open(about, sinks)
	return r, err
}

// remainingTime returns the wall time in seconds until the run is expected to end, with the bounds of
// its 90 % interval. ok is false where nothing is known yet. The forecast holds for the end of the last
// round, so the time since then is subtracted. It is safe for concurrent use.
func (r *recorder) remainingTime() (seconds, low, high float64, ok bool) {
	r.remaining.Lock()
	defer r.remaining.Unlock()
	v, ok := r.remaining.WallTime()
	passed := time.Since(r.remaining.lastRoundEnd).Seconds()
	return max(0, v.P50-passed), max(0, v.P05-passed), max(0, v.P95-passed), ok
}

// roundsBegin is called when the first round begins. Until then real devices may have been waited
// for, which is no part of a round's time.
func (r *recorder) roundsBegin() {
	r.remaining.Lock()
	defer r.remaining.Unlock()
	r.remaining.lastRoundEnd = time.Now()
}

// timeRound adds the wall time of a round that ends now, and the part of it in which clients were
// trained, to what the forecast of the remaining time is based on.
func (r *recorder) timeRound(report *round.Report) {
	r.remaining.Lock()
	defer r.remaining.Unlock()
	now := time.Now()
	r.remaining.Round(report, now.Sub(r.remaining.lastRoundEnd).Seconds(), r.remaining.trainedSeconds)
	r.remaining.lastRoundEnd = now
	r.remaining.trainedSeconds = 0
}

// trainingProgress is called by the coordinator during a round each time that some more of its clients have
// been trained: done of total so far, and with done = 0 when training begins. It measures how long training
// takes, for the forecast of the remaining time, and shows progress at most every progressEvery.
func (r *recorder) trainingProgress(done, total int) {
	r.remaining.Lock()
	now := time.Now()
	switch done {
	case 0:
		r.remaining.trainingBegan = now
	case total:
		r.remaining.trainedSeconds += now.Sub(r.remaining.trainingBegan).Seconds()
		r.remaining.trainingBegan = time.Time{}
	}
	r.remaining.Unlock()
	r.progress.Trained = done
	r.progress.Clients = total
	if time.Since(r.lastProgress) >= progressEvery {
		r.showProgress()
	}
}

// stats returns how well the run keeps up with its clock, its messages and its checkpoints, and the
// counts of its embedded server, for the run's page and metrics. ok is false before the coordinator has
// begun. It is safe for concurrent use.
func (r *recorder) stats() (s metrics.Stats, ok bool) {
	reported := r.reported.Load()
	if reported == nil {
		return s, false
	}
	s = metrics.Stats{
		PacingLag:          reported.Pacer.Lag(),
		BusLag:             reported.BusLag(),
		Pending:            reported.Pending(),
		Ignored:            reported.Ignored(),
		CheckpointFailures: r.checkpointFailures.Load(),
		Due:                *r.due.Load(),
		Devices:            deviceStats(reported.Devices.Stats()),
	}
	// Hosts in other processes have reported how many trainers they have.
	_, remoteTrainers := reported.Hosts()
	s.Workers = r.workers + remoteTrainers
	if written := r.checkpoint.Load(); written != nil {
		s.Checkpoint = *written
	}
	// The admissions and the traffic are known of an embedded server alone.
	if r.server != nil {
		s.Server = admissionStats(r.server.Front())
		s.NATS = natsStats(r.server)
	}
	return s, true
}

// admissionStats returns how many connections the front of an embedded server has admitted, and how many it
// has closed for which reason. It is nil for a server that does not listen, which has no front.
func admissionStats(front *admission.Front) *metrics.ServerStats {
	if front == nil {
		return nil
	}
	now := front.Stats()
	closed := map[string]int64{}
	for reason, n := range now.Closed {
		closed[admission.Reason(reason).String()] = n
	}
	return &metrics.ServerStats{
		Admitted: now.Admitted,
		Waiting:  now.Waiting,
		Pending:  now.Pending,
		Closed:   closed,
	}
}

// natsStats returns the traffic, connections and stored bytes of an embedded NATS server; nil if it does not
// tell them.
func natsStats(server *embedded.Embedded) *metrics.NATSStats {
	v, err := server.Varz()
	if err != nil {
		return nil
	}
	s := &metrics.NATSStats{
		Traffic: metrics.Traffic{
			InMessages:  float64(v.InMsgs),
			OutMessages: float64(v.OutMsgs),
			InBytes:     float64(v.InBytes),
			OutBytes:    float64(v.OutBytes),
		},
		Connections:   float64(v.Connections),
		Subscriptions: float64(v.Subscriptions),
		SlowConsumers: float64(v.SlowConsumers),
	}
	// The store of messages is counted over memory and disk.
	if stored := v.JetStream.Stats; stored != nil {
		s.Stored = float64(stored.Memory + stored.Store)
	}
	return s
}

// deviceStats returns the counts of the run's real devices in the form in which outputs show them, of which
// [metrics.DeviceStats] says what each counts.
func deviceStats(s realdevices.Stats) metrics.DeviceStats {
	return metrics.DeviceStats{
		Present:    s.Present,
		Silent:     s.Silent,
		Heartbeats: s.Heartbeats,
		Refused:    s.Refused,
		Oldest:     s.Oldest,
		Banned:     s.Banned,
		Returns:    s.Returns,
		Held:       s.Held,
	}
}

// deviceStates returns the state of each real device as outputs show it; nil before the coordinator has begun.
// It is safe for concurrent use.
func (r *recorder) deviceStates() []metrics.Device {
	reported := r.reported.Load()
	if reported == nil {
		return nil
	}
	each := reported.Devices.Stats().Each
	list := make([]metrics.Device, len(each))
	for i, d := range each {
		list[i] = metrics.Device(d)
	}
	return list
}

// start opens the files of the outputs in a folder, and returns the state from which the
// coordinator continues; nil where the run starts from its beginning. In a run that is resumed the
// outputs continue where the checkpoint of the previous attempt was, and so do the recorder's own
// values and the wall time.
func (r *recorder) start(results *folder.Results, previous attempt) (*coordinator.State, error) {
	r.results = results
	start := &metrics.Start{Folder: results, Rounds: r.p.roundsSoFar(results.Path(""))}
	c := previous.checkpoint
	if c == nil {
		return nil, r.outputs.Start(start, nil)
	}
	// The start is moved back by the earlier wall time, so that all attempts count together.
	start.Elapsed = c.Body.Recorder.Elapsed
	r.started = r.started.Add(-start.Elapsed)
	r.saved = c.Body.Recorder.Summary
	start.Last = &metrics.Round{Report: r.saved.Last}
	start.Clients = r.saved.Clients
	r.remaining.Resumed(&r.saved.Last)
	return &c.State, r.outputs.Start(start, &c.Body.Recorder.Outputs)
}

// deviceLog returns the log that the answers of the run's real devices are written to or, where another
// run is replayed, read from; nil where the run has no real devices.
func (r *recorder) deviceLog() (*devicelog.Log, error) {
	switch replay := r.p.options.Replay; {
	case len(r.p.Config.Devices.Names) > 0 && replay != "":
		return devicelog.Open(replay)
	case len(r.p.Config.Devices.Names) > 0:
		// The log is one of the outputs, so that its file is covered by the checkpoints.
		log := metrics.Outputs[*devicelog.Log](r.outputs)[0]
		log.Keep = r.p.Config.Devices.KeepUpdates
		return log, nil
	case replay != "":
		return nil, fmt.Errorf(
			"%s: the run there has no real devices: run its %s again instead",
			replay,
			folder.ConfigFile,
		)
	}
	return nil, nil
}

// showProgress calls the caller's Progress, if there is one, with the last complete round and how far
// the round under way has come.
func (r *recorder) showProgress() {
	if r.p.options.Progress != nil {
		r.lastProgress = time.Now()
		r.progress.Report = r.saved.Last
		r.progress.Elapsed = r.lastProgress.Sub(r.started)
		if seconds, _, _, ok := r.remainingTime(); ok {
			r.progress.Remaining = time.Duration(seconds * 1e9)
		}
		r.progress.InRound = r.lastProgress.Sub(r.remaining.lastRoundEnd)
		r.p.options.Progress(r.progress)
	}
}

// report takes the report of one round. It updates what the summary needs, warns of rounds that
// bring no update or too few for the combining rule, and hands the round to the outputs. An error,
// such as that of a full disk, ends the run.
func (r *recorder) report(report *round.Report) error {
	r.timeRound(report)
	r.progress.Trained = 0
	r.progress.Clients = 0
	r.saved.Last = metrics.Latest(&r.saved.Last, report)
	r.saved.BestLoss = lowest(r.saved.BestLoss, report.WindowLoss)
	updates := report.Outcomes[round.Accepted]
	r.emptyRounds++
	if updates > 0 {
		r.emptyRounds = 0
	}
	// It is == and not >=, so that the user is told only once in a row of empty rounds.
	if r.emptyRounds == maxEmptyRounds {
		r.p.options.Notify(fmt.Sprintf(
			"No update has counted for %d rounds: a run that stops at a number of updates would never end (%s).",
			r.emptyRounds,
			forecast.MoreUpdates,
		))
	}
	// A robust rule needs a minimum number of updates, so the user hears of the first round with fewer.
	if updates > 0 && !r.warnedTooFew && r.p.Config.Train {
		if err := r.p.Config.CheckUpdates(updates); err != nil {
			r.warnedTooFew = true
			r.p.options.Notify(fmt.Sprintf("Round %d is not protected: %v. This is told once.", report.Round, err))
		}
	}
	// Only a round with an evaluation can reach the target or improve the best values.
	if report.Evaluated {
		r.noteBest(report.ValidationLoss, report.Metrics, report.End)
	}
	if time.Since(r.lastProgress) >= progressEvery {
		r.showProgress()
	}
	// The caller's time limit stops the run like an interruption, at the end of a round.
	if until := r.p.options.Until; until > 0 && report.End.Seconds() >= until {
		r.pause()
	}
	if f := r.p.options.Round; f != nil {
		f(report)
	}
	return r.outputs.Round(report)
}

// lowest returns the lower of the lowest loss so far and a new one. Either may be NaN, which stands for none:
// before the first loss, and after as many rounds without any update as the window holds.
func lowest(soFar, loss float64) float64 {
	if math.IsNaN(soFar) || loss < soFar {
		return loss
	}
	return soFar
}

// noteBest compares an evaluation with the best values so far of all qualities that the summary shows, and notes
// when the target was first reached by the one by which models are compared, r.p.Quality. loss is the validation
// loss, values are the run's metrics in their order, and at is the virtual time.
func (r *recorder) noteBest(loss float64, values []float64, at round.Time) {
	for i, q := range r.qualities {
		if now := q.ValueIn(loss, values); q.Better(now, r.saved.Best[i]) {
			r.saved.Best[i] = now
		}
	}
	target, hasTarget := r.p.Target()
	// The first time at which the target was reached stays.
	if !hasTarget || !math.IsNaN(r.saved.Reached) {
		return
	}
	if q := r.p.Quality; q.Reaches(q.ValueIn(loss, values), target) {
		r.saved.Reached = at.Seconds()
	}
}

// restarts returns how many of the trainer's processes died, over all attempts.
func (r *recorder) restarts() int64 {
	if r.p.Trainer == nil {
		return 0
	}
	return r.saved.Restarts + r.p.Trainer.Restarts()
}

// clients takes the scores of the model after round number on the clients' own samples, one score
// for each client. It hands them to the outputs and keeps the totals for the summary.
func (r *recorder) clients(number int, scores []metric.ClientScore) error {
	e, err := r.outputs.Clients(number, scores)
	// The scores of each client are dropped: the summary and the checkpoints need the totals alone.
	last := *e
	last.Scores = nil
	r.saved.Clients = &last
	return err
}

// summary gathers what summary.json says of a run that has ended: the coordinator's result, the
// costs that the outputs have added up, and the recorder's own values. A value that does not exist
// is a nil pointer.
func (r *recorder) summary(result *coordinator.Result) folder.Summary {
	c := &r.p.Config
	stop := &result.Stop
	last := &r.saved.Last
	s := folder.Summary{
		Task:             string(c.Task),
		Schedule:         c.Schedule.Name(),
		Seed:             c.Seed,
		Completed:        result.Completed,
		Rounds:           stop.Rounds,
		VirtualSeconds:   stop.EndTime.Seconds(),
		WallSeconds:      time.Since(r.started).Seconds(),
		SGDSteps:         last.SGDSteps,
		RelativeSGDSteps: metrics.Measured(r.p.relativeSteps(last.SGDSteps, stop)),
		Fingerprint:      fmt.Sprintf("%016x", result.Fingerprint),
		Kernel:           r.p.Kernel,
		Bus:              r.p.carrier(),
		Version:          r.p.options.Version,
		Forked:           r.saved.Forked,
		Attackers:        r.p.AttackerCounts(),
		Inputs:           r.p.Files,
		LocalNoise:       r.p.LocalNoise(stop.Rounds),
		DistributedNoise: r.p.DistributedNoise(stop.Rounds),
	}
	if c.Train {
		about := describe(r.p.Set.Info())
		s.Data = &about
	}
	if r.p.Set != nil {
		s.DataDigest = r.p.Set.Info().Digest
		s.DataSource = r.p.Set.Info().Source
	}
	if r.p.Trainer != nil {
		s.Trainer = &folder.Trainer{Model: r.p.Model.String(), Restarts: r.restarts()}
	}
	if v := r.p.Privacy; v != nil {
		s.Privacy = v.Summary(stop.Rounds)
	}
	if r.p.Tokens() > 0 {
		// The value is copied: a pointer into the recorder would keep the whole run in memory.
		s.Tokens = new(last.Tokens)
	}
	r.summarizeUse(&s, result)
	r.summarizeQuality(&s, stop)
	r.summarizeDevices(&s, result.Devices)
	// A run that was only timed has no model.
	if result.Params != nil {
		digest := folder.ModelSHA256(result.Params)
		s.ModelSHA256 = &digest
	}
	return s
}

// summarizeUse sets what the clients have used, as the outputs have added it up, and how their tasks
// ended.
func (r *recorder) summarizeUse(s *folder.Summary, result *coordinator.Result) {
	usage := r.outputs.Usage(result.Completed)
	s.ClientSeconds = metrics.Seconds(usage.Time)
	s.ClientSteps = usage.Steps
	s.Bytes = usage.Bytes
	s.StragglerShare = metrics.Measured(usage.StragglerShare())
	s.LeftOut = usage.LeftOut
	if r.p.Power().Watts != nil {
		s.EnergyJoules = &usage.Joules
	}
	if grid := &r.p.Config.Carbon; grid.File != "" {
		used := result.Stop.Used
		s.CarbonGrams = &used.Grams
		if grid.Names().Price != "" {
			s.EnergyCost = &used.Cost
		}
	}
	for outcome, count := range result.Stop.Outcomes {
		s.Outcomes[outcome] = int64(count)
	}
}

// summarizeQuality sets how good the final model and the best one are: the losses, the metrics, and
// when the target was reached.
func (r *recorder) summarizeQuality(s *folder.Summary, stop *round.Stop) {
	loss := math.NaN()
	// The final model counts for the best values, too, so it is noted before these are read.
	if stop.Evaluated {
		loss = stop.ValidationLoss
		r.noteBest(loss, stop.Metrics, stop.EndTime)
	}
	s.TimeToTarget = metrics.Measured(r.saved.Reached)
	s.TrainingLoss = metrics.Measured(r.saved.Last.WindowLoss)
	s.BestTrainingLoss = metrics.Measured(r.saved.BestLoss)
	s.ValidationLoss = metrics.Measured(loss)
	for i, q := range r.qualities {
		final := metrics.Measured(q.ValueIn(loss, stop.Metrics))
		best := metrics.Measured(r.saved.Best[i])
		// The accuracy has fields of its own, besides its entry among the metrics.
		if q.Name == metric.Accuracy {
			s.ValidationAccuracy = final
			s.BestValidationAccuracy = best
		}
		if r.p.Config.Train {
			s.Metrics = append(s.Metrics, folder.Metric{
				Name:       q.Name,
				Better:     q.Direction(),
				Validation: final,
				Best:       best,
			})
		}
	}
	s.ClientEvaluation = folder.EvaluationByClient(r.p.Metrics, r.saved.Clients)
}

// summarizeDevices sets what became of the run's real devices, by their names: which never joined, their
// versions, which were banned or corrected, and how many came back.
func (r *recorder) summarizeDevices(s *folder.Summary, devices realdevices.Findings) {
	c := &r.p.Config
	s.DevicesMissing = metrics.NeverJoined(r.deviceStates())
	s.DeviceVersions = metrics.ByVersion(r.deviceStates())
	// The numbers of real devices follow those of the simulated clients.
	device := func(client int) string { return c.Devices.Names[client-c.Clients].ID }
	for _, b := range devices.Bans {
		s.Banned = append(
			s.Banned,
			folder.Ban{Device: device(b.Client), Reason: b.Reason, Seconds: float64(b.For) / 1e9},
		)
	}
	s.Returns = devices.Returns
	for _, correction := range devices.Corrections {
		s.Corrected = append(s.Corrected, folder.Correction{
			Device:   device(correction.Client),
			Claim:    correction.Claim,
			Times:    correction.Times,
			Reported: correction.Told,
			Counted:  correction.Counted,
		})
	}
}

// finish ends the outputs and writes the summary s last: a folder that has one is whole. failure is
// the error that stopped the run early; it is nil for a run that is complete.
func (r *recorder) finish(result *coordinator.Result, s *folder.Summary, failure error) error {
	r.progress.Done = result.Completed
	r.showProgress()
	text, err := s.JSON()
	if err != nil {
		return err
	}
	end := &metrics.End{
		Completed:      s.Completed,
		Err:            failure,
		Elapsed:        wall(s.WallSeconds),
		Summary:        text,
		Params:         result.Params,
		Evaluated:      result.Stop.Evaluated,
		ValidationLoss: result.Stop.ValidationLoss,
		Metrics:        result.Stop.Metrics,
	}
	// The summary is written only if all outputs have written everything.
	if err := errors.Join(r.outputs.Flush(), r.outputs.Finish(end)); err != nil {
		return err
	}
	return r.results.Summary(s)
}

// describe names a data set for reports. Made data, and real samples in a made grouping, are called
// synthetic, and classes that have names are named.
func describe(info federated.Info) string {
	name := info.Name
	if info.Synthetic && !strings.Contains(name, "synthetic") {
		name += ", synthetic"
	}
	if info.Synthetic && info.Note != "" {
		name += ": " + info.Note
	}
	if classes := info.ClassNames(); classes != "" {
		name += "; classes " + classes
	}
	return name
}

// Progress says where a run stands, for those who watch it. Nothing in it decides anything.
type Progress struct {
	// Schedule is the name of the schedule, as in schedule.Names; it tells a comparison's runs
	// apart.
	Schedule string

	// Report is of the last complete round, with the values measured last; those not measured are
	// NaN.
	round.Report
	// Quality is the measure by which models are compared.
	Quality metric.Quality
	// Rounds is the number of rounds in all; 0 means that it is not known.
	Rounds int
	// VirtualTotal is the virtual time in seconds at which the run stops; 0 means that it is not
	// known.
	VirtualTotal float64

	// Elapsed is the wall time since the run's start.
	Elapsed time.Duration
	// Remaining is the wall time to expect until the end; 0 means that it cannot be said yet.
	Remaining time.Duration
	// Done says that the run is complete.
	Done bool

	// InRound is the wall time since the round under way began.
	InRound time.Duration
	// Trained is how many of the round's Clients have been trained. Both are 0 while no client is
	// trained.
	Trained, Clients int
}

// Fraction returns the share of the run that is done, as [metrics.Run.Fraction]. It is 1 for a run that
// is complete, wherever it ended.
func (p Progress) Fraction() float64 {
	if p.Done {
		return 1
	}
	total := metrics.Run{Rounds: p.Rounds, VirtualSeconds: p.VirtualTotal}
	return total.Fraction(p.Round, p.End.Seconds())
}
