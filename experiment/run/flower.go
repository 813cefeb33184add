package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpace/actors/fleet"
	"fedpace/actors/flower"
	"fedpace/config"
	"fedpace/coordinator/round"
	"fedpace/experiment/folder"
	"fedpace/experiment/grid"
	"fedpace/experiment/identity"
	"fedpace/experiment/problem"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/metrics/outputs"
	"fedpace/metrics/prometheus"
	"fedpace/metrics/web"
)

// maxUnmeasured is how many rounds are kept until one of them has a validation: the columns of
// rounds.csv are those of the scores that the app's strategy has computed by then.
const maxUnmeasured = 10

// flowerRun is a run that plays a Flower app: package grid reports its messages and rounds, and
// flowerRun hands them to the same outputs as any other run.
type flowerRun struct {
	// config is what the user asked for. open puts the metric by which models are compared into it.
	config  config.Config
	options Options
	// fleet has the laws of the simulated devices, results is the folder of the run's files, and
	// started is when the run began, in wall time.
	fleet   *fleet.Fleet
	results *folder.Results
	started time.Time
	// inputs are the files that the configuration names, among them the code of the app, as they were at the start.
	inputs []folder.InputFile
	// notices hands each line for the user to the outputs as well, once they are open.
	notices *noticeBuffer

	// outputs are the run's outputs; nil until its scores are known. waiting are the messages and rounds until
	// then, each a *grid.Task or a *grid.Round, in order, and rounds is the number of rounds among them.
	outputs *metrics.Recorder
	waiting []any
	rounds  int
	// server serves the pages of the run; nil if the configuration has no HTTP address.
	server *web.Server
	// scores says which scores of the app are which values, quality is the one by which models are
	// compared, and metrics are all metrics of validation. They are known once the outputs are
	// open.
	scores  scores
	quality metric.Quality
	metrics []metric.Metric

	// The following are for the summary.

	// last is the latest round, with values of earlier rounds where it has measured none.
	last round.Report
	// losses are the training losses of the last rounds, at most schedule.window of them.
	losses []float64
	// best has the best value so far of each of qualities, NaN for one without a value.
	best []float64
	// targetReached is the virtual time in seconds at which the target was reached; NaN: not yet.
	targetReached float64
	// bytes are what accepted messages (useful) and all others (wasted) have transferred.
	bytes metrics.Split[int64]

	// clientValues has for each column, by its name, the value that each client reported last, by the
	// client's number.
	clientValues map[string]map[int]float64

	// qualities are the measures of a model that the summary shows, each with its better direction.
	qualities []metric.Quality
	// bestLoss is the smallest mean training loss of a window so far; NaN: none was measured.
	bestLoss float64
}

// errTimeUp ends an app at the run's limit of virtual time.
var errTimeUp = errors.New("the run's virtual time is over")

// allowApp returns an error if configuration c, which was read from the run's folder dir, names a
// Flower app that the user has not agreed to execute, since the folder may be anybody's. The user
// agrees with --trust, or by a command that names the same app itself.
func (o *Options) allowApp(c *config.Config, dir string) error {
	given := o.Overrides != nil && o.Overrides.Flower.App == c.Flower.App
	if !c.PlaysFlower() || o.Trust || given {
		return nil
	}
	return fmt.Errorf("%s: its configuration names a Flower app, %q, which would be executed here: say --trust if the "+
		"folder is yours, or you have read the app", dir, c.Flower.App)
}

// playFlower plays the Flower app of configuration c and returns the summary of the run. started is
// when the run began, in wall time. previous is an earlier attempt to continue, from the journal of
// its replies; without results in it, the run's folder is made. After an error, what was done
// stays in the folder, unless the app never began.
func (o *Options) playFlower(
	ctx context.Context,
	c config.Config,
	started time.Time,
	previous attempt,
) (s folder.Summary, err error) {
	r := &flowerRun{
		config:        c,
		options:       *o,
		started:       started,
		notices:       &noticeBuffer{},
		targetReached: math.NaN(),
		bestLoss:      math.NaN(),
		clientValues:  map[string]map[int]float64{},
		last:          unmeasured(),
	}
	r.options.Callbacks = r.notices.withBuffer(o.Callbacks)
	// Mistakes in the configuration are found before any file is made.
	r.fleet, err = c.NewFleet()
	if err != nil {
		return s, err
	}
	if err := r.checkApp(); err != nil {
		return s, err
	}
	r.inputs, err = identity.Files(&c)
	if err != nil {
		return s, err
	}
	// A run that is resumed plays the app from its start again, so the outputs of the earlier attempt
	// are rewound and written again.
	r.results = previous.results
	if r.results == nil {
		r.results, err = folder.CreateResults(c.Out, c, o.Force)
	} else {
		err = r.results.Rewind(c.Outputs)
	}
	if err != nil {
		return s, err
	}
	result, playErr := r.play(ctx)
	// If nothing was played, the folder is removed, so that the same command can be given again. An app
	// that failed by itself leaves its output in the folder to be read.
	isNewFolder := previous.results == nil
	neverBegan := playErr != nil && result.Messages == 0 && !appFailed(playErr)
	if neverBegan && isNewFolder {
		return s, errors.Join(playErr, r.close(playErr), r.discard())
	}
	defer func() { err = errors.Join(err, r.close(err)) }()
	// The summary is written also after an error, from what was played until then.
	s, err = r.finish(result, playErr)
	if err == nil {
		err = r.results.Complete()
	}
	err = errors.Join(err, r.results.Close())
	if err != nil && !errors.Is(err, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("what was done is in %s, to go on: fedpace resume %[1]s --trust", c.Out))
	}
	return s, err
}

// discard removes the folder that this run has made, with the files of the app in it. It is for a
// run that failed before the app sent a message.
func (r *flowerRun) discard() error {
	// Results.Discard removes only what the results have created themselves, unlike these.
	for _, name := range []string{folder.AppLogFile, folder.JournalFile, folder.AppFolder} {
		if err := os.RemoveAll(r.results.Path(name)); err != nil {
			return errors.Join(err, r.results.Close())
		}
	}
	return r.results.Discard()
}

// checkApp returns an error if the folder that the configuration names as the app cannot be one,
// for lack of a pyproject.toml. It is called before the run makes any file.
func (r *flowerRun) checkApp() error {
	path := filepath.Join(r.config.Flower.App, "pyproject.toml")
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("flower.app: %s cannot be read (a Flower app is a folder with this file): %w", path, err)
	}
	return nil
}

// appFailed reports whether err means that the Flower app ended with an error of its own, such as an
// exception, whose cause its output shows. It is false if fedpace refused one of the app's inputs, which
// err then names.
func appFailed(err error) bool {
	var failed *flower.Failed
	return errors.As(err, &failed) && !failed.Refused
}

// play lets package grid play the app, with all that the app prints in a log file of the results'
// folder. It returns what grid counted, also with an error. Reaching the run's limit of virtual
// time is the end of the run and no error.
func (r *flowerRun) play(ctx context.Context) (*grid.Result, error) {
	log, err := os.OpenFile(r.results.Path(folder.AppLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return &grid.Result{}, err
	}
	// Any output of the app's processes goes to the log, so that it does not mix with the run's
	// own.
	settings, err := r.settings(log)
	if err != nil {
		return &grid.Result{}, errors.Join(err, log.Close())
	}
	// A run that another coordinator has taken over, or whose server is gone, ends with the cause.
	playing, end := context.WithCancelCause(ctx)
	defer end(nil)
	settings.Join = func(ctx context.Context, pool *flower.Pool, ready *flower.Ready) (leave func() error, err error) {
		return r.join(ctx, pool, ready, end)
	}
	result, err := grid.Play(playing, *settings)
	runWasLost := ctx.Err() == nil && playing.Err() != nil
	if runWasLost {
		err = context.Cause(playing)
	}
	if errors.Is(err, errTimeUp) {
		err = nil
	}
	if appFailed(err) {
		err = fmt.Errorf("the Flower app failed: %w (%s has its output)", err, r.results.Path(folder.AppLogFile))
	}
	return result, errors.Join(err, log.Close())
}

// settings returns what package grid is to play, from the run's configuration: the app with its
// processes, the devices, and where rounds and messages are reported. log takes what the app
// prints. All paths are absolute, as the app may run in another folder.
func (r *flowerRun) settings(log io.Writer) (*grid.Config, error) {
	c := &r.config
	f := &c.Flower
	// The app's own folder, where its processes import it from.
	app, err := filepath.Abs(f.App)
	if err != nil {
		return nil, err
	}
	// The folder of the results, where the server's process leaves the model.
	out, err := filepath.Abs(r.results.Path(""))
	if err != nil {
		return nil, err
	}
	// The app runs in a folder of its own below the results, unless the user names another.
	workFolder := cmp.Or(f.Folder, filepath.Join(out, folder.AppFolder))
	workFolder, err = filepath.Abs(workFolder)
	if err != nil {
		return nil, err
	}
	processes := *appConfig(c, workFolder, log)
	processes.Hello.App = app
	processes.Hello.Out = out
	// One process for each core serves clients, unless the user says how many, or hosts elsewhere do it.
	workers := cmp.Or(r.options.Workers, runtime.GOMAXPROCS(0))
	if r.options.RemoteHosts {
		workers = 0
	}
	return &grid.Config{
		App:          processes,
		Workers:      workers,
		Fleet:        r.fleet,
		Nodes:        c.Clients,
		Heartbeat:    round.Time(f.ReportedAfter()),
		InOrder:      f.Order == config.SentOrder,
		Journal:      r.results.Path(folder.JournalFile),
		JournalBytes: int64(f.Journal * 1e6),
		Observer: grid.Observer{
			Task:   r.task,
			Round:  r.round,
			Notice: r.options.Notify,
		},
	}, nil
}

// appConfig returns how the processes of the Flower app of configuration c are started, in the folder
// workFolder. log takes what they print; it may be nil.
func appConfig(c *config.Config, workFolder string, log io.Writer) *flower.Config {
	f := &c.Flower
	return &flower.Config{
		Python:  f.Python,
		Threads: c.Trainer.Threads,
		Log:     log,
		Hello: flower.Hello{
			App:           f.App,
			Run:           f.Values(),
			Seed:          c.Seed,
			Nodes:         c.Clients,
			Folder:        workFolder,
			Steps:         f.Steps,
			EvaluateSteps: f.EvaluateSteps,
			AtOnce:        f.AtOnce,
			AnyVersion:    f.AnyVersion,
		},
	}
}

// task takes a message that has ended, as grid reports it. It is handed to the outputs, or kept
// until they are open.
func (r *flowerRun) task(t *grid.Task) error {
	r.addBytes(t)
	r.keepMetrics(t)
	if r.outputs == nil {
		r.waiting = append(r.waiting, t)
		return nil
	}
	r.outputs.Task(&t.TaskReport)
	return nil
}

// keepMetrics keeps the metrics in the reply to message t for the table of clients: the last value of each name that
// the client reported. The names of columns begin with what the message asked for, as in train_loss. Names
// beyond maxClientColumns are dropped.
func (r *flowerRun) keepMetrics(t *grid.Task) {
	// The order of the names decides which are dropped, and which of two that give one column stays.
	for _, key := range slices.Sorted(maps.Keys(t.Metrics)) {
		name := columnName(key)
		// Names such as loss would mix the values of training and evaluation.
		if !strings.HasPrefix(name, t.Category) {
			name = t.Category + "_" + name
		}
		// The column is new. Of those beyond the bound none is kept.
		if r.clientValues[name] == nil {
			if len(r.clientValues) >= maxClientColumns {
				continue
			}
			r.clientValues[name] = map[int]float64{}
		}
		r.clientValues[name][t.Client] = t.Metrics[key]
	}
}

// maxClientColumns bounds the columns that clients' metrics add to their table.
const maxClientColumns = 200

// clientColumns returns a column for each metric that clients have reported, in the order of their
// names. A column's value is the last that the client reported, NaN if it has reported none.
func (r *flowerRun) clientColumns() (list []metrics.ClientColumn) {
	for _, name := range slices.Sorted(maps.Keys(r.clientValues)) {
		values := r.clientValues[name]
		list = append(list, metrics.ClientColumn{
			Name: name,
			Help: "what the client's app told last under this name",
			// A client that was never chosen has reported nothing.
			Value: func(client int) float64 {
				if v, ok := values[client]; ok {
					return v
				}
				return math.NaN()
			},
		})
	}
	return list
}

// addBytes adds what message t has transferred to the summary's bytes: its content once its
// download was over, and the reply once that was uploaded. The bytes are useful if the reply was
// accepted, and wasted otherwise.
func (r *flowerRun) addBytes(t *grid.Task) {
	if !t.Taken {
		return
	}
	sum := &r.bytes.Wasted
	if t.Outcome == round.Accepted {
		sum = &r.bytes.Useful
	}
	// A transfer counts only once it is over: one that was cut off counts nothing.
	took := t.End - t.Start
	if took >= t.Plan.Download {
		*sum += t.DownBytes
	}
	if took >= t.Plan.Total() {
		*sum += t.UpBytes
	}
}

// round takes a round that is over, as grid reports it. Until the outputs are open, rounds are
// kept: outputs need the names of the scores for their columns. They open with the first round that
// has a validation, or at the latest with round maxUnmeasured.
func (r *flowerRun) round(next *grid.Round) error {
	if r.outputs != nil {
		return r.report(next)
	}
	r.waiting = append(r.waiting, next)
	r.rounds++
	r.scores.add(next)
	if r.rounds < maxUnmeasured && !r.scores.validated {
		return nil
	}
	return r.open()
}

// open decides which scores are which metrics, opens the outputs with these as columns, and hands
// them the messages and rounds that were kept until now, in their order. It is called once, when enough
// rounds have been played to know the scores.
func (r *flowerRun) open() error {
	if err := r.decideMetrics(); err != nil {
		return err
	}
	if err := r.openOutputs(); err != nil {
		return err
	}
	// From now on rounds go to the outputs at once, and waiting stays empty.
	waiting := r.waiting
	r.waiting = nil
	for _, item := range waiting {
		switch item := item.(type) {
		case *grid.Task:
			r.outputs.Task(&item.TaskReport)
		case *grid.Round:
			if err := r.report(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// decideMetrics settles from the scores that the app has computed so far which are the run's metrics, and by
// which one models are compared. It writes the name of that one into the configuration, also into the
// folder's copy of it, from which the run would be resumed.
func (r *flowerRun) decideMetrics() (err error) {
	r.scores.decide()
	r.metrics = r.scores.metrics
	// An unknown metric in the configuration is found here, as only the app knows its metrics.
	r.quality, err = r.config.Evaluate.Metric.QualityOf(r.metrics)
	if err != nil {
		return err
	}
	r.qualities = metric.Shown(r.metrics, r.quality)
	for range r.qualities {
		r.best = append(r.best, math.NaN())
	}
	r.config.Evaluate.Metric = config.Metric{Name: r.quality.Name, Better: r.quality.Direction()}
	return r.results.Replace(folder.ConfigFile, func(w io.Writer) error {
		_, err := w.Write(r.config.YAML())
		return err
	})
}

// openOutputs opens the run's outputs, with its metrics as columns, and their web pages if the configuration
// has an address for them.
func (r *flowerRun) openOutputs() error {
	sinks, err := r.sinks()
	if err != nil {
		return err
	}
	r.outputs, err = metrics.Open(r.about(), sinks)
	if err != nil {
		return err
	}
	r.notices.open(r.outputs)
	// The pages need the outputs, so they come up only now.
	if r.config.HTTP != "" {
		r.server, err = serve(context.Background(), r.outputs, r.config.HTTP, r.options.Notify)
		if err != nil {
			return err
		}
	}
	// Outputs that continue may read the rounds that the folder has from an earlier attempt, which need the
	// configuration of the run alone.
	p := experiment{Problem: problem.Problem{}, options: r.options}
	p.Config = r.config
	start := &metrics.Start{Folder: r.results, Rounds: p.roundsSoFar(r.results.Path(""))}
	return r.outputs.Start(start, nil)
}

// sinks returns the outputs of any run that trains by this configuration, except those that store
// models: the model stays with the app.
func (r *flowerRun) sinks() ([]metrics.Sink, error) {
	p := experiment{options: r.options}
	p.Config = r.config
	list, err := p.sinks()
	return slices.DeleteFunc(list, func(s metrics.Sink) bool {
		_, storesModels := s.(outputs.Models)
		return storesModels
	}), err
}

// about returns the description of the run with which its outputs are opened: names, metrics,
// devices and limits. The metrics must have been decided before, and the messages that wait must
// still be there.
func (r *flowerRun) about() *metrics.Run {
	run := folder.About(&r.config)
	// What the configuration does not know is added to what it says.
	run.Version = r.options.Version
	run.Started = r.started
	run.Notice = r.options.Notify
	run.Metrics = r.metrics
	run.Quality = r.quality
	run.Classes = r.fleet.Classes()
	run.Class = r.fleet.Class
	run.Slowest = config.KeptSlowest
	run.Sample = minSampledTasks
	run.Data = "a Flower app, " + filepath.Base(r.config.Flower.App)
	run.Closing = "as the app's strategy decides"
	run.ClientValues = r.clientColumns
	run.DeviceClass = r.fleet.DeviceClass
	run.Rounds = r.totalRounds()
	run.VirtualSeconds = r.config.Stop.VirtualSeconds
	// There is no server with statistics, and no real device whose times could be predicted.
	run.Stats = func() (metrics.Stats, bool) { return metrics.Stats{}, false }
	run.MeanPlan = func(int, int) (round.Plan, error) { return round.Plan{}, errors.New("no real device takes part") }
	// The first message that trains shows the sizes of a model and of an update.
	for _, item := range r.waiting {
		if t, ok := item.(*grid.Task); ok && !t.Probe {
			// The sizes of one message stand for all in what outputs add up; the summary is exact.
			run.Power.ModelBytes = t.DownBytes
			run.Power.UpdateBytes = t.UpBytes
			break
		}
	}
	return run
}

// totalRounds returns how many rounds the app's run config asks for, under the keys that Flower
// apps usually have for it; 0 if it has none of them or no number there.
func (r *flowerRun) totalRounds() int {
	for _, key := range []string{"num-server-rounds", "num-rounds", "num_rounds"} {
		if n, err := strconv.Atoi(r.config.Flower.Values()[key]); err == nil {
			return n
		}
	}
	return 0
}

// report gives a finished round to the outputs, with the app's scores as its losses and metrics, and
// updates what the summary needs. It returns errTimeUp if the round ended at or past the run's
// limit of virtual time, which ends the app.
func (r *flowerRun) report(next *grid.Round) error {
	report := &next.Report
	r.scores.fill(report, next)
	r.setWindowLoss(report)
	// Values that this round has not measured are those of the rounds before.
	r.last = metrics.Latest(&r.last, report)
	if report.Evaluated {
		r.noteBest(report)
	}
	r.bestLoss = lowest(r.bestLoss, report.WindowLoss)
	if f := r.options.Round; f != nil {
		f(report)
	}
	if err := r.outputs.Round(report); err != nil {
		return err
	}
	const done = false
	r.showProgress(done)
	// A round may end past the limit; it still counts, and is the last one.
	limit := r.config.Stop.VirtualSeconds
	if limit > 0 && report.End.Seconds() >= limit {
		return errTimeUp
	}
	return nil
}

// setWindowLoss sets report.WindowLoss to the mean of the training losses of the last rounds that have
// one, at most schedule.window of them, this round included. It stays as it is if no round had a
// training loss yet.
func (r *flowerRun) setWindowLoss(report *round.Report) {
	if !math.IsNaN(report.TrainingLoss) {
		r.losses = append(r.losses, report.TrainingLoss)
	}
	// Losses that have left the window are forgotten.
	if n := len(r.losses) - r.config.Schedule.Window; n > 0 {
		r.losses = r.losses[n:]
	}
	if len(r.losses) == 0 {
		return
	}
	sum := 0.0
	for _, loss := range r.losses {
		sum += loss
	}
	report.WindowLoss = sum / float64(len(r.losses))
}

// noteBest compares the evaluation in report with the best value of each quality so far, and notes the
// virtual time of the first evaluation that reaches the configured target.
func (r *flowerRun) noteBest(report *round.Report) {
	// Better is false for a value that was not measured, so NaN never becomes the best.
	for i, q := range r.qualities {
		if now := q.ValueIn(report.ValidationLoss, report.Metrics); q.Better(now, r.best[i]) {
			r.best[i] = now
		}
	}
	target := r.config.Evaluate.Target
	// The target is about the quality by which models are compared.
	now := r.quality.ValueIn(report.ValidationLoss, report.Metrics)
	if target != nil && math.IsNaN(r.targetReached) && r.quality.Reaches(now, *target) {
		r.targetReached = report.End.Seconds()
	}
}

// showProgress tells the caller of the run, if it wants to know, which round the run has reached.
// done says that the run is complete.
func (r *flowerRun) showProgress(done bool) {
	if r.options.Progress == nil {
		return
	}
	r.options.Progress(Progress{
		Schedule:     r.config.Schedule.Name(),
		Report:       r.last,
		Quality:      r.quality,
		Rounds:       r.totalRounds(),
		VirtualTotal: r.config.Stop.VirtualSeconds,
		Elapsed:      time.Since(r.started),
		Done:         done,
	})
}

// finish writes the summary, and ends the outputs with it. result is what grid counted, and failure
// the error by which the app ended, nil if it is complete. It returns the summary with failure and
// all errors of its own. Outputs that are not open yet, for lack of a validation, are opened first.
func (r *flowerRun) finish(result *grid.Result, failure error) (folder.Summary, error) {
	if r.outputs == nil {
		if err := r.open(); err != nil {
			return folder.Summary{}, errors.Join(failure, err)
		}
	}
	s := r.summary(result, failure == nil)
	r.showProgress(failure == nil)
	// The measured time helps the user to choose the speed of simulated devices.
	if result.Steps > 0 && failure == nil {
		r.options.Notify(fmt.Sprintf(
			"A local step took %.3g s of processor time here: multiply that by how much slower a device is than this "+
				"machine for compute.seconds_per_step.",
			result.Seconds/float64(result.Steps),
		))
	}
	text, err := s.JSON()
	if err != nil {
		return s, errors.Join(failure, err)
	}
	// r.last has the latest values that were measured, whichever round measured them.
	end := &metrics.End{
		Completed:      s.Completed,
		Err:            failure,
		Elapsed:        time.Since(r.started),
		Summary:        text,
		Evaluated:      r.last.Evaluated,
		ValidationLoss: r.last.ValidationLoss,
		Metrics:        r.last.Metrics,
	}
	err = errors.Join(r.outputs.Flush(), r.outputs.Finish(end))
	if err == nil {
		err = r.results.Replace(folder.MessagesFile, func(w io.Writer) error { return grid.WriteSums(w, result.Sums) })
	}
	if err == nil {
		err = r.results.Summary(&s)
	}
	return s, errors.Join(failure, err)
}

// summary returns what summary.json says of the run. result is what grid counted, and completed
// says that the app came to its end. Values that were never measured are null in the file.
func (r *flowerRun) summary(result *grid.Result, completed bool) folder.Summary {
	// The outputs have added up times and steps; bytes are counted here, message by message.
	usage := r.outputs.Usage(completed)
	data := "a Flower app, " + result.App + ", with flwr " + result.Flwr
	s := folder.Summary{
		Task:             string(r.config.Task),
		Data:             &data,
		Schedule:         r.config.Schedule.Name(),
		Seed:             r.config.Seed,
		Completed:        completed,
		Rounds:           result.Rounds,
		VirtualSeconds:   result.End.Seconds(),
		WallSeconds:      time.Since(r.started).Seconds(),
		SGDSteps:         r.last.SGDSteps,
		Fingerprint:      fmt.Sprintf("%016x", result.Fingerprint),
		Version:          r.options.Version,
		Inputs:           r.inputs,
		ClientSeconds:    metrics.Seconds(usage.Time),
		ClientSteps:      usage.Steps,
		Bytes:            r.bytes,
		StragglerShare:   metrics.Measured(usage.StragglerShare()),
		TrainingLoss:     metrics.Measured(r.last.WindowLoss),
		BestTrainingLoss: metrics.Measured(r.bestLoss),
		ValidationLoss:   metrics.Measured(r.last.ValidationLoss),
		TimeToTarget:     metrics.Measured(r.targetReached),
	}
	// The file has a count for each outcome, in the order of their numbers.
	for outcome, count := range result.Outcomes {
		s.Outcomes[outcome] = int64(count)
	}
	// Accuracy also has fields of its own, which all kinds of runs share.
	for i, q := range r.qualities {
		now := metrics.Measured(q.ValueIn(r.last.ValidationLoss, r.last.Metrics))
		best := metrics.Measured(r.best[i])
		if q.Name == metric.Accuracy {
			s.ValidationAccuracy = now
			s.BestValidationAccuracy = best
		}
		s.Metrics = append(s.Metrics, folder.Metric{
			Name:       q.Name,
			Better:     q.Direction(),
			Validation: now,
			Best:       best,
		})
	}
	// An app that has shown no arrays has no model to identify.
	if result.Digest != "" {
		s.ModelSHA256 = &result.Digest
	}
	return s
}

// close closes the outputs, and the server of their pages, as far as they are open. reason is the
// error for which the run is not complete, nil if it is complete. A server of metrics waits for the
// last scrape of Prometheus, for as long as the options allow.
func (r *flowerRun) close(reason error) (err error) {
	if r.server != nil {
		for _, m := range metrics.Outputs[*prometheus.Metrics](r.outputs) {
			m.AwaitScrape(context.Background(), r.options.ScrapeGrace)
		}
		err = r.server.Close()
	}
	if r.outputs != nil {
		err = errors.Join(err, r.outputs.Close(reason))
	}
	return err
}

// unmeasured returns a report in which nothing was measured: NaN stands for each loss.
func unmeasured() round.Report {
	nan := math.NaN()
	return round.Report{TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan}
}

// scores maps the scores that an app reports, whose names the app chooses, to the values of a round. The
// training loss is the score of training with loss in its name, and the validation loss is that of the
// server's own evaluation or, failing that, of the clients'. The first score of validation with acc in
// its name is the accuracy.
type scores struct {
	// train, evaluate and central are the names that were seen, and validated says that a round had
	// a validation.
	train, evaluate, central []string
	validated                bool

	// trainingLoss and validationLoss are keys; empty: there is none. centralLoss says that the
	// latter is the server's.
	trainingLoss, validationLoss string
	centralLoss                  bool
	// metrics are the other scores of validation, and sources where each is found.
	metrics []metric.Metric
	sources []source
}

// source says where the value of a metric is found in a round: under key among the server's own
// scores if central is true, otherwise among those of the clients' evaluation.
type source struct {
	central bool
	key     string
}

// add notes the names of the scores that round r has, and whether it has a validation. It is called
// for each round until decide is.
func (s *scores) add(r *grid.Round) {
	s.train = withNames(s.train, r.Train)
	s.evaluate = withNames(s.evaluate, r.Evaluate)
	s.central = withNames(s.central, r.Central)
	s.validated = s.validated || len(r.Evaluate) > 0 || len(r.Central) > 0
}

// withNames returns the sorted list of names with the keys of values added, each once. The result
// may share the memory of list.
func withNames(list []string, values map[string]float64) []string {
	for key := range values {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

// lossAmong returns which of the keys is a loss; empty if none is. kind is "train" or "eval":
// kind_loss and kind-loss are preferred, then loss, then the first key that contains loss in any
// case.
func lossAmong(keys []string, kind string) string {
	// The usual names come first, since apps may have several losses.
	for _, wanted := range []string{kind + "_loss", kind + "-loss", "loss"} {
		if slices.Contains(keys, wanted) {
			return wanted
		}
	}
	i := slices.IndexFunc(keys, func(key string) bool { return strings.Contains(strings.ToLower(key), "loss") })
	if i < 0 {
		return ""
	}
	return keys[i]
}

// decide chooses, by the names that add has noted, which scores are the losses and which the metrics. It
// sets the keys of the losses, and the metrics with their sources, in the same order. It is called once,
// when the outputs open.
func (s *scores) decide() {
	s.trainingLoss = lossAmong(s.train, "train")
	// The server's own evaluation sees all validation data, so it is preferred.
	s.validationLoss = lossAmong(s.central, "eval")
	s.centralLoss = s.validationLoss != ""
	if !s.centralLoss {
		s.validationLoss = lossAmong(s.evaluate, "eval")
	}
	for _, key := range s.central {
		s.addMetric(source{central: true, key: key})
	}
	for _, key := range s.evaluate {
		s.addMetric(source{central: false, key: key})
	}
	// The accuracy is what models are compared by unless the user names another metric, so it is
	// first.
	if i := metric.Find(s.metrics, metric.Accuracy); i > 0 {
		s.metrics[0], s.metrics[i] = s.metrics[i], s.metrics[0]
		s.sources[0], s.sources[i] = s.sources[i], s.sources[0]
	}
}

// addMetric adds the score of a source to the metrics of validation, unless it is the validation loss. The
// first score with acc in its name becomes the accuracy. A name that is taken already, or is loss, gets
// the prefix clients_, more than once if need be.
func (s *scores) addMetric(from source) {
	if from == (source{central: s.centralLoss, key: s.validationLoss}) {
		return
	}
	name := columnName(from.key)
	// Only the first one can have the name; later ones keep their own.
	isAccuracy := strings.Contains(name, "acc") && metric.Find(s.metrics, metric.Accuracy) < 0
	if isAccuracy {
		name = metric.Accuracy
	}
	// Losses of the server and of the clients may both be there, of which one is the validation
	// loss.
	for name == metric.Loss || metric.Find(s.metrics, name) >= 0 {
		name = "clients_" + name
	}
	s.metrics = append(s.metrics, metric.Metric{Name: name, Lower: fallsWithError(name)})
	s.sources = append(s.sources, from)
}

// columnName returns key as the name of a column: capitals become small letters, and everything but
// letters, digits and underscores becomes an underscore.
func columnName(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, key)
}

// fallsWithError guesses from the name of a metric whether lower values are better, as for an error
// or a loss. For a name that it does not know, higher values count as better, as for an accuracy.
func fallsWithError(name string) bool {
	for _, word := range []string{"loss", "error", "mse", "mae", "rmse", "perplexity"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// fill puts the scores of round r into its report: the training loss, the validation loss and the
// metrics, in the order of s.sources. A score that the round lacks is NaN there.
func (s *scores) fill(report *round.Report, r *grid.Round) {
	report.TrainingLoss = valueOf(r.Train, s.trainingLoss)
	report.ValidationLoss = valueOf(r.Evaluate, s.validationLoss)
	if s.centralLoss {
		report.ValidationLoss = valueOf(r.Central, s.validationLoss)
	}
	// A round counts as evaluated even if the evaluation has computed no loss.
	report.Evaluated = len(r.Central) > 0 || len(r.Evaluate) > 0
	report.Metrics = make([]float64, len(s.sources))
	for i, from := range s.sources {
		values := r.Evaluate
		if from.central {
			values = r.Central
		}
		report.Metrics[i] = valueOf(values, from.key)
	}
}

// valueOf returns the value under a key, or NaN if the map lacks the key or the key is empty.
// values may be nil.
func valueOf(values map[string]float64, key string) float64 {
	if v, ok := values[key]; ok && key != "" {
		return v
	}
	return math.NaN()
}
