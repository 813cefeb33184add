package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/actors/device"
	"fedpace/coordinator/aggregate"
)

// anyRules draws how a round's clients are chosen, how it closes, and what
// becomes of their updates.
func anyRules(t *rapid.T, c *Config) {
	size := func(name string) int { return rapid.IntRange(1, c.Cohort).Draw(t, name) }
	switch c.Close.Rule = rapid.SampledFrom([]string{All, Deadline, First, Buffered}).Draw(t, "close"); c.Close.Rule {
	case Deadline:
		c.Close.Seconds = rapid.Float64Range(1e-3, 1e6).Draw(t, "deadline")
	case First:
		c.Close.N = size("first")
	case Buffered:
		c.Close.N, c.Close.StalenessLimit = size("buffer"), rapid.IntRange(0, 9).Draw(t, "staleness")
	}
	rules := []string{Uniform, BySize}
	if c.Close.Rule != Buffered {
		rules = append(rules, PowerOfChoice)
	}
	if c.Close.Rule == Deadline {
		rules = append(rules, Fit)
	}
	c.Select.Rule = rapid.SampledFrom(rules).Draw(t, "select")
	if c.Select.Rule == PowerOfChoice {
		c.Select.Candidates, c.Stop.EqualRuntimeRounds = c.Cohort, 0
	}
	if c.Select.Rule == PowerOfChoice || c.Select.Rule == Fit {
		c.Select.From = rapid.SampledFrom([]string{"", Uniform, BySize}).Draw(t, "from")
	}

	a := &c.Aggregate
	a.Weights = rapid.SampledFrom([]string{EqualWeights, SampleWeights}).Draw(t, "weights")
	algorithms := aggregate.Algorithms.Names()
	if a.Weights == SampleWeights || c.Close.Rule == Buffered {
		algorithms = []string{"fedavg", "fedadam", "fedprox"}
	}
	a.Algorithm = rapid.SampledFrom(algorithms).Draw(t, "algorithm")
	for _, f := range []struct {
		key   string
		field **float64
	}{
		{"server_rate", &a.Options.ServerRate}, {"momentum", &a.Options.Momentum}, {"beta1", &a.Options.Beta1}, {"beta2", &a.Options.Beta2},
		{"tau", &a.Options.Tau}, {"mu", &a.Options.Mu}, {"staleness_exponent", &a.Options.Staleness},
	} {
		if o, ok := optionOf(a.Algorithm, f.key); ok && rapid.Bool().Draw(t, f.key) {
			*f.field = new(rapid.SampledFrom([]float64{(o.Range.Lo + o.Range.Hi) / 2, 0.1}).Draw(t, f.key))
		}
	}
	c.Limits.StateGB = rapid.Float64Range(0, 1e6).Draw(t, "state")
	c.Evaluate.Target = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "target")
}

// anyDevices draws who the clients are, when they are there and when they leave.
func anyDevices(t *rapid.T, c *Config) {
	c.Availability = anyAvailability(t, "availability")
	c.Dropout = device.Dropout{Probability: rapid.Float64Range(0, 1).Draw(t, "dropout"), WhenUnavailable: rapid.Bool().Draw(t, "when_unavailable")}
	c.Slowdown = anySlowdown(t, "slowdown")
	if rapid.Bool().Draw(t, "links") {
		c.Network.Links = "links.csv"
	}
	if rapid.Bool().Draw(t, "measured") {
		c.Compute.SecondsPerStep, c.Compute.Std, c.Compute.Measured, c.Compute.Reference = 0.5, 0, "measured devices.csv", "null"
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "classes") {
		c.Fleet = append(c.Fleet, anyClass(t, []string{"phone", "board", "car"}[i]))
	}
}

func anyClass(t *rapid.T, name string) Class {
	k := Class{Name: name, Weight: rapid.Float64Range(0.1, 9).Draw(t, "weight")}
	maybe := func(what string) bool { return rapid.Bool().Draw(t, name+"'s "+what) }
	if maybe("links") {
		k.Links = Links{File: rapid.SampledFrom([]string{"a.csv", "a b.csv"}).Draw(t, "file")}
		if maybe("traces") {
			k.Links.Traces = []string{"ATT-LTE-driving", "x, y"}
		}
	} else {
		k.DownloadMbps, k.UploadMbps = anyDist(t, "download"), anyDist(t, "upload")
		if maybe("varying upload") {
			k.Vary.Upload = Dist{Dist: "lognormal", Mean: 1, Sigma: 0.3}
		}
	}
	if maybe("own steps") {
		k.SecondsPerStep, k.StepCV = anyDist(t, "step"), rapid.SampledFrom([]float64{0, 0.25}).Draw(t, "cv")
	}
	if maybe("varying compute") {
		k.Vary.Compute = anyDist(t, "factor")
	}
	if maybe("slowdown") {
		k.Slowdown = new(anySlowdown(t, "own slowdown"))
	}
	if maybe("availability") {
		k.Availability = new(anyAvailability(t, "own availability"))
	}
	if maybe("dropout") {
		k.Dropout = new(device.Dropout{Probability: 0.5})
	}
	k.Watts = rapid.SampledFrom([]Watts{{}, {3, 3, 3}, {1, 5, 0}}).Draw(t, "watts")
	return k
}

func anyDist(t *rapid.T, name string) Dist {
	return rapid.SampledFrom([]Dist{
		{Dist: "constant", Value: 12.5},
		{Dist: "constant", Value: 3, AtMost: 2},
		{Dist: "uniform", Min: 1, Max: 2},
		{Dist: "normal", Mean: 20, Std: 4, AtLeast: 1},
		{Dist: "lognormal", Median: 20, Sigma: 0.5},
		{Dist: "shifted_exponential", Mean: 3, Shift: 1e-5},
		{Dist: "pareto", Min: 1, Shape: 1.5, AtMost: 1e9},
		{Dist: "weibull", Scale: 3, Shape: 2, AtLeast: 0.25},
		{Dist: "empirical", Values: []float64{1, 2.5, 1e6}},
	}).Draw(t, name)
}

func anySlowdown(t *rapid.T, name string) Slowdown {
	return rapid.SampledFrom([]Slowdown{
		{},
		{EverySeconds: 600, ForSeconds: 60, Factor: Dist{Dist: "constant", Value: 8}, Links: true},
		{EverySeconds: 600, ForSeconds: 0.5, Factor: Dist{Dist: "pareto", Min: 2, Shape: 1.5}},
	}).Draw(t, name)
}

func anyAvailability(t *rapid.T, name string) Availability {
	return rapid.SampledFrom([]Availability{
		{Model: Always},
		{Model: Bernoulli, Probability: 0.3, PeriodSeconds: 60},
		{Model: Markov, OnSeconds: 600, OffSeconds: 1400},
		{Model: Daily, FromHour: 22, ToHour: 6, JitterHours: 1.5},
		{Model: Daily, ToHour: 6, StartHour: 12, Probability: 0.5, Zones: []device.Zone{{Hours: -5, Weight: 2}, {Hours: 0, Weight: 1}}},
		{Model: Trace, Sessions: "stays.csv", Spread: true, PeriodSeconds: 86400},
	}).Draw(t, name)
}

// A word for a group, or a map with its rule, sets the group anew; anything
// else adds to what is set.
func TestRulesInWordsAndMaps(t *testing.T) {
	for _, test := range []struct {
		name, file string
		sets       []string
		want       func(*Config)
	}{
		{"a word", "select: size\navailability: always\nclose: all", nil, func(c *Config) { c.Select.Rule = BySize }},
		{"maps", "select: {rule: power_of_choice, candidates: 120, from: size}\nclose: {rule: first, n: 40}", nil, func(c *Config) {
			c.Select, c.Close = Select{PowerOfChoice, 120, BySize}, Close{Rule: First, N: 40}
		}},
		{"a word takes back what a rule was set with", "close: {rule: first, n: 40}", []string{"close=all"}, func(*Config) {}},
		{"so does another rule", "close: {rule: first, n: 40}", []string{"close={rule: deadline, seconds: 3}"}, func(c *Config) { c.Close = Close{Rule: Deadline, Seconds: 3} }},
		{"one key of a rule", "close: {rule: buffered, n: 40}", []string{"close.n=10", "close.staleness_limit=5"}, func(c *Config) { c.Close = Close{Rule: Buffered, N: 10, StalenessLimit: 5} }},
		{"a map without the rule adds", "close: {rule: buffered, n: 40}", []string{"close={n: 3}"}, func(c *Config) { c.Close = Close{Rule: Buffered, N: 3} }},
		{"availability", "availability: {model: markov, on_seconds: 600, off_seconds: 1400}", []string{"availability={model: bernoulli, probability: 0.3, period_seconds: 60}"}, func(c *Config) {
			c.Availability = Availability{Model: Bernoulli, Probability: 0.3, PeriodSeconds: 60}
		}},
		{"an algorithm", "aggregate: {algorithm: fedadam, server_rate: 0.05, beta1: 0, tau: null}", nil, func(c *Config) {
			c.Aggregate = Aggregate{Algorithm: "fedadam", Weights: EqualWeights, Options: AlgorithmOptions{ServerRate: new(0.05), Beta1: new(0.0)}}
		}},
		{"a class of devices", "fleet:\n  - name: phone\n    download_mbps: {dist: lognormal, mean: 20, sigma: 0.5}\n    upload_mbps: 5\n    slowdown: {}\n    availability: always\n    watts: 4\n", nil, func(c *Config) {
			c.Fleet = []Class{{
				Name: "phone", DownloadMbps: Dist{Dist: "lognormal", Mean: 20, Sigma: 0.5}, UploadMbps: Dist{Dist: "constant", Value: 5},
				Slowdown: &Slowdown{}, Availability: &Availability{Model: Always}, Watts: Watts{4, 4, 4},
			}}
		}},
		{"classes on the command line", "fleet: [{name: a}]", []string{"fleet=[{name: b, links: {file: l.csv, traces: [x]}, watts: {compute: 2}}, {name: c, links: d.csv}]"}, func(c *Config) {
			c.Fleet = []Class{{Name: "b", Links: Links{"l.csv", []string{"x"}}, Watts: Watts{Compute: 2}}, {Name: "c", Links: Links{File: "d.csv"}}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Demonstration()
			test.want(&want)
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

// Mistakes in rules and devices: the line is that of the part at fault.
func TestMistakesInRulesAndDevices(t *testing.T) {
	const phone = "fleet:\n  - name: phone\n    weight: 3\n"
	for _, test := range []struct {
		name, file string
		sets       []string
		want       string
	}{
		{"a deadline without its time", "close: deadline", nil, `config.yaml:1: close.seconds: is not set: deadline needs the time after which a round closes`},
		{"over-selection without a number", "close:\n  rule: first\n", nil, `config.yaml:1: close.n: is not set: first needs the number of updates that close a round`},
		{"a number of another rule", "close:\n  rule: deadline\n  seconds: 5\n  n: 3\n", nil, `config.yaml:4: close.n: deadline does not take it (set it to null)`},
		{"staleness without a buffer", "", []string{"close.staleness_limit=3"}, `--set close.staleness_limit: all does not take it (set it to null)`},
		{"more than the cohort", "cohort: 30\nclose: {rule: first, n: 40}", nil, `config.yaml:2: close.n: 40 is more than the cohort (at most 30: over-selection asks more clients than it waits for)`},
		{"no such rule", "close: {rule: dedline}", nil, `config.yaml:1: close.rule: "dedline" is not a rule (did you mean "deadline"?)`},
		{"a list for a rule", "close: [deadline]", nil, `config.yaml:1: close.rule: a list stands where a word, all, deadline, first or buffered is wanted`},
		{"losses without training", "train: false\nselect: {rule: power_of_choice, candidates: 120}", nil, `config.yaml:2: select.rule: "power_of_choice" decides by the clients' losses, which train: false does not measure (use uniform, size or fit)`},
		{"candidates are missing", "select: power_of_choice", nil, `config.yaml:1: select.candidates: is not set: power_of_choice needs the number of clients that are asked for their loss`},
		{"too few candidates", "select: {rule: power_of_choice, candidates: 20}", nil, `config.yaml:1: select.candidates: 20 is less than the cohort, which is chosen from them (at least 60)`},
		{"too many candidates", "select: {rule: power_of_choice, candidates: 4000}", nil, `config.yaml:1: select.candidates: 4000 is more than there are clients (at most 3000)`},
		{"candidates of nobody", "select: {candidates: 90}", nil, `config.yaml:1: select.candidates: uniform does not take it (set it to null)`},
		{"losses in rounds that overlap", "select: {rule: power_of_choice, candidates: 120}\nclose: {rule: buffered, n: 10}", nil, `config.yaml:1: select.rule: "power_of_choice" needs rounds that do not overlap (use close.rule all, deadline or first)`},
		{"time that only training tells", "select: {rule: power_of_choice, candidates: 120}\nstop: {equal_runtime_rounds: 9}", nil, `config.yaml:2: stop.equal_runtime_rounds: power_of_choice decides by losses, so the time of rounds is known only by training them (set stop.virtual_seconds instead)`},
		{"fit without a deadline", "select: fit", nil, `config.yaml:1: select.rule: "fit" lowers K to fit a deadline (set close to {rule: deadline, seconds: ...})`},
		{"no such algorithm", "aggregate: {algorithm: fedadm}", nil, `config.yaml:1: aggregate.algorithm: "fedadm" is not an algorithm (did you mean "fedadam"?)`},
		{"a number of another algorithm", "aggregate:\n  algorithm: fedavg\n  mu: 0.1\n", nil, `config.yaml:3: aggregate.mu: fedavg does not take it`},
		{"a number out of range", "", []string{"aggregate={algorithm: fedavgm, momentum: 1}"}, `--set aggregate.momentum: 1 is out of range (0 or more and less than 1)`},
		{"scaffold by samples", "aggregate: {algorithm: scaffold, weights: samples}", nil, `config.yaml:1: aggregate.weights: samples, but scaffold needs updates that are weighted equally (use equal)`},
		{"scaffold without rounds", "close: {rule: buffered, n: 3}\naggregate: {algorithm: scaffold}", nil, `config.yaml:1: close.rule: buffered, but scaffold needs rounds that do not overlap (use all, deadline or first, or another algorithm)`},
		{"availability", "availability: nights", nil, `config.yaml:1: availability.model: "nights" is not a model of availability (always, bernoulli, markov, daily or trace)`},
		{"availability without its numbers", "availability:\n  model: markov\n  on_seconds: 600\n", nil, `config.yaml:1: availability.off_seconds: 0 is out of range (from 0.001 to 100000000 seconds)`},
		{"availability out of range", "availability:\n  model: bernoulli\n  period_seconds: 60\n  probability: 1.5\n", nil, `config.yaml:4: availability.probability: 1.5 is out of range (more than 0 and at most 1)`},
		{"a key of another model", "availability: {model: bernoulli, probability: 1, on_seconds: 3}", nil, `config.yaml:1: availability.on_seconds: does not belong to model bernoulli, which has probability, period_seconds`},
		{"no such key of availability", "availability: {modl: markov}", nil, `config.yaml:1: availability.modl: unknown key (did you mean "availability.model"?)`},
		{"a trace without its file", "availability: trace", nil, `config.yaml:1: availability.sessions: is not set (the path of recorded stays)`},
		{"a zone off the globe", "availability:\n  model: daily\n  to_hour: 8\n  zones:\n    - {hours: 20, weight: 1}\n", nil, `config.yaml:5: availability.zones[0].hours: 20 is out of range (from -14 to 14 hours)`},
		{"a dropout", "dropout: {probability: 2}", nil, `config.yaml:1: dropout.probability: 2 is out of range (from 0 to 1)`},
		{"a slowdown that speeds up", "slowdown:\n  every_seconds: 100\n  for_seconds: 10\n  factor: 0.5\n", nil, `config.yaml:4: slowdown.factor: 0.5 comes down to 0.5 (at least 1: at_least: 1)`},
		{"classes that are none", "fleet: phone", nil, `config.yaml:1: fleet: "phone" stands where a list is wanted`},
		{"a class that is none", "fleet:\n  - {name: a}\n  - phone\n", nil, `config.yaml:3: fleet[1]: "phone" stands where a map of name, weight, download_mbps, upload_mbps, seconds_per_step, step_cv, vary, links, slowdown, availability, dropout or watts is wanted`},
		{"a class without a name", "fleet:\n  - weight: 2\n", nil, `config.yaml:2: fleet[0].name: "" is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit)`},
		{"two classes of one name", phone + "  - {name: phone}\n", nil, `config.yaml:4: fleet[1].name: "phone" is the name of two classes`},
		{"weights of some", phone + "  - name: board\n", nil, `config.yaml:4: fleet[1].weight: is not set (more than 0 where others have a weight)`},
		{"no such key of a class", phone + "    uplod_mbps: 3\n", nil, `config.yaml:4: fleet[0].uplod_mbps: unknown key (did you mean "upload_mbps"?)`},
		{"no such parameter", phone + "    upload_mbps: {dist: lognormal, mu: 3}\n", nil, `config.yaml:4: fleet[0].upload_mbps.mu: unknown key (dist, value, mean, median, std, sigma, shift, scale, shape, min, max, values, at_least or at_most)`},
		{"no such distribution", phone + "    upload_mbps: {dist: gauss}\n", nil, `config.yaml:4: fleet[0].upload_mbps.dist: "gauss" is not a distribution (constant, uniform, normal, lognormal, shifted_exponential, pareto, weibull or empirical)`},
		{"a distribution without its law", phone + "    upload_mbps: {mean: 3}\n", nil, `config.yaml:4: fleet[0].upload_mbps: a distribution without its dist (a number or a distribution, e.g. {dist: lognormal, mean: 20, sigma: 0.5})`},
		{"a parameter of another", phone + "    upload_mbps:\n      dist: normal\n      mean: 3\n      shape: 1\n", nil, `config.yaml:7: fleet[0].upload_mbps.shape: does not belong to dist normal, which has mean, std, at_least, at_most`},
		{"a parameter out of range", phone + "    upload_mbps:\n      dist: lognormal\n      mean: 3\n      sigma: 50\n", nil, `config.yaml:7: fleet[0].upload_mbps.sigma: 50 is out of range (from 0 to 10)`},
		{"a speed that comes to nothing", phone + "    vary:\n      upload: {dist: normal, mean: 1, std: 1}\n", nil, `config.yaml:5: fleet[0].vary.upload: normal(mean 1, std 1) can come down to 0, and a transfer would never end (set at_least above 0)`},
		{"a word for a speed", phone + "    upload_mbps: fast\n", nil, `config.yaml:4: fleet[0].upload_mbps: "fast" is not a number or a distribution, e.g. {dist: lognormal, mean: 20, sigma: 0.5}`},
		{"links and speeds", phone + "    links: l.csv\n    download_mbps: 3\n", nil, `config.yaml:5: fleet[0].download_mbps: 3, and links are given, too (one of the two)`},
		{"a class's availability", phone + "    availability: {model: markov, on_seconds: -1, off_seconds: 1}\n", nil, `config.yaml:4: fleet[0].availability.on_seconds: -1 is out of range (from 0.001 to 100000000 seconds)`},
		{"negative power", phone + "    watts: {compute: -3}\n", nil, `config.yaml:4: fleet[0].watts.compute: -3 is out of range (from 0 to 1000000 W)`},
		{"measured by nobody", "compute: {measured: devices.csv}", nil, `config.yaml:1: compute.reference: measured and reference are set together: a file, and the device in it that takes seconds_per_step`},
		{"measured and random", "compute: {measured: a.csv, reference: b, std: 0.1}", nil, `config.yaml:1: compute.measured: needs seconds_per_step above 0 and std 0 (a class in fleet may have a step_cv)`},
		{"classes in a set", "", []string{"fleet=[{name: a, weight: many}]"}, `--set fleet[0].weight: "many" is not a number`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := fromText(t, test.file, test.sets...)
			if err == nil {
				t.Fatalf("accepted; want %q", test.want)
			}
			if err.Error() != test.want {
				t.Errorf("\n got %s\nwant %s", err, test.want)
			}
		})
	}
}
