package archtest

// rule restrains the packages that match from. A pattern is a folder below the
// module, "folder/..." for it and all below, or a module of someone else with
// "/...".
type rule struct {
	from []string
	why  string

	// Exactly one of these is set.
	only  []string // beyond the standard library, imports from nowhere else
	never []string // reaches none of these, directly or through others
	owner []string // the other way round: only packages matching from may import these
}

// rules are the directions of docs/design.md: cmd -> experiment ->
// coordinator, actors -> bus, simclock.
var rules = []rule{
	{
		from: []string{"internal/keyed", "internal/names", "simclock", "coordinator/fairshare", "coordinator/theory"},
		why:  "it is pure and stands on the standard library alone",
		only: []string{},
	},
	{
		from: []string{"coordinator/schedule"},
		why:  "it is pure: formulas on the standard library",
		only: []string{"internal/keyed", "internal/registry"},
	},
	{
		from: []string{"coordinator/round"},
		why:  "the core is a pure state machine on the standard library",
		only: []string{"internal/keyed", "internal/registry", "coordinator/fairshare", "coordinator/schedule", "simclock"},
	},
	{
		from:  []string{"coordinator/aggregate/...", "actors/learn/...", "actors/data/...", "actors/device/..."},
		why:   "it knows nothing of NATS, of Prometheus, or of who uses it",
		never: []string{"bus/...", "metrics/...", "experiment/...", "cmd/...", "coordinator", "coordinator/round", "actors", "github.com/nats-io/...", "github.com/prometheus/..."},
	},
	{
		from:  []string{"experiment/config"},
		why:   "a configuration knows the options of pure packages, not how a run is carried out",
		never: []string{"actors", "actors/data", "bus/...", "coordinator", "metrics/...", "cmd/...", "github.com/nats-io/...", "gonum.org/..."},
	},
	{
		from:  []string{"bus/..."},
		why:   "the bus carries messages for coordinator and actors and depends on neither",
		never: []string{"coordinator", "actors", "metrics/...", "experiment/...", "cmd/..."},
	},
	{
		from:  []string{"actors/..."},
		why:   "actors answer the coordinator over the bus alone",
		never: []string{"coordinator", "experiment/...", "cmd/..."},
	},
	{
		from:  []string{"coordinator/..."},
		why:   "the coordinator knows its clients over the bus alone",
		never: []string{"actors", "experiment/...", "cmd/..."},
	},
	{
		from:  []string{"metrics/..."},
		why:   "metrics show what others report",
		never: []string{"actors", "coordinator", "bus/...", "experiment/...", "cmd/..."},
	},
	{
		from:  []string{"experiment/..."},
		why:   "a library does not know the command line",
		never: []string{"cmd/..."},
	},
	{
		from:  []string{"bus/...", "coordinator", "actors"},
		why:   "NATS is the matter of the bus and of those who drive it",
		owner: []string{"github.com/nats-io/..."},
	},
	{
		from:  []string{"metrics/..."},
		why:   "Prometheus is the matter of metrics",
		owner: []string{"github.com/prometheus/..."},
	},
	{
		from:  []string{"cmd/..."},
		why:   "what talks to a terminal belongs to the command",
		owner: []string{"github.com/spf13/..."},
	},
}
