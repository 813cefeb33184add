package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
)

// Column is a quantity that every round has. Tables, dashboards and pages are made of the list
// [Columns]: a new quantity of a round is one more entry there.
type Column struct {
	// Name is the column's name in tables.
	Name string `json:"name"`
	// Help says in a phrase what the column is.
	Help string `json:"help"`
	// Unit is the unit of the values, e.g. "s"; empty: there is none.
	Unit string `json:"unit"`

	// Field returns a pointer to where a report holds the value: a *int, a *int64 of a number that
	// only grows, a *float64, which is NaN where nothing was measured, or a *round.Time.
	Field func(*round.Report) any `json:"-"`
	// Get computes the value of a column without a field, and Kind says of which kind it is. Set
	// writes it back into a report, in the order of the list, unless it follows from other columns.
	Get  func(*round.Report) Number  `json:"-"`
	Set  func(*round.Report, Number) `json:"-"`
	Kind Kind                        `json:"kind"`

	// Optional says that some rounds have no value.
	Optional bool `json:"-"`
	// Derived says that the values follow from other columns. Of such columns rounds.csv has
	// window_loss alone, as its last one.
	Derived bool `json:"-"`
	// Steered says that only runs with a steered schedule of K have the column.
	Steered bool `json:"-"`
	// AtStart says that a value holds from its round's start on, not from its end.
	AtStart bool `json:"at_start"`

	// The names in other outputs; "-" means that the output has the value in another form.
	// Metric is the name in Prometheus and OpenMetrics, after their prefix; empty: Name.
	Metric string `json:"-"`
	// Tag is the name in TensorBoard; empty: Name in the group "round".
	Tag string `json:"-"`
	// Axis is the title of the axis along which pages show other columns; empty: it is no axis.
	Axis string `json:"axis"`
	// Title is the title of the column's chart on pages; empty: it has no chart.
	Title string `json:"title"`
	// Figure says whether the figures of runs have a panel of the column.
	Figure bool `json:"-"`
}

// Number is the value of a column in one round.
type Number struct {
	// Int is the exact value, in nanoseconds for a Time; 0 for a Real.
	Int int64
	// Float is the value, in seconds for a Time; NaN: nothing was measured.
	Float float64
}

// Kind says which numbers a column holds.
type Kind string

// The kinds of numbers.
const (
	// Count is the kind of columns of integers.
	Count Kind = "count"
	// Total is the kind of columns of integers that only grow.
	Total Kind = "total"
	// Real is the kind of columns of floating-point numbers.
	Real Kind = "real"
	// Time is the kind of columns of virtual time, exact in nanoseconds and shown in seconds.
	Time Kind = "time"
)

// Columns are the quantities of a round, in the order of rounds.csv. The metrics of a run's model have
// columns only in [ColumnsOf], after the validation loss.
var Columns = []Column{
	{
		Name:  "round",
		Help:  "number of the round, from 1",
		Tag:   "-",
		Axis:  "round",
		Field: func(r *round.Report) any { return &r.Round },
	},
	{
		Name:    "start_seconds",
		Help:    "virtual time of the round's first task; rounds that overlap: of the close before",
		Unit:    "s",
		Derived: true,
		Metric:  "-",
		Tag:     "-",
		Field:   func(r *round.Report) any { return &r.Start },
	},
	{
		Name:   "virtual_seconds",
		Help:   "virtual time at the round's close",
		Unit:   "s",
		Metric: "-",
		Tag:    "time/virtual_seconds",
		Axis:   "virtual time",
		Field:  func(r *round.Report) any { return &r.End },
	},
	{
		Name:   "round_seconds",
		Help:   "virtual duration of the round",
		Unit:   "s",
		Kind:   Time,
		Metric: "round_duration_seconds",
		Tag:    "time/round_seconds",
		Title:  "Time of a round",
		Get:    func(r *round.Report) Number { return seconds(r.End - r.Start) },
		Set:    func(r *round.Report, v Number) { r.Start = r.End - round.Time(v.Int) },
	},
	{
		Name:    "local_steps",
		Help:    "local SGD steps a client, K_r",
		Unit:    "steps",
		AtStart: true,
		Tag:     "schedule/local_steps",
		Title:   "Local steps, K_r",
		Figure:  true,
		Field:   func(r *round.Report) any { return &r.LocalSteps },
	},
	{
		Name:    "learning_rate",
		Help:    "learning rate, eta_r",
		AtStart: true,
		Tag:     "schedule/learning_rate",
		Title:   "Learning rate, η_r",
		Field:   func(r *round.Report) any { return &r.LearningRate },
	},
	{
		Name:  "cohort",
		Help:  "tasks that ended in the round",
		Unit:  "tasks",
		Tag:   "tasks/cohort",
		Field: func(r *round.Report) any { return &r.Cohort },
	},
	outcome(round.Accepted, "tasks whose update counts"),
	outcome(round.Late, "tasks that would have ended after the deadline, or from too old a model"),
	outcome(round.Dropped, "tasks whose client left"),
	outcome(round.Lost, "tasks of devices that fell silent"),
	outcome(round.Cancelled, "tasks that the close made needless"),
	outcome(round.Refused, "tasks whose update was not valid"),
	{
		Name:     "training_loss",
		Help:     "mean first-step loss of the accepted clients",
		Optional: true,
		Tag:      "loss/training",
		Field:    func(r *round.Report) any { return &r.TrainingLoss },
	},
	{
		Name:     "window_loss",
		Help:     "mean of the training loss over the last rounds (Eq. 15)",
		Optional: true,
		Derived:  true,
		Tag:      "loss/window",
		Title:    "Training loss, mean of the window",
		Field:    func(r *round.Report) any { return &r.WindowLoss },
	},
	{
		Name:     validationLoss,
		Help:     "mean loss on held-out samples",
		Kind:     Real,
		Optional: true,
		Tag:      "loss/validation",
		Title:    "Validation loss",
		Get:      func(r *round.Report) Number { return optional(r.Evaluated, Number{Float: r.ValidationLoss}) },
		Set: func(r *round.Report, v Number) {
			r.ValidationLoss = v.Float
			r.Evaluated = true
		},
	},
	{
		Name:  "sgd_steps",
		Help:  "local SGD steps of one client of each round so far: the sum of K_r",
		Unit:  "steps",
		Tag:   "schedule/sgd_steps",
		Axis:  "SGD steps a client",
		Field: func(r *round.Report) any { return &r.SGDSteps },
	},
	{
		Name:     "smallest_local_steps",
		Help:     "smallest K of the tasks that ended in the round",
		Unit:     "steps",
		Kind:     Count,
		Optional: true,
		Tag:      "schedule/smallest_local_steps",
		Get:      func(r *round.Report) Number { return optional(r.KnowsSteps(), integer(int64(r.Steps.Smallest))) },
		Set: func(r *round.Report, v Number) {
			r.Steps.Tasks = r.Cohort
			r.Steps.Smallest = int(v.Int)
		},
	},
	{
		Name:     "mean_local_steps",
		Help:     "mean K of the tasks that ended in the round",
		Unit:     "steps",
		Kind:     Real,
		Optional: true,
		Tag:      "schedule/mean_local_steps",
		Get:      func(r *round.Report) Number { return optional(r.KnowsSteps(), Number{Float: r.Steps.Mean()}) },
		Set:      func(r *round.Report, v Number) { r.Steps.Sum = int64(math.Round(v.Float * float64(r.Cohort))) },
	},
	{
		Name:     "largest_local_steps",
		Help:     "largest K of the tasks that ended in the round",
		Unit:     "steps",
		Kind:     Count,
		Optional: true,
		Tag:      "schedule/largest_local_steps",
		Get:      func(r *round.Report) Number { return optional(r.KnowsSteps(), integer(int64(r.Steps.Largest))) },
		Set:      func(r *round.Report, v Number) { r.Steps.Largest = int(v.Int) },
	},
	{
		Name:     Tokens,
		Help:     "tokens of the local steps that count so far, over all clients",
		Unit:     "tokens",
		Kind:     Total,
		Optional: true,
		Tag:      "schedule/tokens",
		Axis:     "tokens",
		Get:      func(r *round.Report) Number { return optional(r.Tokens > 0, integer(r.Tokens)) },
		Set:      func(r *round.Report, v Number) { r.Tokens = v.Int },
	},
	reason("top_local_steps", "steered K: the largest K that a round would have", "steps",
		func(r *round.Report) *float64 { return &r.Reason.Top }),
	reason("round_base_seconds", "steered K: what a round was measured to take whatever its K", "s",
		func(r *round.Report) *float64 { return &r.Reason.Pace.Round }),
	reason("step_seconds", "steered K: what each more of K was measured to take", "s",
		func(r *round.Report) *float64 { return &r.Reason.Pace.Step }),
	reason("run_share", "steered K: part of the run that was over, 0 to 1", "",
		func(r *round.Report) *float64 { return &r.Reason.Share }),
	reason(lossRise, "steered K: by how many deviations losses have risen; above 8 the data have changed", "",
		func(r *round.Report) *float64 { return &r.Reason.LossRise }),
	{
		Name:     changeRound,
		Help:     "steered K: round in which a change of the data was noticed last; 0: none",
		Kind:     Count,
		Optional: true,
		AtStart:  true,
		Steered:  true,
		Tag:      "schedule/" + changeRound,
		Get: func(r *round.Report) Number {
			return optional(r.Reason.Known, integer(int64(r.Reason.ChangeRound)))
		},
		Set: func(r *round.Report, v Number) { r.Reason.ChangeRound = int(v.Int) },
	},
	used("client_seconds", "time of clients on tasks so far", "s", "client time",
		func(u *round.Used) float64 { return u.Time.Seconds() },
		func(u *round.Used, v float64) { u.Time = round.Time(math.Round(v * 1e9)) }),
	used("bytes", "bytes of models and updates so far, both ways", "bytes", "bytes",
		func(u *round.Used) float64 { return float64(u.Bytes) },
		func(u *round.Used, v float64) { u.Bytes = int64(v) }),
	used("joules", "energy of tasks so far", "J", "energy",
		func(u *round.Used) float64 { return u.Joules },
		func(u *round.Used, v float64) { u.Joules = v }),
	used("carbon_grams", "grams of CO2 of this energy", "g", "CO2",
		func(u *round.Used) float64 { return u.Grams },
		func(u *round.Used, v float64) { u.Grams = v }),
	used("cost", "what this energy costs", "", "cost",
		func(u *round.Used) float64 { return u.Cost },
		func(u *round.Used, v float64) { u.Cost = v }),
	{
		Name:     Closes + "seconds",
		Help:     "the round's deadline, where a formula gives it",
		Unit:     "s",
		Kind:     Time,
		Optional: true,
		AtStart:  true,
		Tag:      "round/" + Closes + "seconds",
		Title:    "Deadline of a round",
		Get: func(r *round.Report) Number {
			return optional(r.Closing.Deadline > 0, seconds(r.Closing.Deadline))
		},
		Set: func(r *round.Report, v Number) { r.Closing.Deadline = round.Time(v.Int) },
	},
	{
		Name:     Closes + "updates",
		Help:     "updates that close the round, where a formula gives them",
		Unit:     "tasks",
		Kind:     Count,
		Optional: true,
		AtStart:  true,
		Tag:      "round/" + Closes + "updates",
		Get:      func(r *round.Report) Number { return optional(r.Closing.N > 0, integer(int64(r.Closing.N))) },
		Set:      func(r *round.Report, v Number) { r.Closing.N = int(v.Int) },
	},
	{
		Name:     wantedClients,
		Help:     "clients that the round selects, where a formula gives them",
		Unit:     "clients",
		Kind:     Count,
		Optional: true,
		AtStart:  true,
		Tag:      "schedule/" + wantedClients,
		Title:    "Clients of a round",
		Get:      func(r *round.Report) Number { return optional(r.Wanted > 0, integer(int64(r.Wanted))) },
		Set:      func(r *round.Report, v Number) { r.Wanted = int(v.Int) },
	},
	{
		Name:     lateLimit,
		Help:     "rounds that a late update may be behind at the round's close, where a formula gives them",
		Unit:     "rounds",
		Kind:     Count,
		Optional: true,
		AtStart:  true,
		Tag:      "round/" + lateLimit,
		Get:      func(r *round.Report) Number { return optional(r.LateLimit > 0, integer(int64(r.LateLimit))) },
		Set:      func(r *round.Report, v Number) { r.LateLimit = int(v.Int) },
	},
	{
		Name:  "late_used",
		Help:  "late updates of earlier rounds that count in the round",
		Unit:  "tasks",
		Tag:   "tasks/late_used",
		Field: func(r *round.Report) any { return &r.LateUsed },
	},
	{
		Name:  Secure + "members",
		Help:  "clients of secure aggregation that have shared their secrets",
		Unit:  "clients",
		Tag:   "secure/members",
		Field: func(r *round.Report) any { return &r.Secure.Members },
	},
	{
		Name:  Secure + "recovered",
		Help:  "clients of secure aggregation that left and without whom the sum was recovered",
		Unit:  "clients",
		Tag:   "secure/recovered",
		Title: "Clients recovered",
		Field: func(r *round.Report) any { return &r.Secure.Recovered },
	},
	{
		Name: Secure + "unrecovered",
		Help: "1 if secure aggregation refused the round or could not recover its sum, else 0; where sites add up, " +
			"how many of their own rounds",
		Tag:   "secure/unrecovered",
		Field: func(r *round.Report) any { return &r.Secure.Unrecovered },
	},
	{
		Name:  Secure + "setup_seconds",
		Help:  "virtual time of the stages of keys and shares, before the tasks",
		Unit:  "s",
		Tag:   "secure/setup_seconds",
		Title: "Secure aggregation: time before the tasks",
		Field: func(r *round.Report) any { return &r.Secure.Setup },
	},
	{
		Name:  Secure + "recovery_seconds",
		Help:  "virtual time of the stages of survivors and recovery, after the close",
		Unit:  "s",
		Tag:   "secure/recovery_seconds",
		Title: "Secure aggregation: time after the tasks",
		Field: func(r *round.Report) any { return &r.Secure.Recovery },
	},
	{
		Name:  Secure + "keys_seconds",
		Help:  "virtual time of the stage of keys, the first part of secure_setup_seconds; shares are the rest",
		Unit:  "s",
		Tag:   "secure/keys_seconds",
		Title: "Secure aggregation: time of keys",
		Field: func(r *round.Report) any { return &r.Secure.Keys },
	},
	{
		Name: Secure + "survivors_seconds",
		Help: "virtual time of the stage of survivors, which is the first part of secure_recovery_seconds; revealed " +
			"shares are the rest",
		Unit:  "s",
		Tag:   "secure/survivors_seconds",
		Title: "Secure aggregation: time of survivors",
		Field: func(r *round.Report) any { return &r.Secure.Survivors },
	},
	{
		Name: Secure + "bytes",
		Help: "bytes that secure aggregation adds to the round, of all clients both ways",
		Unit: "bytes",
		Kind: Count,
		Tag:  "secure/bytes",
		Get:  func(r *round.Report) Number { return integer(r.Secure.Bytes) },
		Set:  func(r *round.Report, v Number) { r.Secure.Bytes = v.Int },
	},
}

// validationLoss is the name of the column after which the model's metrics follow.
const validationLoss = "validation_loss"

// Closes is the prefix of the names of columns that only runs have whose rounds close by formulas.
const Closes = "close_"

// wantedClients and lateLimit are the columns of numbers that formulas give a round besides those by
// which it closes.
const (
	wantedClients = "wanted_clients"
	lateLimit     = "late_limit"
)

// lossRise and changeRound are the columns that only runs have whose schedule looks for changes of the data.
const (
	lossRise    = "loss_rise"
	changeRound = "change_round"
)

// Tokens is the name of a column that only runs have whose samples consist of tokens.
const Tokens = "tokens"

// Secure is the prefix of the names of columns that only runs with secure aggregation have.
const Secure = "secure_"

// Validation is the prefix of the names of the metrics' columns.
const Validation = "validation_"

// used returns a column of rounds.csv with what clients have used so far of a resource, such as energy. Only runs with
// a budget of it, or with a trace of the electricity grid, have the column. axis is the title of the axis along which
// pages show other columns against this one. get and set read and write its value.
func used(
	name, help, unit, axis string,
	get func(*round.Used) float64,
	set func(*round.Used, float64),
) Column {
	return Column{
		Name: Uses + name,
		Help: help,
		Unit: unit,
		Kind: Real,
		Tag:  "used/" + name,
		Axis: axis,
		Get:  func(r *round.Report) Number { return Number{Float: get(&r.Used)} },
		Set:  func(r *round.Report, v Number) { set(&r.Used, v.Float) },
	}
}

// Uses is the prefix of the names of columns that only runs have which count what clients use.
const Uses = "used_"

// reason returns a column with a number by which a steered schedule has chosen K, the number of local steps, for a
// round: such a schedule measures how long rounds take (see [Column.Steered]). field returns where a report has the
// number. Rounds before the first measurement have no value.
func reason(name, help, unit string, field func(*round.Report) *float64) Column {
	return Column{
		Name:     name,
		Help:     help,
		Unit:     unit,
		Kind:     Real,
		Optional: true,
		AtStart:  true,
		Steered:  true,
		Tag:      "schedule/" + name,
		Get:      func(r *round.Report) Number { return optional(r.Reason.Known, Number{Float: *field(r)}) },
		Set: func(r *round.Report, v Number) {
			r.Reason.Known = true
			*field(r) = v.Float
		},
	}
}

// outcome returns the column that counts the tasks of a round that ended with outcome o. help says
// what that means. Prometheus has counters of its own for outcomes, so the column has no metric.
func outcome(o round.Outcome, help string) Column {
	return Column{
		Name:   o.String(),
		Help:   help,
		Unit:   "tasks",
		Metric: "-",
		Tag:    "tasks/" + o.String(),
		Field:  func(r *round.Report) any { return &r.Outcomes[o] },
	}
}

// metricColumn returns the column of the model's metric with this name, which is number i of the
// run's metrics. It has a value only in rounds after which the model was evaluated.
func metricColumn(i int, name string) Column {
	about := name + " on held-out samples"
	if name == metric.Accuracy {
		about = "top-1 accuracy on held-out samples, 0 to 1"
	}
	return Column{
		Name:     Validation + name,
		Help:     about,
		Kind:     Real,
		Optional: true,
		Metric:   "-",
		Tag:      name + "/validation",
		Title:    "Validation " + metric.Title(name),
		Get: func(r *round.Report) Number {
			return optional(r.Evaluated, Number{Float: metric.ValueAt(r.Metrics, i)})
		},
		Set: func(r *round.Report, v Number) {
			// Metrics that were not read yet count as not measured.
			for len(r.Metrics) <= i {
				r.Metrics = append(r.Metrics, math.NaN())
			}
			r.Metrics[i] = v.Float
		},
	}
}

// integer is an integer as a Number.
func integer(n int64) Number { return Number{n, float64(n)} }

// seconds is a virtual time as a Number.
func seconds(t round.Time) Number { return Number{int64(t), t.Seconds()} }

// optional is v if it was measured, and NaN otherwise.
func optional(measured bool, v Number) Number {
	if !measured {
		return Number{Float: math.NaN()}
	}
	return v
}

// ColumnsOf are the columns of a run whose models have metrics of the given names. All fields of a column
// that follow from others are filled in.
func ColumnsOf(metrics ...string) []Column {
	list := slices.Clone(Columns)
	position := 1 + slices.IndexFunc(list, func(c Column) bool { return c.Name == validationLoss })
	for i, name := range metrics {
		list = slices.Insert(list, position+i, metricColumn(i, name))
	}
	for i := range list {
		list[i].complete()
	}
	return list
}

// complete fills in what follows from a column's name and field: how it is read and set, its kind,
// and its names in TensorBoard and Prometheus. It panics if the column is not well defined.
func (c *Column) complete() {
	c.Tag = cmp.Or(c.Tag, "round/"+c.Name)
	if field := c.Field; field != nil {
		c.useField(field)
	}
	if c.Get == nil || c.Kind == "" {
		panic(fmt.Sprintf("metrics: the column %s has no Field, and not both Get and Kind", c.Name))
	}
	// Prometheus expects the name of a counter to end with _total.
	if c.Metric == "" {
		c.Metric = c.Name
		if c.Kind == Total {
			c.Metric += "_total"
		}
	}
}

// useField sets Kind, Get and Set of the column by the type of a report's field. field returns the
// pointer to that field in a report. A type that no column can have is a panic.
func (c *Column) useField(field func(*round.Report) any) {
	// Any report has the types, so an empty one serves.
	switch p := field(&round.Report{}).(type) {
	case *int:
		c.Kind = Count
		c.Get = func(r *round.Report) Number { return integer(int64(*field(r).(*int))) }
		c.Set = func(r *round.Report, v Number) { *field(r).(*int) = int(v.Int) }
	case *int64:
		c.Kind = Total
		c.Get = func(r *round.Report) Number { return integer(*field(r).(*int64)) }
		c.Set = func(r *round.Report, v Number) { *field(r).(*int64) = v.Int }
	case *float64:
		c.Kind = Real
		c.Get = func(r *round.Report) Number { return Number{Float: *field(r).(*float64)} }
		c.Set = func(r *round.Report, v Number) { *field(r).(*float64) = v.Float }
	case *round.Time:
		c.Kind = Time
		c.Get = func(r *round.Report) Number { return seconds(*field(r).(*round.Time)) }
		c.Set = func(r *round.Report, v Number) { *field(r).(*round.Time) = round.Time(v.Int) }
	default:
		panic(fmt.Sprintf("metrics: the column %s has a field %T", c.Name, p))
	}
}

// Columns are the columns of this run.
func (r *Run) Columns() []Column {
	return r.WithValues(ColumnsOf(metric.Names(r.Metrics)...))
}

// WithValues removes from list the columns of which the run has no values, and returns the others
// in their order. It changes the memory of list.
func (r *Run) WithValues(list []Column) []Column {
	return slices.DeleteFunc(list, func(c Column) bool {
		lacksTokens := c.Name == Tokens && !r.Tokens
		lacksReasons := c.Steered && !r.Steered
		lacksChanges := (c.Name == lossRise || c.Name == changeRound) && !r.TestsChanges
		lacksClosing := strings.HasPrefix(c.Name, Closes) && !r.ClosesByFormula
		lacksCohort := c.Name == wantedClients && !r.CohortByFormula
		lacksLimit := c.Name == lateLimit && !r.LateByFormula
		lacksUse := strings.HasPrefix(c.Name, Uses) && !r.CountsUse
		lacksSecure := strings.HasPrefix(c.Name, Secure) && !r.Secure
		return slices.Contains([]bool{
			lacksTokens,
			lacksReasons,
			lacksChanges,
			lacksClosing,
			lacksCohort,
			lacksLimit,
			lacksUse,
			lacksSecure,
		}, true)
	})
}

// Of is the value in a round; NaN if nothing was measured.
func (c *Column) Of(r *round.Report) float64 { return c.Get(r).Float }

// Sentence is the help as a sentence.
func (c *Column) Sentence() string { return strings.ToUpper(c.Help[:1]) + c.Help[1:] + "." }
