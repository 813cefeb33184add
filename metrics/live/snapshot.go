package live

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// snapshot is the content of a frame in JSON. A frame that follows another may hold only the end of
// the curves.
type snapshot struct {
	// Format is the version of the snapshot's form, see format.
	Format int      `json:"format"`
	Run    runShown `json:"run"`
	// State is running, completed or stopped.
	State       string           `json:"state"`
	Why         string           `json:"why"`
	Progress    progress         `json:"progress"`
	Now         measures         `json:"now"`
	Columns     []valueShown     `json:"columns"`
	Outcomes    metrics.Outcomes `json:"outcomes"`
	EmptyRounds int              `json:"empty_rounds"`
	Actors      actorsShown      `json:"actors"`
	Spent       spent            `json:"spent"`
	Curves      curves           `json:"curves"`
	Evaluations evaluated        `json:"evaluations"`
	Fairness    fairness         `json:"fairness"`
	RoundTimes  roundTimes       `json:"round_times"`
	LastRound   lastRound        `json:"last_round"`
	Waits       waits            `json:"waits"`
	// Participation says how often clients trained.
	Participation participationShown `json:"participation"`
	Notices       notices            `json:"notices"`

	// Summary is the content of summary.json, once the run has ended.
	Summary json.RawMessage `json:"summary"`
}

// format is the version of the snapshot; the page and the binary are one, so
// it matters to other readers alone.
const format = 2

// runShown describes the run, and does not change.
type runShown struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Task     string `json:"task"`
	Schedule string `json:"schedule"`
	Data     string `json:"data"`
	Closing  string `json:"closing"`
	Version  string `json:"version"`
	// Seed is sent as text, because JavaScript's numbers are exact only up to 2^53.
	Seed uint64 `json:"seed,string"`
	// Clients is the number of simulated clients.
	Clients int `json:"clients"`
	// Cohort is the number of clients in a round.
	Cohort int `json:"cohort"`
	// Window is the number of rounds in the mean of the training loss (Eq. 15).
	Window int `json:"window"`
	// Started is when this attempt started, as RFC 3339.
	Started string `json:"started"`
	// Delta is the δ of differential privacy; 0: the run is not private.
	Delta float64 `json:"delta"`
	// Metrics are the run's metrics, in the order of their values in measures.
	Metrics []metricShown `json:"metrics"`
	// Own are the settings that differ from the task's defaults, as key=value.
	Own []string `json:"own"`
	// Settings are all settings, as key=value.
	Settings []string `json:"settings"`
}

// metricShown is a metric of the model, with the target at which the run ends if there is one.
type metricShown struct {
	Name string `json:"name"`
	// First says that the metric is shown before the others.
	First bool `json:"first"`
	// Target is the value at which the run ends; null: none.
	Target number `json:"target"`
}

// progress says how far the run is and when it will end.
type progress struct {
	// Round is the number of the last round that has closed; 0: none has.
	Round int `json:"round"`
	// Rounds is the number of rounds after which the run ends; 0: not known.
	Rounds int `json:"rounds"`
	// VirtualSeconds is the virtual time since the run's start, in seconds.
	VirtualSeconds number `json:"virtual_seconds"`
	// VirtualTotal is the virtual time at which the run ends, in seconds; 0: not known.
	VirtualTotal float64 `json:"virtual_total"`
	WallSeconds  float64 `json:"wall_seconds"`
	// Idle is the wall time since the last round, in seconds.
	Idle float64 `json:"idle_seconds"`
	// Fraction is the part of the run that is done, from 0 to 1; 0: not known.
	Fraction float64 `json:"fraction"`
	// Left is the wall time to expect until the end, in seconds; null: not known.
	Left number `json:"left_seconds"`
	// LeftWithin is the interval of 90 % of Left, in seconds.
	LeftWithin [2]number `json:"left_90"`
}

// measures are values that no column holds.
type measures struct {
	// Epsilon is the privacy budget ε spent so far; null: the run is not private.
	Epsilon number `json:"epsilon"`
	// TrainingLoss is the mean over the window of rounds, as in summary.json.
	TrainingLoss     number `json:"training_loss"`
	BestTrainingLoss number `json:"best_training_loss"`
	// Metrics are the values of the run's metrics that were measured last, and BestMetrics the best
	// so far.
	Metrics     []number `json:"metrics"`
	BestMetrics []number `json:"best_metrics"`
}

// fairness summarises the last evaluation on the clients' own samples.
type fairness struct {
	// Round is the round after which the model was evaluated; 0: none was yet.
	Round   int           `json:"round"`
	Metrics []fairMetrics `json:"metrics"`
}

// fairMetrics is one metric of such an evaluation, with its distribution over clients.
type fairMetrics struct {
	Name string `json:"name"`
	// Mean is the mean over the clients.
	Mean number `json:"mean"`
	// Worst is the mean over the tenth of the clients with the worst values.
	Worst number `json:"worst_decile"`
	// Jain is Jain's fairness index of the clients' values, from 0 to 1.
	Jain number `json:"jain"`
	// Bars are the histogram of the clients' values; empty: they are not known.
	Bars []bar `json:"bars"`
}

// fairnessOf returns what the page shows of e, an evaluation of the model on the samples of each
// client: for each metric the mean, the mean of the worst tenth, Jain's index and a histogram. run
// holds the names of the metrics. If e is nil, no such evaluation was made, and Round is 0.
func fairnessOf(run *metrics.Run, e *metrics.ClientEvaluation) fairness {
	f := fairness{Metrics: []fairMetrics{}}
	if e == nil {
		return f
	}
	f.Round = e.Round
	for i, m := range e.All.Metrics {
		f.Metrics = append(f.Metrics, fairMetrics{
			Name:  run.Metrics[i].Name,
			Mean:  number(m.Mean),
			Worst: number(m.Worst),
			Jain:  number(m.Jain),
			Bars:  histogram(e.Scores, i),
		})
	}
	return f
}

// spent is what all clients of the run have used so far.
type spent struct {
	// ClientSeconds is the time that clients spent on tasks, in virtual seconds.
	ClientSeconds metrics.Split[float64] `json:"client_seconds"`
	// Steps counts the local steps of SGD.
	Steps metrics.Split[int64] `json:"sgd_steps"`
	// Bytes counts the bytes of models and updates, downloads and uploads together.
	Bytes metrics.Split[int64] `json:"bytes"`
}

// actorsShown counts the clients of the run: simulated ones and real devices.
type actorsShown struct {
	// Simulated is the number of simulated clients.
	Simulated int `json:"simulated"`
	// Real is the number of real devices.
	Real int `json:"real"`
	// Devices are the first hundred real devices.
	Devices []metrics.Device `json:"devices,omitempty"`
}

// roundTimes is the distribution of the rounds' durations, in virtual seconds.
type roundTimes struct {
	// Count is the number of rounds.
	Count uint64 `json:"count"`
	// Median is the median in seconds, the unit of all fields here.
	Median number `json:"median"`
	// P90 and P99 are the durations that 90 % and 99 % of the rounds do not exceed.
	P90  number `json:"p90"`
	P99  number `json:"p99"`
	Most number `json:"most"`
	// Logarithmic says that the bars have equal widths on a logarithmic scale.
	Logarithmic bool  `json:"logarithmic"`
	Bars        []bar `json:"bars"`
}

// lastRound is the timeline of the round that closed last. Times are seconds after its start.
type lastRound struct {
	Round int `json:"round"`
	// Start is the virtual time at which the round started, in seconds.
	Start   number `json:"start"`
	Seconds number `json:"seconds"`
	// Deadline is the round's deadline; null: it has none.
	Deadline number           `json:"deadline"`
	Cohort   int              `json:"cohort"`
	Outcomes metrics.Outcomes `json:"outcomes"`
	Tasks    []taskShown      `json:"tasks"`
}

// taskShown is one task of that timeline, with its phases.
type taskShown struct {
	// Task is sent as text, because JavaScript's numbers are exact only up to 2^53.
	Task   uint64 `json:"task,string"`
	Client int    `json:"client"`
	// Name is the name of a real device, or of a simulated client in its data; empty: none.
	Name  string `json:"name,omitempty"`
	Class string `json:"class,omitempty"`
	Kind  string `json:"kind"`
	// Why says why the task is shown: it is slow, in the sample, or of a real device (real).
	Why string `json:"why"`
	// Probe says that the client was only asked for its loss.
	Probe bool `json:"probe,omitempty"`
	// Steps is the number of local steps that the task asks for, K.
	Steps   int    `json:"local_steps"`
	Outcome string `json:"outcome"`
	Start   number `json:"start"`
	// Download is how long the download took, as far as it came.
	Download number `json:"download"`
	Compute  number `json:"compute"`
	Upload   number `json:"upload"`
	// Waiting is the time beyond the plan, in which a device was silent.
	Waiting number `json:"waiting"`
	// Planned is how long the task would have taken by its plan.
	Planned number `json:"planned"`
}

// notices are the last lines about the run.
type notices struct {
	// Unseen is the number of notices that are no longer held.
	Unseen int      `json:"unseen"`
	List   []notice `json:"list"`
}

// shownDevices bounds the real devices that the page lists.
const shownDevices = 100

// shownTasks bounds the tasks that are shown of each of the slowest, the sample and the real
// devices.
const shownTasks = 10

// snapshot makes the picture of the state at the wall-clock time now. The caller holds h.mu; the
// result shares no memory that the state changes later. Values that are not known are NaN, which
// JSON shows as null.
func (h *Hub) snapshot(now time.Time) *snapshot {
	s := &h.state
	run := &h.run
	result := &snapshot{
		Format: format,
		Run: runShown{
			ID:       h.id,
			Name:     run.Name,
			Task:     run.Task,
			Schedule: run.Schedule,
			Data:     run.Data,
			Closing:  run.Closing,
			Version:  run.Version,
			Seed:     run.Seed,
			Clients:  run.Clients,
			Cohort:   run.Cohort,
			Window:   run.Window,
			Started:  run.Started.Format(time.RFC3339),
			Delta:    run.Delta,
			Metrics:  metricsShown(run),
			Own:      run.NonDefault,
			Settings: run.Settings,
		},
		State: "running",
		Progress: progress{
			Round:          s.last.Round,
			Rounds:         run.Rounds,
			VirtualSeconds: number(s.last.End.Seconds()),
			VirtualTotal:   run.VirtualSeconds,
			Fraction:       run.Fraction(s.last.Round, s.last.End.Seconds()),
			Left:           number(math.NaN()),
		},
		Now: measures{
			Epsilon:          number(math.NaN()),
			TrainingLoss:     number(s.last.WindowLoss),
			BestTrainingLoss: number(s.bestWindow),
		},
		Outcomes:      s.outcomes,
		EmptyRounds:   s.empty,
		Actors:        actorsShown{Simulated: run.Clients, Real: len(run.Devices)},
		Spent:         spent{metrics.Seconds(s.used.Time), s.used.Steps, s.used.Bytes},
		Curves:        curves{history: s.history},
		Evaluations:   evaluated{s.evaluations.Each, run.Metrics, s.evaluations.All()},
		Fairness:      s.fairness,
		Participation: s.participation.histogram(run),
		RoundTimes:    s.spread.shown(),
		LastRound:     s.lastRound(run),
		Waits:         s.waits.shown(run, number(s.used.StragglerShare())),
		Notices:       notices{s.unseen, slices.Clone(s.notices)},
	}
	// A copy, because rounds are added to the history's points later.
	result.Curves.points = slices.Clone(s.history.points)
	for i := range h.columns {
		result.Columns = append(result.Columns, valueShown{h.columns[i], number(h.columns[i].Of(&s.last))})
	}
	// Seen is nil where the run has no real devices.
	if run.Seen != nil {
		seen := run.Seen()
		result.Actors.Devices = seen[:min(len(seen), shownDevices)]
	}
	if e := run.Epsilon; e != nil {
		result.Now.Epsilon = number(e(s.last.Round))
	}
	for i := range run.Metrics {
		result.Now.Metrics = append(result.Now.Metrics, number(metric.ValueAt(s.last.Metrics, i)))
		result.Now.BestMetrics = append(result.Now.BestMetrics, number(s.evaluations.best[i]))
	}
	p := &result.Progress
	// A run that has ended has neither an idle time nor an expected end.
	if e := s.end; e != nil {
		result.State = "stopped"
		result.Why = s.reason
		result.Summary = e.Summary
		if e.Completed {
			result.State = "completed"
		}
		p.WallSeconds = e.Elapsed.Seconds()
		return result
	}
	p.WallSeconds = (s.elapsed + now.Sub(run.Started)).Seconds()
	if !s.changed.IsZero() {
		p.Idle = now.Sub(s.changed).Seconds()
	}
	if run.Remaining != nil {
		if remaining, low, high, ok := run.Remaining(); ok {
			p.Left = number(remaining)
			p.LeftWithin = [2]number{number(low), number(high)}
		}
	}
	return result
}

// metricsShown returns the metrics of the run in their order. Each says whether it measures the
// quality that the page shows first, and at which value the run ends (NaN: it has no target).
func metricsShown(run *metrics.Run) []metricShown {
	list := []metricShown{}
	for i, m := range run.Metrics {
		shown := metricShown{m.Name, i == run.Quality.Index, number(math.NaN())}
		for _, t := range run.Targets {
			if t.Index == i {
				shown.Target = number(t.Value)
			}
		}
		list = append(list, shown)
	}
	return list
}

// shown returns the distribution of the durations for the page: quantiles and bars in seconds. All
// quantiles are NaN, and there are no bars, while no round has closed.
func (s *spread) shown() roundTimes {
	nan := number(math.NaN())
	shown := roundTimes{
		Count:  s.total,
		Median: nan,
		P90:    nan,
		P99:    nan,
		Most:   nan,
		Bars:   []bar{},
	}
	if s.total == 0 {
		return shown
	}
	seconds := func(t round.Time) number { return number(t.Seconds()) }
	// Quantiles are those of the sample, and the maximum is exact.
	sorted := s.sorted()
	shown.Most = seconds(s.max)
	shown.Median = seconds(quantile(sorted, 0.5))
	shown.P90 = seconds(quantile(sorted, 0.9))
	shown.P99 = seconds(quantile(sorted, 0.99))
	shown.Bars, shown.Logarithmic = s.bars(sorted)
	return shown
}

// lastRound makes the timeline of the last round of the run. It chooses at most shownTasks tasks each
// of the real devices, of the slowest and of the sampled ones, and lists them together with the
// longest first. Times of tasks are seconds since the round's start.
func (s *state) lastRound(run *metrics.Run) lastRound {
	r := &s.last
	result := lastRound{
		Round:    r.Round,
		Start:    number(r.Start.Seconds()),
		Seconds:  number((r.End - r.Start).Seconds()),
		Deadline: number(math.NaN()),
		Cohort:   r.Cohort,
		Tasks:    []taskShown{},
	}
	if run.Deadline > 0 {
		result.Deadline = number(run.Deadline.Seconds())
	}
	result.Outcomes.Add(r)
	tasks := slices.Clone(s.tasks)
	// The longest tasks come first. Of tasks that were cut at the same time, the one with the
	// longer plan does.
	slices.SortFunc(tasks, func(a, b metrics.Task) int {
		return cmp.Or(
			cmp.Compare(b.End-b.Start, a.End-a.Start),
			cmp.Compare(b.Plan.Total(), a.Plan.Total()),
			cmp.Compare(a.TaskReport.Task, b.TaskReport.Task),
		)
	})
	// remaining counts how many tasks may still be shown for each reason.
	remaining := map[string]int{"slow": shownTasks, "sample": shownTasks, "real": shownTasks}
	for i := range tasks {
		t := &tasks[i]
		// A slow task beyond the number of slow ones that may be shown counts among the sampled.
		reason := "sample"
		kind := "simulated"
		switch {
		case t.Real:
			reason = "real"
			kind = "real"
		case t.Slow && remaining["slow"] > 0:
			reason = "slow"
		}
		// As many tasks as may be shown for this reason are already shown.
		if remaining[reason] == 0 {
			continue
		}
		remaining[reason]--
		name := t.Name
		class := ""
		// Numbers of real devices follow those of the simulated clients. A class is worth showing
		// only if there are several.
		if d := t.Client - run.Clients; t.Real && d >= 0 && d < len(run.Devices) {
			name = run.Devices[d]
		} else if !t.Real && len(run.Classes) > 1 && t.Class < len(run.Classes) {
			class = run.Classes[t.Class]
		}
		parts := metrics.PartsOf(&t.TaskReport)
		seconds := func(p metrics.Phase) number { return number(parts[p].Seconds()) }
		result.Tasks = append(result.Tasks, taskShown{
			Task:     t.TaskReport.Task,
			Client:   t.Client,
			Name:     name,
			Class:    class,
			Kind:     kind,
			Why:      reason,
			Probe:    t.Probe,
			Steps:    t.LocalSteps,
			Outcome:  t.Outcome.String(),
			Start:    number((t.Start - r.Start).Seconds()),
			Download: seconds(metrics.Download),
			Compute:  seconds(metrics.Compute),
			Upload:   seconds(metrics.Upload),
			Waiting:  seconds(metrics.Waiting),
			Planned:  number(t.Plan.Total().Seconds()),
		})
	}
	return result
}

// number is a JSON number. Null stands for a value that was not measured.
type number float64

// MarshalJSON writes null for NaN and the infinities, which JSON lacks.
func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return strconv.AppendFloat(nil, v, 'g', -1, 64), nil
	}
	return []byte("null"), nil
}

// numbers returns one field of all points, in their order: field returns its value of one point,
// and NaN becomes null in JSON.
func numbers[T any](points []T, field func(*T) float64) []number {
	list := make([]number, len(points))
	for i := range points {
		list[i] = number(field(&points[i]))
	}
	return list
}

// curves are the rounds against virtual time, from a point on.
type curves struct {
	history
	// first is the place of the first point among all points.
	first int
}

// MarshalJSON writes an object with a list for each column, one number for each point from c.first
// on. Where a value holds from a round's start, or is a mean already, it is the last of the point's
// rounds, otherwise their mean. The training loss has two more lists, the least and the largest of
// the rounds.
func (c curves) MarshalJSON() ([]byte, error) {
	points := c.points[c.first:]
	object := map[string]any{
		"from": c.first, "each": c.each,
		"round":           numbers(points, func(p *point) float64 { return float64(p.round) }),
		"virtual_seconds": numbers(points, func(p *point) float64 { return p.end.Seconds() }),
	}
	// Each column has its own rule of how many rounds become one number.
	for i := range c.columns {
		column := &c.columns[i]
		object[column.Name] = numbers(points, func(p *point) float64 {
			if column.AtStart || column.Derived {
				return p.values[i].last
			}
			return p.values[i].mean()
		})
		if column.Name == trainingLoss {
			object["training_loss_low"] = numbers(points, func(p *point) float64 { return p.values[i].low })
			object["training_loss_high"] = numbers(points, func(p *point) float64 { return p.values[i].high })
		}
	}
	return json.Marshal(object)
}

// valueShown is a column with its value in the last round in which it was measured.
type valueShown struct {
	metrics.Column
	Value number `json:"value"`
}

// evaluated are the evaluations as the page draws them.
type evaluated struct {
	// each is the number of evaluations in one point.
	each int
	// metrics are the run's metrics; their names are the names of the lists.
	metrics []metric.Metric
	// points are the evaluations, in the order of their rounds.
	points []evaluation
}

// MarshalJSON writes an object with a list for each column: round, virtual time, loss and each
// metric by its name. The lists are equally long, with one number for each evaluation; null: not
// measured.
func (e evaluated) MarshalJSON() ([]byte, error) {
	object := map[string]any{
		"each":            e.each,
		"round":           numbers(e.points, func(e *evaluation) float64 { return float64(e.round) }),
		"virtual_seconds": numbers(e.points, func(e *evaluation) float64 { return e.end.Seconds() }),
		"loss":            numbers(e.points, func(e *evaluation) float64 { return e.loss }),
	}
	for i, m := range e.metrics {
		object[m.Name] = numbers(e.points, func(e *evaluation) float64 { return metric.ValueAt(e.metrics, i) })
	}
	return json.Marshal(object)
}
