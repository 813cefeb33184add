package config

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/selection"
	"fedpace/data/table"
	"fedpace/learn"
	"fedpace/registry"
)

// anyRules draws how a round's clients are chosen, how it closes, and what
// becomes of their updates.
func anyRules(t *rapid.T, c *Config) {
	size := func(name string) int { return rapid.IntRange(1, c.Cohort).Draw(t, name) }
	switch rapid.IntRange(0, 3).Draw(t, "close") {
	case 1:
		c.Close = closing.Deadline{Seconds: rapid.Float64Range(1e-3, 1e6).Draw(t, "deadline")}
	case 2:
		c.Close = closing.First{N: size("first")}
	case 3:
		c.Close = closing.Buffered{N: size("buffer"), StalenessLimit: rapid.IntRange(0, 9).Draw(t, "staleness")}
	}
	from := rapid.SampledFrom([]selection.Rule{nil, selection.Uniform{}, selection.RoundRobin{}}).Draw(t, "from")
	rules := []selection.Rule{selection.Uniform{}}
	if !closing.Overlaps(c.Close) {
		rules = append(rules, selection.PowerOfChoice{Candidates: c.Cohort, Base: from}, selection.Fit{Base: from, MinSteps: 3}, selection.RoundRobin{},
			selection.Oort{Seconds: 0.5, Window: 7, Penalty: 3, Explore: 0.7, Decay: 0.5, MinEpsilon: 0.1, CutOff: 0.9, Clip: 0.8, Picks: 4},
			selection.Tifl{Tiers: 1, Interval: 5, Credits: 6}, selection.Flanp{Begin: 1, Patience: 2, MinDelta: 0.5})
	}
	if c.Close.Deadline() > 0 {
		rules = append(rules, selection.LeastAvailable{}, selection.LeastAvailable{Seconds: 30, Error: 0.25})
	}
	c.Select = rapid.SampledFrom(rules).Draw(t, "select")
	_, asks := c.Select.(selection.PowerOfChoice)
	if registry.NeedsOf(c.Select).Losses {
		c.Stop.EqualRuntimeRounds = 0
	}
	if _, all := c.Close.(closing.All); !all && !asks && !closing.Overlaps(c.Close) {
		c.Late = rapid.SampledFrom([]closing.Lateness{closing.Drop{}, closing.Use{Limit: 7}}).Draw(t, "late")
	}

	c.Aggregate.Weights = rapid.SampledFrom([]string{EqualWeights, SampleWeights}).Draw(t, "weights")
	algorithms := []algorithm.Algorithm{
		algorithm.Default, algorithm.FedProx{Rate: 2, Mu: 0.5, Staleness: algorithm.Staleness{Exponent: 2}},
		algorithm.FedAdam{Rate: 0.1, Beta1: 0.5, Beta2: 0.25, Tau: 1e-9}, algorithm.FedAvgM{Rate: 1, Momentum: 0.5}, algorithm.FedAdagrad{Rate: 1e6, Tau: 1},
	}
	if c.Aggregate.Weights == EqualWeights && !closing.Overlaps(c.Close) && !closing.UsesLate(c.Late) {
		algorithms = append(algorithms, algorithm.Scaffold{Rate: 0.5})
	}
	c.Aggregate.Algorithm = rapid.SampledFrom(algorithms).Draw(t, "algorithm")
	c.Local = rapid.SampledFrom([]learn.Optimizer{
		learn.SGD{}, learn.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4, Clipping: learn.Clipping{Clip: 1}}, learn.SGD{Clipping: learn.Clipping{Clip: 0.5}},
		learn.Adam{Moments: learn.Moments{Beta1: 0.5, Beta2: 0.75, Eps: 1e-9}, WeightDecay: 2}, learn.AdamW{Moments: learn.Moments{Eps: 1}},
	}).Draw(t, "local")
	if _, plain := c.Aggregate.Algorithm.(algorithm.Scaffold); plain {
		c.Local = learn.SGD{}
	}
	c.Limits.StateGB = rapid.Float64Range(0, 1e6).Draw(t, "state")
	if target := rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "target"); target != 0 {
		c.Evaluate.Target = &target
	}
}

// anyDevices draws who the clients are, when they are there and when they leave.
func anyDevices(t *rapid.T, c *Config) {
	c.Availability = anyAvailability(t, "availability")
	c.Dropout = fleet.Dropout{Probability: rapid.Float64Range(0, 1).Draw(t, "dropout"), WhenUnavailable: rapid.Bool().Draw(t, "when_unavailable")}
	c.Slowdown = anySlowdown(t, "slowdown")
	if rapid.Bool().Draw(t, "links") {
		c.Network.Links.File = "links.csv"
	}
	if rapid.Bool().Draw(t, "measured") {
		c.Compute.SecondsPerStep, c.Compute.Std, c.Compute.Measured, c.Compute.Reference = 0.5, 0, "measured devices.csv", "null"
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "classes") {
		c.Fleet = append(c.Fleet, anyClass(t, []string{"phone", "board", "car"}[i]))
		if c.Network.Shared() || registry.NeedsOf(c.Select).Candidates { // which batteries do not go with
			c.Fleet[i].Battery = nil
		}
	}
	c.Correlation.Speed = rapid.SampledFrom([]fleet.SpeedCorrelation{
		c.Correlation.Speed, {RankCorrelation: fleet.RankCorrelation{Spearman: -0.5, Property: "entropy"}, Phase: "upload"}, {RankCorrelation: fleet.RankCorrelation{Spearman: 1, Property: "labels"}, Phase: "compute"},
	}).Draw(t, "speed and data")
	if !slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Availability != nil }) {
		c.Correlation.Availability = rapid.SampledFrom([]fleet.RankCorrelation{c.Correlation.Availability, {Spearman: 0.25, Property: "samples"}}).Draw(t, "availability and data")
	}
}

func anyClass(t *rapid.T, name string) fleet.Class {
	k := fleet.Class{Name: name, Weight: rapid.Float64Range(0.1, 9).Draw(t, "weight")}
	maybe := func(what string) bool { return rapid.Bool().Draw(t, name+"'s "+what) }
	if maybe("links") {
		k.Links = fleet.Links{File: rapid.SampledFrom([]string{"a.csv", "a b.csv"}).Draw(t, "file")}
		if maybe("traces") {
			k.Links.Traces = []string{"ATT-LTE-driving", "x, y"}
		}
	} else {
		k.DownloadMbps, k.UploadMbps = anyDist(t, "download"), anyDist(t, "upload")
		if maybe("varying upload") {
			k.Vary.Upload = fleet.Lognormal{Mean: 1, Sigma: 0.3}
		}
	}
	if maybe("own steps") {
		k.SecondsPerStep, k.StepCV = anyDist(t, "step"), rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "cv")
	}
	if maybe("varying compute") {
		k.Vary.Compute = anyDist(t, "factor")
	}
	if maybe("slowdown") {
		k.Slowdown = anySlowdown(t, "own slowdown")
	}
	if maybe("availability") {
		k.Availability = anyAvailability(t, "own availability")
	}
	if maybe("dropout") {
		k.Dropout = new(fleet.Dropout{Probability: 0.5})
	}
	if maybe("batch") {
		k.Batch = rapid.SampledFrom([]int{1, 7, 100_000}).Draw(t, "own batch")
	}
	k.Watts = rapid.SampledFrom([]fleet.Watts{{}, {Download: 3, Compute: 3, Upload: 3}, {Download: 1, Compute: 5}}).Draw(t, "watts")
	if k.Watts != (fleet.Watts{}) && maybe("battery") {
		k.Battery = rapid.SampledFrom([]*fleet.Battery{
			{Joules: 40_000, Floor: 0.2, Charges: "always"},
			{Joules: 1e3, Floor: 1, Start: fleet.Uniform{Min: 0.5, Max: 1}, ChargeWatts: 7.5, Charges: "available"},
			{Joules: 12.5, Floor: 0.3, ChargeWatts: 1, Charges: "always", Charging: fleet.Daily{FromHour: 22, ToHour: 6, Probability: 1}},
		}).Draw(t, name+"'s battery")
	}
	return k
}

func anyDist(t *rapid.T, name string) fleet.Distribution {
	return rapid.SampledFrom([]fleet.Distribution{
		fleet.Constant{Value: 12.5},
		fleet.Constant{Value: 3, Bounds: fleet.Bounds{AtMost: 2}},
		fleet.Uniform{Min: 1, Max: 2},
		fleet.Normal{Mean: 20, Std: 4, Bounds: fleet.Bounds{AtLeast: 1}},
		fleet.Lognormal{Median: 20, Sigma: 0.5},
		fleet.ShiftedExponential{Mean: 3, Shift: 1e-5},
		fleet.Pareto{Min: 1, Shape: 1.5, Bounds: fleet.Bounds{AtMost: 1e9}},
		fleet.Weibull{Scale: 3, Shape: 2, Bounds: fleet.Bounds{AtLeast: 0.25}},
		fleet.Empirical{Values: []float64{1, 2.5, 1e6}},
	}).Draw(t, name)
}

func anySlowdown(t *rapid.T, name string) fleet.Slowdown {
	return rapid.SampledFrom([]fleet.Slowdown{
		nil,
		fleet.SlowPeriods{},
		fleet.SlowPeriods{EverySeconds: 600, ForSeconds: 60, Factor: fleet.Constant{Value: 8}, Links: true},
		fleet.SlowPeriods{EverySeconds: 600, ForSeconds: 0.5, Factor: fleet.Pareto{Min: 2, Shape: 1.5}},
	}).Draw(t, name)
}

func anyAvailability(t *rapid.T, name string) fleet.Availability {
	return rapid.SampledFrom([]fleet.Availability{
		fleet.Always{},
		fleet.Bernoulli{Probability: 0.3, PeriodSeconds: 60},
		fleet.Markov{OnSeconds: 600, OffSeconds: 1400},
		fleet.Share{Share: fleet.Uniform{Min: 0.25, Max: 1}, CycleSeconds: 3600},
		fleet.Daily{FromHour: 22, ToHour: 6, JitterHours: 1.5, Probability: 1},
		fleet.Daily{ToHour: 6, StartHour: 12, Probability: 0.5, Zones: []fleet.Zone{{Hours: -5, Weight: 2}, {Hours: 0, Weight: 1}}},
		fleet.Trace{Sessions: "stays.csv", Spread: true, PeriodSeconds: 86400},
	}).Draw(t, name)
}

// A word for a group, or a map with its rule, sets the group anew; anything
// else adds to what is set.
func TestRules_WordsAndMaps(t *testing.T) {
	for _, test := range []struct {
		name, file string
		sets       []string
		want       func(*Config)
	}{
		{"a word", "select: round_robin\navailability: always\nclose: all", nil, func(c *Config) { c.Select = selection.RoundRobin{} }},
		{"maps", "select: {rule: power_of_choice, candidates: 120, from: round_robin}\nclose: {rule: first, n: 40}", nil, func(c *Config) {
			c.Select, c.Close = selection.PowerOfChoice{Candidates: 120, Base: selection.RoundRobin{}}, closing.First{N: 40}
		}},
		{"a word takes back what a rule was set with", "close: {rule: first, n: 40}", []string{"close=all"}, func(*Config) {}},
		{"so does another rule", "close: {rule: first, n: 40}", []string{"close={rule: deadline, seconds: 3}"}, func(c *Config) { c.Close = closing.Deadline{Seconds: 3} }},
		{"one key of a rule", "close: {rule: buffered, n: 40}", []string{"close.n=10", "close.staleness_limit=5"}, func(c *Config) { c.Close = closing.Buffered{N: 10, StalenessLimit: 5} }},
		{"a map without the rule adds", "close: {rule: buffered, n: 40}", []string{"close={n: 3}"}, func(c *Config) { c.Close = closing.Buffered{N: 3} }},
		{"a target of 0", "evaluate: {metric: loss, target: 0}", nil, func(c *Config) { c.Evaluate.Metric.Name, c.Evaluate.Target = "loss", new(float64) }},
		{"null takes back a choice", "model: [flatten, dense]\nselect: round_robin\ncompress: qsgd", []string{"model=null", "select=null", "compress=null"}, func(*Config) {}},
		{"null takes back a map", "evaluate: {metric: {name: loss, better: lower}}\ntrainer: {command: a, threads: 4}", []string{"evaluate.metric=null", "trainer=null"}, func(*Config) {}},
		{"one key of a map", "trainer: {command: a, threads: 4}\nevaluate: {metric: loss}", []string{"trainer.command=b", "evaluate.metric.better=lower"}, func(c *Config) {
			c.Trainer.Command, c.Trainer.Threads, c.Evaluate.Metric = "b", 4, Metric{"loss", "lower"}
		}},
		{"one key beside a word", "trainer: a b", []string{"trainer.threads=4"}, func(c *Config) { c.Trainer.Command, c.Trainer.Threads = "a b", 4 }},
		{"one key behind a word", "", []string{"trainer=a b", "trainer.threads=4"}, func(c *Config) { c.Trainer.Command, c.Trainer.Threads = "a b", 4 }},
		{"a key of a map, again", "", []string{"trainer.command=a", "trainer.threads=4", "trainer.command=b"}, func(c *Config) { c.Trainer.Command, c.Trainer.Threads = "b", 4 }},
		{"a word takes back a map", "trainer: {command: a, threads: 4}", []string{"trainer=b"}, func(c *Config) { c.Trainer.Command = "b" }},
		{"availability", "availability: {model: markov, on_seconds: 600, off_seconds: 1400}", []string{"availability={model: bernoulli, probability: 0.3, period_seconds: 60}"}, func(c *Config) {
			c.Availability = fleet.Bernoulli{Probability: 0.3, PeriodSeconds: 60}
		}},
		{"an algorithm", "aggregate: {algorithm: fedadam, server_rate: 0.05, beta1: 0, tau: null}", nil, func(c *Config) {
			c.Aggregate.Algorithm = algorithm.FedAdam{Rate: 0.05, Beta2: 0.99, Tau: 1e-3, Staleness: algorithm.Staleness{Exponent: 0.5}}
		}},
		{"a class of devices", "fleet:\n  - name: phone\n    download_mbps: {dist: lognormal, mean: 20, sigma: 0.5}\n    upload_mbps: 5\n    slowdown: {}\n    availability: always\n    watts: 4\n", nil, func(c *Config) {
			c.Fleet = []fleet.Class{{
				Name: "phone", DownloadMbps: fleet.Lognormal{Mean: 20, Sigma: 0.5}, UploadMbps: fleet.Constant{Value: 5},
				Slowdown: fleet.SlowPeriods{}, Availability: fleet.Always{}, Watts: fleet.Watts{Download: 4, Compute: 4, Upload: 4},
			}}
		}},
		{"classes on the command line", "fleet: [{name: a}]", []string{"fleet=[{name: b, links: {file: l.csv, traces: [x]}, watts: {compute: 2}}, {name: c, links: d.csv}]"}, func(c *Config) {
			c.Fleet = []fleet.Class{{Name: "b", Links: fleet.Links{File: "l.csv", Traces: []string{"x"}}, Watts: fleet.Watts{Compute: 2}}, {Name: "c", Links: fleet.Links{File: "d.csv"}}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Demonstration()
			test.want(&want)
			if want.External() { // whose model is not the task's
				want.Network.ModelMegabits = 0
			}
			got, err := fromText(t, test.file, test.sets...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Another file is read by the mapping that is set; a path in place of the map has none.
func TestData_AnotherPathKeepsMapping(t *testing.T) {
	of := func(path string, sets ...string) Data {
		c, err := fromText(t, "task: femnist\ndata: {path: "+path+", client: u, features: x, label: y, scale: standard}", sets...)
		if err != nil {
			t.Fatal(err)
		}
		return c.Data
	}
	if got, want := fmt.Sprintf("%#v", of("a.csv", "data.path=b.csv")), fmt.Sprintf("%#v", of("b.csv")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := of("a.csv", "data=b.csv"); got != (Data{Path: "b.csv"}) {
		t.Errorf("%+v, want the path alone", got)
	}
}

// An option of the reader keeps a path that was set alone.
func TestData_OptionKeepsPath(t *testing.T) {
	for name, sets := range map[string][]string{
		"a path":          {"data=a.csv", "data.decimal=comma"},
		"the key path":    {"data.path=a.csv", "data.decimal=comma"},
		"option first":    {"data.decimal=comma", "data.path=a.csv"},
		"several options": {"data=a.csv", "data={decimal: comma}"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := fromText(t, "task: femnist\ndata: old.csv", sets...)
			if err != nil {
				t.Fatal(err)
			}
			reader, ok := c.Data.Reader.(table.Table)
			if c.Data.Path != "a.csv" || !ok || reader.Decimal != "comma" {
				t.Errorf("%+v", c.Data)
			}
		})
	}
}

// Mistakes in rules and devices: the line is that of the part at fault.
func TestRules_Mistakes(t *testing.T) {
	const phone = "fleet:\n  - name: phone\n    weight: 3\n"
	for _, test := range []struct {
		name, file string
		sets       []string
		want       string
	}{
		{"a deadline without its time", "close: deadline", nil, `config.yaml:1: close.seconds: is not set: deadline needs it (virtual time from a round's first task until it closes)`},
		{"a deadline without its time over one with it", "close: {rule: deadline, seconds: 5}", []string{"close={rule: deadline}"}, `--set close.seconds: is not set: deadline needs it (virtual time from a round's first task until it closes)`},
		{"a deadline without its time beside another rule", "close: {rule: first, n: 5}", []string{"close.rule=deadline"}, `--set close.seconds: is not set: deadline needs it (virtual time from a round's first task until it closes)`},
		{"over-selection without a number", "close:\n  rule: first\n", nil, `config.yaml:1: close.n: is not set: first needs it (updates that close a round)`},
		{"a number of another rule", "close:\n  rule: deadline\n  seconds: 5\n  staleness_limit: 3\n", nil, `config.yaml:4: close.staleness_limit: deadline does not take it (buffered does)`},
		{"staleness without a buffer", "", []string{"close.staleness_limit=3"}, `--set close.staleness_limit: all does not take it (buffered does)`},
		{"late where all are waited for", "late: use", nil, `config.yaml:1: late: "use" is for rounds that close before their last task, and close: all waits for it (use drop, or another closing rule)`},
		{"late in rounds that overlap", "close: {rule: buffered, n: 3}\nlate: use", nil, `config.yaml:2: late: "use" is for rounds that do not overlap: under close: buffered all updates count, whenever they come (use drop)`},
		{"late beside candidates", "close: {rule: first, n: 3}\nlate: use\nselect: {rule: power_of_choice, candidates: 120}", nil, `config.yaml:3: select: "power_of_choice" asks clients for their losses ahead, which does not go with late updates (use fit, flanp, oort, round_robin, tifl or uniform, or late: drop)`},
		{"late beside a state", "close: {rule: first, n: 3}\nlate: {rule: use, limit: 2}\naggregate: {algorithm: scaffold}", nil, `config.yaml:3: aggregate.algorithm: "scaffold" keeps a state of each client, which late updates do not fit (use fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fednova, fedprox, fedyogi or refl, or late: drop)`},
		{"late without end", "close: {rule: first, n: 3}\nlate: {rule: use, limit: 0}", nil, `config.yaml:2: late.limit: 0 is out of range (a whole number from 1 to 1000000 rounds)`},
		{"a window is missing", "select: least_available", nil, `config.yaml:1: select: "least_available" needs a deadline (use fit, flanp, oort, power_of_choice, round_robin, tifl or uniform, or close: {rule: deadline, seconds: ...})`},
		{"more than the cohort", "cohort: 30\nclose: {rule: first, n: 40}", nil, `config.yaml:2: close.n: 40 is more than the cohort (at most 30: over-selection asks more clients than it waits for)`},
		{"more after the deadline than before", "close:\n  rule: quorum\n  n: 20\n  m: 21\n  seconds: 5\n", nil, `config.yaml:4: close.m: 21 is more than n (at most 20: a round has closed when n updates have come)`},
		{"no such rule", "close: {rule: dedline}", nil, `config.yaml:1: close.rule: "dedline" is not a closing rule (did you mean "deadline"?)`},
		{"a selection by size", "select:\n  rule: size", nil, `config.yaml:2: select.rule: way to choose clients "size" was removed (use uniform with aggregate.weights: samples, which weighs updates by their samples)`},
		{"a selection by last losses", "select: {rule: last_losses, candidates: 90}", nil, `config.yaml:1: select.rule: way to choose clients "last_losses" was removed (use oort, which goes by the losses of the last updates, or power_of_choice)`},
		{"an accuracy of 0", "evaluate: {target: 0}", nil, "config.yaml:1: evaluate.target: 0 is no accuracy (more than 0 and at most 1; name another evaluate.metric)"},
		{"no group is null on the command line", "", []string{"nats=null"}, "--set nats: this is a group of keys: url, listen, insecure, replicas, ack_seconds or max_deliver"},
		{"a list for a rule", "close: [deadline]", nil, `config.yaml:1: close: a list stands where a word, ` + orList(closing.Rules.Names()) + ` is wanted`},
		{"a map for the rule's name", "close: {rule: {deadline: {seconds: 5}}}", nil, `config.yaml:1: close.rule: a map stands where a word, ` + orList(closing.Rules.Names()) + ` is wanted (its options stand beside it: close: {rule: all, ...})`},
		{"losses without training", "train: false\nselect: {rule: power_of_choice, candidates: 120}", nil, `config.yaml:2: select: "power_of_choice" decides by training losses, which train: false does not measure (use fit, round_robin or uniform)`},
		{"candidates are missing", "select: power_of_choice", nil, `config.yaml:1: select.candidates: is not set: power_of_choice needs it (clients asked for their loss)`},
		{"too few candidates", "select: {rule: power_of_choice, candidates: 20}", nil, `config.yaml:1: select.candidates: 20 is less than the cohort, which is chosen from them (at least 60)`},
		{"too many candidates", "select: {rule: power_of_choice, candidates: 4000}", nil, `config.yaml:1: select.candidates: 4000 is more than there are clients (at most 3000)`},
		{"candidates of nobody", "select: {candidates: 90}", nil, `config.yaml:1: select.candidates: uniform does not take it (power_of_choice does)`},
		{"losses in rounds that overlap", "select: {rule: power_of_choice, candidates: 120}\nclose: {rule: buffered, n: 10}", nil, `config.yaml:1: select: "power_of_choice" needs rounds that do not overlap (use fit or uniform, or another closing rule)`},
		{"time that only training tells", "select: {rule: power_of_choice, candidates: 120}\nstop: {equal_runtime_rounds: 9}", nil, `config.yaml:2: stop.equal_runtime_rounds: power_of_choice decides by losses, so the time of rounds is known only by training them (set a number of virtual seconds instead)`},
		{"a grid that only training tells", "select: {rule: power_of_choice, candidates: 120}\nevaluate: {every_seconds: fixed}", nil, `config.yaml:2: evaluate.every_seconds: power_of_choice decides by losses, so the time of rounds is known only by training them (set a number of virtual seconds instead)`},
		{"samples of no evaluation", "evaluate: {clients: {samples: 64}}", nil, `config.yaml:1: evaluate.clients.samples: 64 is for evaluations by client, and there are none (set evaluate.clients.every or rounds)`},
		{"no grid", "evaluate: {every_seconds: 0}", nil, `config.yaml:1: evaluate.every_seconds: 0 is out of range (more than 0 and at most 4000000000 seconds)`},
		{"the word's number", "evaluate: {every_seconds: -1}", nil, `config.yaml:1: evaluate.every_seconds: -1 is out of range (more than 0 and at most 4000000000 seconds)`},
		{"minibatches of a class and of a formula", "schedule: {batch: 32 * k / k0}\nfleet: [{name: a, batch: 4}]", nil, `config.yaml:1: schedule.batch: a class has minibatches of its own (remove its batch)`},
		{"minibatches that are no formula", "schedule: {batch: 32 k}", nil, `config.yaml:1: schedule.batch: character 4: unexpected k`},
		{"minibatches of unlike tokens", "schedule: {batch: 32 * k / k0}\naggregate: {weights: taken}", nil, `config.yaml:1: schedule.batch: samples of steps are counted by whole minibatches (set equal or samples)`},
		{"streaming in rounds that overlap", "aggregate: {algorithm: streaming}\nclose: {rule: buffered, n: 10}", nil, `config.yaml:1: aggregate.algorithm: "streaming" needs rounds that do not overlap (use decoupled, fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fednova, fedprox, fedyogi or refl, or another closing rule)`},
		{"fragments by a robust rule", "aggregate: {algorithm: decoupled, combine: median}", nil, `config.yaml:1: aggregate.combine: compares updates, and the updates of a round are of different fragments with aggregate.algorithm: decoupled (remove it)`},
		{"fragments with a clip", "aggregate: {algorithm: decoupled, clip: 1}", nil, `config.yaml:1: aggregate.clip: compares updates, and the updates of a round are of different fragments with aggregate.algorithm: decoupled (remove it)`},
		{"more updates than held clients", "clients: 4\ncohort: 4\naggregate: {algorithm: decoupled}\nclose: {rule: buffered, n: 5}", nil, `config.yaml:4: close.n: is more than the clients, and with aggregate.algorithm: decoupled each sends one update to a round (lower it, or raise clients)`},
		{"utilities without training", "train: false\nselect: {rule: oort, seconds: 3}", nil, `config.yaml:2: select: "oort" decides by training losses, which train: false does not measure (use fit, round_robin or uniform)`},
		{"tiers without training", "train: false\nselect: tifl", nil, `config.yaml:2: select: "tifl" decides by training losses, which train: false does not measure (use fit, round_robin or uniform)`},
		{"a plateau without training", "train: false\nselect: {rule: flanp, begin: 9}", nil, `config.yaml:2: select: "flanp" decides by training losses, which train: false does not measure (use fit, round_robin or uniform)`},
		{"more tiers than clients", "select: {rule: tifl, tiers: 900}\nclients: 800", nil, `config.yaml:1: select.tiers: 900 is more than there are clients (at most 800)`},
		{"candidates among devices", "select: {rule: power_of_choice, candidates: 90}\ndevices: {names: [pi], include: sampled}", nil, `config.yaml:1: select: "power_of_choice" asks clients for their losses ahead of a task, and devices tell a loss only with the update of one (use fit, oort, round_robin, tifl or uniform)`},
		{"fast ones among devices", "select: {rule: flanp, begin: 9}\ndevices: {names: [pi], include: sampled}", nil, `config.yaml:1: select: "flanp" goes by the clients' expected times, and devices that are drawn have none without a class (use fit, oort, round_robin, tifl or uniform, or a class for each, devices.names: {pi: class})`},
		{"nobody takes part", "clients: 0", nil, `config.yaml:1: clients: 0 is for devices alone, and none is named (set devices.names, or clients)`},
		{"more than all devices", "clients: 0\ncohort: 3\ndevices: {names: [pi, pa], include: sampled}", nil, `config.yaml:2: cohort: 3 is more than there are devices (at most 2)`},
		{"some of the devices in every round", "clients: 0\ncohort: 1\ndevices: {names: [pi, pa]}", nil, `config.yaml:2: cohort: 1 of 2 devices are drawn only with devices.include: sampled; otherwise each takes part in every round (set that, or cohort: fit)`},
		{"devices' own samples", "clients: 0\nevaluate: {clients: {every: 5}}\ndevices: {names: [pi]}", nil, `config.yaml:2: evaluate.clients: is about the samples of simulated clients, and clients is 0: those of devices stay there (remove it)`},
		{"the time of devices", "clients: 0\nstop: {equal_runtime_rounds: 5}\ndevices: {names: [pi]}", nil, `config.yaml:2: stop.equal_runtime_rounds: is timed with simulated clients, and clients is 0 (set a number of virtual seconds, or of rounds)`},
		{"the grid of devices", "clients: 0\nevaluate: {every_seconds: fixed}\ndevices: {names: [pi]}", nil, `config.yaml:2: evaluate.every_seconds: is timed with simulated clients, and clients is 0 (set a number of virtual seconds, or of rounds)`},
		{"no such algorithm", "aggregate: {algorithm: fedadm}", nil, `config.yaml:1: aggregate.algorithm: "fedadm" is not an algorithm (did you mean "fedadam"?)`},
		{"a number of another algorithm", "aggregate:\n  algorithm: fedavg\n  mu: 0.1\n", nil, `config.yaml:3: aggregate.mu: fedavg does not take it (fedasync and fedprox do)`},
		{"a number out of range", "", []string{"aggregate={algorithm: fedavgm, momentum: 1}"}, `--set aggregate.momentum: 1 is out of range (0 or more and less than 1)`},
		{"late beside what is kept", "close: {rule: first, n: 3}\nlate: {rule: use, limit: 2}\nlocal: {optimizer: adamw, keep: true}", nil, `config.yaml:3: local: "adamw" keeps a state of each client, which late updates do not fit (use adam, adamw with other options or sgd, or late: drop)`},
		{"nothing to keep", "local: {keep: true}", nil, `config.yaml:1: local.keep: true is for what an optimizer remembers, and sgd without momentum remembers nothing (set momentum, e.g. 0.9)`},
		{"scaffold by samples", "aggregate: {algorithm: scaffold, weights: samples}", nil, `config.yaml:1: aggregate.algorithm: "scaffold" needs updates that are weighted equally (use decoupled, fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fednova, fedprox, fedyogi, refl or streaming, or aggregate.weights: equal)`},
		{"scaffold without rounds", "close: {rule: buffered, n: 3}\naggregate: {algorithm: scaffold}", nil, `config.yaml:2: aggregate.algorithm: "scaffold" needs rounds that do not overlap (use decoupled, fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fednova, fedprox, fedyogi or refl, or another closing rule)`},
		{"scaffold with momentum", "local: {momentum: 0.9}\naggregate: {algorithm: scaffold}", nil, `config.yaml:2: aggregate.algorithm: "scaffold" counts on plain steps of SGD, which local does not take (use decoupled, fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fedprox, fedyogi, refl or streaming, or local: sgd)`},
		{"fednova with clipped steps", "aggregate: {algorithm: fednova}\nlocal: {clip: 1}", nil, `config.yaml:1: aggregate.algorithm: "fednova" counts on plain steps of SGD, which local does not take (use decoupled, fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fedprox, fedyogi, refl or streaming, or local: sgd)`},
		{"theory of compressed updates", "schedule: {k: theory}\ncompress: qsgd", nil, `config.yaml:2: compress: "qsgd" goes with no schedule.k: theory, which is about whole updates (remove it)`},
		{"theory of other steps", "schedule: {k: theory}\nlocal: adam", nil, `config.yaml:2: local: "adam" goes with no schedule.k: theory, which is about plain steps of SGD (set local: sgd)`},
		{"Nesterov without momentum", "local:\n  nesterov: true\n", nil, `config.yaml:2: local.nesterov: true needs a momentum (set momentum, e.g. 0.9)`},
		{"a number of another optimizer", "local: {optimizer: adam, momentum: 0.9}", nil, `config.yaml:1: local.momentum: adam does not take it (sgd does)`},
		{"no such optimizer", "local: adm", nil, `config.yaml:1: local: "adm" is not an optimizer (did you mean "adam"?)`},
		{"minibatches of nothing", phone + "    batch: 0\n", nil, `config.yaml:4: fleet[0].batch: 0 is out of range (a whole number from 1 to 100000)`},
		{"residuals without rounds", "close: {rule: buffered, n: 3}\ncompress: top_k", nil, `config.yaml:2: compress: "top_k" needs rounds that do not overlap (use four_bit, qsgd or sign, or another closing rule)`},
		{"votes that are mixed", "close: {rule: buffered, n: 3}\naggregate: {algorithm: fedasync}\ncompress: {method: sign, step: 0.1}", nil, `config.yaml:3: compress: "sign" decides how far parameters move, which fedasync changes (use another method, or another algorithm)`},
		{"votes that are scaled", "aggregate: {algorithm: fednova}\ncompress: {method: sign, step: 0.1}", nil, `config.yaml:2: compress: "sign" decides how far parameters move, which fednova changes (use another method, or another algorithm)`},
		{"two vectors combined", "aggregate: {algorithm: scaffold, combine: median}", nil, `config.yaml:1: aggregate.combine: is for updates of one vector, and those of scaffold are two (remove it, or use another algorithm)`},
		{"single lengths combined", "aggregate: {algorithm: fedexp, combine: median}", nil, `config.yaml:1: aggregate.combine: does not go with fedexp, whose step follows from how long single updates are (remove it, or use another algorithm)`},
		{"single lengths in private", "aggregate: {algorithm: fedexp}\nprivacy: {clip: 1, noise_multiplier: 1}", nil, `config.yaml:2: privacy.clip: does not go with fedexp, whose step follows from how long single updates are (remove it, or use another algorithm)`},
		{"single votes", "aggregate: {algorithm: fedexp}\ncompress: {method: sign, step: 0.1}", nil, `config.yaml:1: aggregate.algorithm: does not go with compress: sign, whose updates are votes (remove one of the two)`},
		{"votes that are clipped", "aggregate: {clip: 2}\ncompress: {method: sign, step: 0.1}", nil, `config.yaml:1: aggregate.clip: does not go with compress: sign, whose updates are votes (remove one of the two)`},
		{"a median by samples", "aggregate: {combine: median, weights: samples}", nil, `config.yaml:1: aggregate.combine: "median" needs updates that are weighted equally (use geometric_median, or aggregate.weights: equal)`},
		{"a cohort without neighbours", "cohort: 6\naggregate: {combine: {rule: multi_krum, liars: 0.3}}", nil, `config.yaml:2: aggregate.combine.liars: 0.3 of 6 updates are 2, with which multi_krum needs 7 updates or more (lower it, or let more updates close a round)`},
		{"rounds without neighbours", "cohort: 6\nclose: {rule: first, n: 2}\naggregate: {combine: krum}", nil, `config.yaml:3: aggregate.combine.liars: 0.2 of 2 updates are 1, with which krum needs 5 updates or more (lower it, or let more updates close a round)`},
		{"overlapping rounds without neighbours", "cohort: 6\nclose: {rule: buffered, n: 3}\naggregate: {combine: {rule: nnm, then: krum}}", nil, `config.yaml:3: aggregate.combine.liars: 0.2 of 3 updates are 1, with which krum needs 5 updates or more (lower it, or let more updates close a round)`},
		{"late rounds without neighbours", "cohort: 6\nclose: {rule: quorum, n: 5, m: 2, seconds: 5}\naggregate: {combine: multi_krum}", nil, `config.yaml:3: aggregate.combine.liars: 0.2 of 2 updates are 1, with which multi_krum needs 5 updates or more (lower it, or let more updates close a round)`},
		{"nothing left between the ends", "cohort: 6\naggregate: {combine: {rule: trimmed_mean, liars: 0.49}}", nil, `config.yaml:2: aggregate.combine.liars: 0.49 of 6 updates are 3, with which trimmed_mean needs 7 updates or more (lower it, or let more updates close a round)`},
		{"half of them mixed", "cohort: 6\naggregate: {combine: {rule: nnm, liars: 0.49, then: median}}", nil, `config.yaml:2: aggregate.combine.liars: 0.49 of 6 updates are 3, with which nnm needs 7 updates or more (lower it, or let more updates close a round)`},
		{"more kept than there are", "cohort: 6\nclose: {rule: first, n: 5}\naggregate: {combine: {rule: multi_krum, keep: 6}}", nil, `config.yaml:3: aggregate.combine.keep: 6 is more than the updates that may close a round, 5 (at most that)`},
		{"two vectors compressed", "aggregate: {algorithm: scaffold}\ncompress: qsgd", nil, `config.yaml:2: compress: "qsgd" is for updates of one vector, and those of scaffold are two (remove it, or use another algorithm)`},
		{"devices that send fragments", "devices: {names: [pi]}\naggregate: {algorithm: streaming}", nil, `config.yaml:2: aggregate.algorithm: "streaming" keeps a state of each client, which devices do not send (use fedadagrad, fedadam, fedasync, fedavg, fedavgm, fedbuff, fedexp, fednova, fedprox, fedyogi or refl)`},
		{"a step is missing", "compress: sign", nil, `config.yaml:1: compress.step: is not set: sign needs it (how far a round moves each parameter)`},
		{"a number of another compression", "compress: {method: qsgd, share: 0.1}", nil, `config.yaml:1: compress.share: qsgd does not take it (random_k, sparseloco and top_k do)`},
		{"availability", "availability: nights", nil, `config.yaml:1: availability: "nights" is not a model of availability (always, bernoulli, daily, markov, share or trace)`},
		{"availability without its numbers", "availability:\n  model: markov\n  on_seconds: 600\n", nil, `config.yaml:1: availability.off_seconds: is not set: markov needs it (mean length of an absence)`},
		{"availability out of range", "availability:\n  model: bernoulli\n  period_seconds: 60\n  probability: 1.5\n", nil, `config.yaml:4: availability.probability: 1.5 is out of range (more than 0 and at most 1)`},
		{"a key of another model", "availability: {model: bernoulli, probability: 1, on_seconds: 3}", nil, `config.yaml:1: availability.on_seconds: bernoulli does not take it (markov does)`},
		{"no such key of availability", "availability: {modl: markov}", nil, `config.yaml:1: availability.modl: unknown key (did you mean "availability.model"?)`},
		{"a trace without its file", "availability: trace", nil, `config.yaml:1: availability.sessions: is not set: trace needs it (CSV file of recorded stays (trace,from_second,to_second))`},
		{"a zone off the globe", "availability:\n  model: daily\n  to_hour: 8\n  zones:\n    - {hours: 20, weight: 1}\n", nil, `config.yaml:5: availability.zones[0].hours: 20 is out of range (from -14 to 14 hours)`},
		{"a dropout", "dropout: {probability: 2}", nil, `config.yaml:1: dropout.probability: 2 is out of range (from 0 to 1)`},
		{"a slowdown that speeds up", "slowdown:\n  every_seconds: 100\n  for_seconds: 10\n  factor: 0.5\n", nil, `config.yaml:4: slowdown.factor: 0.5 comes down to 0.5 (at least 1: at_least: 1)`},
		{"classes that are none", "fleet: phone", nil, `config.yaml:1: fleet: "phone" stands where a list is wanted`},
		{"more counted clients than there are", "clients: 3\ncohort: 2\nfleet: [{name: a, count: 2}, {name: b, count: 2}]", nil,
			`config.yaml:3: fleet: the counts of its classes come to more than 3 clients (lower them, or set clients)`},
		{"fewer counted clients than there are", "clients: 5\ncohort: 2\nfleet: [{name: a, count: 2}, {name: b, count: 2}]", nil,
			`config.yaml:3: fleet: the counts of its classes come to 4 of 5 clients (raise them, set clients, or give one class no count)`},
		{"a class that is none", "fleet:\n  - {name: a}\n  - phone\n", nil, `config.yaml:3: fleet[1]: "phone" stands where a map of name, weight, count, download_mbps, upload_mbps, seconds_per_step, step_cv, batch, overhead, vary, first_task, uncertainty, links, slowdown, availability, dropout, watts, zone, battery or attack is wanted`},
		{"a class without a name", "fleet:\n  - weight: 2\n", nil, `config.yaml:2: fleet[0].name: is not set (name of the class)`},
		{"two classes of one name", phone + "  - {name: phone}\n", nil, `config.yaml:4: fleet[1].name: "phone" is the name of two classes`},
		{"weights of some", phone + "  - name: board\n", nil, `config.yaml:4: fleet[1].weight: is not set (more than 0 where others have a weight)`},
		{"no such key of a class", phone + "    uplod_mbps: 3\n", nil, `config.yaml:4: fleet[0].uplod_mbps: unknown key (did you mean "upload_mbps"?)`},
		{"no such parameter", phone + "    upload_mbps: {dist: lognormal, mu: 3}\n", nil, `config.yaml:4: fleet[0].upload_mbps.mu: unknown key (mean, median, sigma, at_least, at_most or dist)`},
		{"no such distribution", phone + "    upload_mbps: {dist: gauss}\n", nil, `config.yaml:4: fleet[0].upload_mbps.dist: "gauss" is not a distribution (constant, empirical, lognormal, normal, pareto, shifted_exponential, uniform or weibull)`},
		{"a distribution without its law", phone + "    upload_mbps: {mean: 3}\n", nil, `config.yaml:4: fleet[0].upload_mbps: a distribution without its dist (constant, empirical, lognormal, normal, pareto, shifted_exponential, uniform or weibull)`},
		{"a parameter of another", phone + "    upload_mbps:\n      dist: normal\n      mean: 3\n      shape: 1\n", nil, `config.yaml:7: fleet[0].upload_mbps.shape: normal does not take it (pareto and weibull do)`},
		{"a parameter out of range", phone + "    upload_mbps:\n      dist: lognormal\n      mean: 3\n      sigma: 50\n", nil, `config.yaml:7: fleet[0].upload_mbps.sigma: 50 is out of range (from 0 to 10)`},
		{"a speed that comes to nothing", phone + "    vary:\n      upload: {dist: normal, mean: 1, std: 1}\n", nil, `config.yaml:5: fleet[0].vary.upload: normal(mean 1, std 1) can come down to 0, and a transfer would never end (set at_least above 0)`},
		{"a word for a speed", phone + "    upload_mbps: fast\n", nil, `config.yaml:4: fleet[0].upload_mbps: "fast" is neither a number nor a distribution (constant, empirical, lognormal, normal, pareto, shifted_exponential, uniform or weibull)`},
		{"links and speeds", phone + "    links: l.csv\n    download_mbps: 3\n", nil, `config.yaml:5: fleet[0].download_mbps: 3, and links are given, too (one of the two)`},
		{"a class's availability", phone + "    availability: {model: markov, on_seconds: -1, off_seconds: 1}\n", nil, `config.yaml:4: fleet[0].availability.on_seconds: -1 is out of range (from 0.001 to 100000000 seconds)`},
		{"negative power", phone + "    watts: {compute: -3}\n", nil, `config.yaml:4: fleet[0].watts.compute: -3 is out of range (from 0 to 1000000 W)`},
		{"measured by nobody", "compute: {measured: devices.csv}", nil, `config.yaml:1: compute.reference: measured and reference are set together: a file, and the device in it that takes seconds_per_step`},
		{"measured and random", "compute: {measured: a.csv, reference: b, std: 0.1}", nil, `config.yaml:1: compute.measured: needs seconds_per_step above 0 and std 0 (a class in fleet may have a step_cv)`},
		{"classes in a set", "", []string{"fleet=[{name: a, weight: many}]"}, `--set fleet[0].weight: "many" is not a number (from 0 to 1000000000000), or null`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := fromText(t, test.file, test.sets...)
			if err == nil {
				t.Fatalf("accepted; want %q", test.want)
			}
			if message(err) != test.want {
				t.Errorf("\n got %s\nwant %s", err, test.want)
			}
		})
	}
}
