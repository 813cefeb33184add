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

// flowerRun is a run that plays a Flower app: it takes what package grid reports, and hands it to
// the same outputs as any other run.
type flowerRun struct {
	config  config.Config
	options Options
	fleet   *fleet.Fleet
	results *folder.Results
	started time.Time
	// failed is the reason for which outputs are closed.
	notices *noticeBuffer

	// outputs are the run's outputs; nil until its scores are known. waiting are the messages and
	// rounds until then, in order, and rounds the number of rounds among them.
	outputs *metrics.Recorder
	waiting []any
	rounds  int
	server  *web.WebServer
	scores  scores
	quality metric.Quality
	metrics []metric.Metric

	// The following are for the summary.

	last    round.Report
	losses  []float64 // the training losses of the window
	best    []float64 // of the qualities, in the order of qualities
	reached float64
	bytes   metrics.Split[int64]

	// clients are what clients have told last, by the name of a column.
	clients map[string]map[int]float64

	qualities []metric.Quality
	bestLoss  float64
}

// errTimeUp ends an app at the run's limit of virtual time.
var errTimeUp = errors.New("the run's virtual time is over")

// allowApp refuses to execute the app that the configuration of a folder names, since the folder may
// be anybody's. A command that was given again names the app itself.
func (o *Options) allowApp(c *config.Config, dir string) error {
	given := o.Overrides != nil && o.Overrides.Flower.App == c.Flower.App
	if !c.PlaysFlower() || o.Trust || given {
		return nil
	}
	return fmt.Errorf("%s: its configuration names a Flower app, %q, which would be executed here: say --trust if the "+
		"folder is yours, or you have read the app", dir, c.Flower.App)
}

// playFlower plays the Flower app of a configuration, or plays it again after a previous attempt,
// whose replies are in its journal.
func (o *Options) playFlower(
	ctx context.Context,
	c config.Config,
	started time.Time,
	previous attempt,
) (s folder.Summary, err error) {
	r := &flowerRun{
		config:   c,
		options:  *o,
		started:  started,
		notices:  &noticeBuffer{},
		reached:  math.NaN(),
		bestLoss: math.NaN(),
		clients:  map[string]map[int]float64{},
		last:     unmeasured(),
	}
	r.options.Callbacks = r.notices.tap(o.Callbacks)
	if r.fleet, err = c.NewFleet(); err != nil {
		return s, err
	}
	if err := r.checkApp(); err != nil {
		return s, err
	}
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
	// An app that failed by itself leaves its output to be read.
	var failed *flower.Failed
	failedItself := errors.As(playErr, &failed) && !failed.Refused
	if playErr != nil && result.Messages == 0 && previous.results == nil && !failedItself {
		return s, errors.Join(playErr, r.close(playErr), r.discard())
	}
	defer func() { err = errors.Join(err, r.close(err)) }()
	s, err = r.finish(result, playErr)
	if err == nil {
		err = r.results.Complete()
	}
	if err = errors.Join(err, r.results.Close()); err != nil && !errors.Is(err, context.Canceled) {
		err = errors.Join(err, fmt.Errorf("what was done is in %s, to go on: fedpace resume %[1]s --trust", c.Out))
	}
	return s, err
}

// discard removes what a run has made that never began.
func (r *flowerRun) discard() error {
	for _, name := range []string{folder.AppLogFile, folder.JournalFile, folder.AppFolder} {
		if err := os.RemoveAll(r.results.Path(name)); err != nil {
			return errors.Join(err, r.results.Close())
		}
	}
	return r.results.Discard()
}

// checkApp finds a folder that holds no app before anything is made.
func (r *flowerRun) checkApp() error {
	path := filepath.Join(r.config.Flower.App, "pyproject.toml")
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("flower.app: %s cannot be read (a Flower app is a folder with this file): %w", path, err)
	}
	return nil
}

// play lets package grid play the app. The end of the run's virtual time is no error.
func (r *flowerRun) play(ctx context.Context) (*grid.Result, error) {
	log, err := os.OpenFile(r.results.Path(folder.AppLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return &grid.Result{}, err
	}
	settings, err := r.settings(log)
	if err != nil {
		return &grid.Result{}, errors.Join(err, log.Close())
	}
	result, err := grid.Play(ctx, *settings)
	if errors.Is(err, errTimeUp) {
		err = nil
	}
	var refused *flower.Failed
	if errors.As(err, &refused) && !refused.Refused {
		err = fmt.Errorf("the Flower app failed: %w (%s has its output)", err, r.results.Path(folder.AppLogFile))
	}
	return result, errors.Join(err, log.Close())
}

// settings are what package grid plays.
func (r *flowerRun) settings(log io.Writer) (*grid.Config, error) {
	c := &r.config
	f := &c.Flower
	app, err := filepath.Abs(f.App)
	if err != nil {
		return nil, err
	}
	out, err := filepath.Abs(r.results.Path(""))
	if err != nil {
		return nil, err
	}
	where := cmp.Or(f.Folder, filepath.Join(out, folder.AppFolder))
	if where, err = filepath.Abs(where); err != nil {
		return nil, err
	}
	return &grid.Config{
		App: flower.Config{
			Python:  f.Python,
			Threads: c.Trainer.Threads,
			Log:     log,
			Hello: flower.Hello{
				App:           app,
				Run:           f.Values(),
				Seed:          c.Seed,
				Nodes:         c.Clients,
				Folder:        where,
				Out:           out,
				Steps:         f.Steps,
				EvaluateSteps: f.EvaluateSteps,
				AtOnce:        f.AtOnce,
				AnyVersion:    f.AnyVersion,
			},
		},
		Workers:      cmp.Or(r.options.Workers, runtime.GOMAXPROCS(0)),
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

// task takes a message that has ended.
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

// keepMetrics keeps the metrics of a client's reply, the last of each name.
func (r *flowerRun) keepMetrics(t *grid.Task) {
	for key, v := range t.Metrics {
		name := columnName(key)
		if !strings.HasPrefix(name, t.Category) {
			name = t.Category + "_" + name
		}
		if r.clients[name] == nil {
			if len(r.clients) >= maxClientColumns {
				continue
			}
			r.clients[name] = map[int]float64{}
		}
		r.clients[name][t.Client] = v
	}
}

// maxClientColumns bounds the columns that clients' metrics add to their table.
const maxClientColumns = 200

// clientColumns are the clients' last metrics, in the order of their names.
func (r *flowerRun) clientColumns() (list []metrics.ClientColumn) {
	for _, name := range slices.Sorted(maps.Keys(r.clients)) {
		values := r.clients[name]
		list = append(list, metrics.ClientColumn{
			Name: name,
			Help: "what the client's app told last under this name",
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

// addBytes adds what a message has transferred to the summary's bytes: its content once its download
// is over, and the reply if that was sent.
func (r *flowerRun) addBytes(t *grid.Task) {
	sum := &r.bytes.Wasted
	if t.Outcome == round.Accepted {
		sum = &r.bytes.Useful
	}
	took := t.End - t.Start
	if took >= t.Plan.Download {
		*sum += t.DownBytes
	}
	if took >= t.Plan.Total() {
		*sum += t.UpBytes
	}
}

// round takes a round that is over. Rounds wait until the names of the scores are known.
func (r *flowerRun) round(next *grid.Round) error {
	if r.outputs != nil {
		return r.hand(next)
	}
	r.waiting = append(r.waiting, next)
	r.rounds++
	r.scores.add(next)
	if r.rounds < maxUnmeasured && !r.scores.validated {
		return nil
	}
	return r.open()
}

// open opens the outputs, and hands them what has waited.
func (r *flowerRun) open() (err error) {
	if err = r.scores.settle(&r.config.Evaluate.Metric); err != nil {
		return err
	}
	r.metrics = r.scores.metrics
	if r.quality, err = r.config.Evaluate.Metric.QualityOf(r.metrics); err != nil {
		return err
	}
	r.qualities = metric.Shown(r.metrics, r.quality)
	for range r.qualities {
		r.best = append(r.best, math.NaN())
	}
	// As in other runs, the configuration names the metric by which models are compared.
	r.config.Evaluate.Metric = config.Metric{Name: r.quality.Name, Better: r.quality.Direction()}
	err = r.results.Replace(folder.ConfigFile, func(w io.Writer) error {
		_, err := w.Write(r.config.YAML())
		return err
	})
	if err != nil {
		return err
	}
	sinks, err := r.sinks()
	if err != nil {
		return err
	}
	if r.outputs, err = metrics.Open(r.about(), sinks); err != nil {
		return err
	}
	r.notices.add(r.outputs)
	if r.config.HTTP != "" {
		if r.server, err = serve(context.Background(), r.outputs, r.config.HTTP, r.options.Notify); err != nil {
			return err
		}
	}
	p := experiment{Problem: problem.Problem{}, options: r.options}
	p.Config = r.config
	start := &metrics.Start{Folder: r.results, Rounds: p.roundsSoFar(r.results.Path(""))}
	if err := r.outputs.Start(start, nil); err != nil {
		return err
	}
	waiting := r.waiting
	r.waiting = nil
	for _, item := range waiting {
		switch item := item.(type) {
		case *grid.Task:
			r.outputs.Task(&item.TaskReport)
		case *grid.Round:
			if err := r.hand(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// sinks are the outputs of any run that trains, but for those of a model, which stays the app's.
func (r *flowerRun) sinks() ([]metrics.Sink, error) {
	p := experiment{options: r.options}
	p.Config = r.config
	list, err := p.sinks()
	return slices.DeleteFunc(list, func(s metrics.Sink) bool {
		_, models := s.(outputs.Models)
		return models
	}), err
}

// about describes the run to its outputs.
func (r *flowerRun) about() *metrics.Run {
	run := folder.About(&r.config)
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
	run.Stats = func() (metrics.Stats, bool) { return metrics.Stats{}, false }
	run.MeanPlan = func(int, int) (round.Plan, error) { return round.Plan{}, errors.New("no real device takes part") }
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

// totalRounds is how many rounds the app's run config asks for by the usual keys; 0: not known.
func (r *flowerRun) totalRounds() int {
	for _, key := range []string{"num-server-rounds", "num-rounds", "num_rounds"} {
		if n, err := strconv.Atoi(r.config.Flower.Values()[key]); err == nil {
			return n
		}
	}
	return 0
}

// hand hands a round to the outputs, with its scores in the places of a round's values.
func (r *flowerRun) hand(next *grid.Round) error {
	report := &next.Report
	r.scores.fill(report, next)
	r.window(report)
	r.last = metrics.Latest(&r.last, report)
	if report.Evaluated {
		r.note(report)
	}
	if !(r.bestLoss <= report.WindowLoss) {
		r.bestLoss = report.WindowLoss
	}
	if f := r.options.Round; f != nil {
		f(report)
	}
	if err := r.outputs.Round(report); err != nil {
		return err
	}
	r.showProgress(false)
	limit := r.config.Stop.VirtualSeconds
	if limit > 0 && report.End.Seconds() >= limit {
		return errTimeUp
	}
	return nil
}

// window computes the mean of the training loss over the last rounds.
func (r *flowerRun) window(report *round.Report) {
	if !math.IsNaN(report.TrainingLoss) {
		r.losses = append(r.losses, report.TrainingLoss)
	}
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

// note compares an evaluation with the best values so far.
func (r *flowerRun) note(report *round.Report) {
	for i, q := range r.qualities {
		if now := q.ValueIn(report.ValidationLoss, report.Metrics); q.Better(now, r.best[i]) {
			r.best[i] = now
		}
	}
	target := r.config.Evaluate.Target
	now := r.quality.ValueIn(report.ValidationLoss, report.Metrics)
	if target != nil && math.IsNaN(r.reached) && r.quality.Reaches(now, *target) {
		r.reached = report.End.Seconds()
	}
}

// showProgress tells the caller where the run stands.
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

// finish ends the outputs and writes the summary.
func (r *flowerRun) finish(result *grid.Result, failure error) (folder.Summary, error) {
	if r.outputs == nil {
		if err := r.open(); err != nil {
			return folder.Summary{}, errors.Join(failure, err)
		}
	}
	s := r.summary(result, failure == nil)
	r.showProgress(failure == nil)
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
		err = r.results.Summary(&s)
	}
	return s, errors.Join(failure, err)
}

// summary gathers what summary.json says.
func (r *flowerRun) summary(result *grid.Result, completed bool) folder.Summary {
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
		ClientSeconds:    metrics.Seconds(usage.Time),
		ClientSteps:      usage.Steps,
		Bytes:            r.bytes,
		StragglerShare:   metrics.Measured(usage.StragglerShare()),
		TrainingLoss:     metrics.Measured(r.last.WindowLoss),
		BestTrainingLoss: metrics.Measured(r.bestLoss),
		ValidationLoss:   metrics.Measured(r.last.ValidationLoss),
		TimeToTarget:     metrics.Measured(r.reached),
	}
	for o, n := range result.Outcomes {
		s.Outcomes[o] = int64(n)
	}
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
	if result.Digest != "" {
		s.ModelSHA256 = &result.Digest
	}
	return s
}

// close closes the outputs and the server of their pages. reason is why the run is not complete.
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

// unmeasured is a report in which nothing was measured.
func unmeasured() round.Report {
	nan := math.NaN()
	return round.Report{TrainingLoss: nan, WindowLoss: nan, ValidationLoss: nan}
}

// scores says which of an app's scores are which values of a round. The app names them as it likes:
// the training loss is the score of training that has loss in its name, the validation loss that of
// the server's own measurement or of the clients' evaluation, and the first accuracy among the
// scores of validation is the accuracy.
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

// source is where the value of a metric is found in a round.
type source struct {
	central bool
	key     string
}

// add notes the names of a round's scores.
func (s *scores) add(r *grid.Round) {
	s.train = withNames(s.train, r.Train)
	s.evaluate = withNames(s.evaluate, r.Evaluate)
	s.central = withNames(s.central, r.Central)
	s.validated = s.validated || len(r.Evaluate) > 0 || len(r.Central) > 0
}

// withNames adds the keys of values to a sorted list.
func withNames(list []string, values map[string]float64) []string {
	for key := range values {
		if !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

// lossAmong returns the key among some that is a loss; empty if there is none.
func lossAmong(keys []string, kind string) string {
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

// settle decides which score is which value, once their names are known.
func (s *scores) settle(*config.Metric) error {
	s.trainingLoss = lossAmong(s.train, "train")
	s.validationLoss = lossAmong(s.central, "eval")
	s.centralLoss = s.validationLoss != ""
	if !s.centralLoss {
		s.validationLoss = lossAmong(s.evaluate, "eval")
	}
	for _, key := range s.central {
		s.addMetric(key, true)
	}
	for _, key := range s.evaluate {
		s.addMetric(key, false)
	}
	// The accuracy is what models are compared by unless the user names another metric, so it is first.
	if i := metric.Find(s.metrics, metric.Accuracy); i > 0 {
		s.metrics[0], s.metrics[i] = s.metrics[i], s.metrics[0]
		s.sources[0], s.sources[i] = s.sources[i], s.sources[0]
	}
	return nil
}

// addMetric adds a score of validation to the metrics, unless it is the validation loss. The first
// accuracy gets that name. A score of the clients that has the name of one of the server is told
// apart by its name.
func (s *scores) addMetric(key string, central bool) {
	if key == s.validationLoss && central == s.centralLoss {
		return
	}
	name := columnName(key)
	isAccuracy := strings.Contains(name, "acc") && metric.Find(s.metrics, metric.Accuracy) < 0
	if isAccuracy {
		name = metric.Accuracy
	}
	if name == metric.Loss || metric.Find(s.metrics, name) >= 0 {
		name = "clients_" + name
	}
	s.metrics = append(s.metrics, metric.Metric{Name: name, Lower: fallsWithError(name)})
	s.sources = append(s.sources, source{central, key})
}

// columnName is a key as the name of a column: letters, digits and underscores.
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

// fallsWithError reports whether lower values of a metric are better, by its name.
func fallsWithError(name string) bool {
	for _, word := range []string{"loss", "error", "mse", "mae", "rmse", "perplexity"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// fill puts a round's scores into its report.
func (s *scores) fill(report *round.Report, r *grid.Round) {
	report.TrainingLoss = valueOf(r.Train, s.trainingLoss)
	report.ValidationLoss = valueOf(r.Evaluate, s.validationLoss)
	if s.centralLoss {
		report.ValidationLoss = valueOf(r.Central, s.validationLoss)
	}
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

// valueOf is the value of a key, NaN if there is none.
func valueOf(values map[string]float64, key string) float64 {
	if v, ok := values[key]; ok && key != "" {
		return v
	}
	return math.NaN()
}
