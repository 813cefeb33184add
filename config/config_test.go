package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/config/tree"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/internal/tasks"
	_ "fedpace/internal/testkit/testseed"
	"fedpace/learn"
)

// fromText loads a configuration from a file called config.yaml in the working
// directory, so that messages start as a user sees them.
func fromText(t *testing.T, text string, sets ...string) (Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return Load("config.yaml", sets)
}

// shipped are the plug-ins that the lists of the messages below are held to.
const shipped = " adacomm adam adamw always bernoulli constant cosine daily decoupled dsgd empirical error exponential expression fedadagrad fedadam fedasync fedavg fedavgm fedbuff fedexp fednova fedprox fedyogi fit fixed flanp four_bit last_losses least_available linear list lognormal markov normal oort pareto power power_of_choice qsgd quadratic refl round_robin rounds scaffold sgd share shifted_exponential sign size step streaming theory tifl top_k trace uniform warmup weibull "

var lists = regexp.MustCompile(`(\(use |is not a (schedule|distribution|model of availability) \(|a distribution \(|its dist \()[a-z_]+(, [a-z_]+)* or [a-z_]+`)

// message is an error whose lists leave out what is not shipped: one more plug-in changes no test.
func message(err error) string {
	return lists.ReplaceAllStringFunc(err.Error(), func(list string) string {
		at := strings.LastIndexAny(list, "(") + 1
		before, names, uses := list[:at], list[at:], ""
		if rest, ok := strings.CutPrefix(names, "use "); ok {
			uses, names = "use ", rest
		}
		words := slices.DeleteFunc(strings.Split(strings.ReplaceAll(names, " or ", ", "), ", "), func(name string) bool { return !strings.Contains(shipped, " "+name+" ") })
		return before + uses + orList(words)
	})
}

func TestDefaults_Demonstration(t *testing.T) {
	c, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Demonstration(), c); diff != "" {
		t.Error(diff)
	}
}

// Tables 1 and 2.
func TestDefaults_OfTask(t *testing.T) {
	for _, p := range tasks.Paper() {
		want, err := Defaults(p.Task)
		if err != nil {
			t.Fatal(err)
		}
		want.Train = false
		for name, load := range map[string]func() (Config, error){
			"set":  func() (Config, error) { return Load("", []string{"train=false", "task=" + string(p.Task)}) },
			"file": func() (Config, error) { return fromText(t, "train: false\ntask: "+string(p.Task)) },
			"both": func() (Config, error) {
				return fromText(t, "train: false\ntask: sent140", "task="+string(p.Task))
			},
		} {
			c, err := load()
			if err != nil {
				t.Fatalf("%s, %s: %v", p.Task, name, err)
			}
			if diff := cmp.Diff(want, c); diff != "" {
				t.Errorf("%s, %s: %s", p.Task, name, diff)
			}
		}
		if c := want; c.Clients != p.Clients || c.Cohort != p.Cohort || c.Schedule.K0 != p.K0 || c.Schedule.Eta0 != p.Eta0 ||
			c.Network.ModelMegabits != p.Megabits || c.Compute.SecondsPerStep != p.SecondsPerStep || c.Stop.Rounds != 10000 {
			t.Errorf("%s: defaults differ from the paper's tables: %+v", p.Task, c)
		}
	}
}

func TestDefaults_FollowFromOthers(t *testing.T) {
	for _, test := range []struct {
		name string
		sets []string
		want func(*Config)
	}{
		{"any stop replaces the default stop", []string{"stop.virtual_seconds=100"}, func(c *Config) { c.Stop = Stop{VirtualSeconds: 100} }},
		{"stops that are set stand together", []string{"stop={rounds: 7}", "stop.validation_accuracy=0.5"}, func(c *Config) { c.Stop = Stop{Rounds: 7, ValidationAccuracy: 0.5} }},
		{"times are written as people write them", []string{"stop={virtual_seconds: 1h30m}"}, func(c *Config) { c.Stop = Stop{VirtualSeconds: 5400} }},
		{"in days and in quotes, too", []string{`stop.virtual_seconds="1.5d"`}, func(c *Config) { c.Stop = Stop{VirtualSeconds: 129600} }},
		{"null takes a stop back", []string{"stop={rounds: 7}", "stop.virtual_seconds=9", "stop.rounds=null"}, func(c *Config) { c.Stop = Stop{VirtualSeconds: 9} }},
		{"the name names the folder", []string{"name=x"}, func(c *Config) { c.Name, c.Out = "x", "runs/x" }},
		{"unless it is set", []string{"name=x", "out=y"}, func(c *Config) { c.Name, c.Out = "x", "y" }},
		{"own data decides its clients", []string{"data=my data.parquet"}, func(c *Config) { c.Data.Path, c.Clients = "my data.parquet", AllClients }},
		{"unless they are set", []string{"data=my.parquet", "clients=70"}, func(c *Config) { c.Data.Path, c.Clients = "my.parquet", 70 }},
		{"own model has its own size", []string{"data=my.parquet", "model={mlp: [3, 2]}"}, func(c *Config) {
			c.Data.Path, c.Clients, c.Model, c.Network.ModelMegabits = "my.parquet", AllClients, learn.MLP{Layers: []int{3, 2}}, 0
		}},
		{"an algorithm is named behind its neighbour", []string{"aggregate.weights=samples", "aggregate.algorithm=fedprox"}, func(c *Config) {
			c.Aggregate = Aggregate{Algorithm: algorithm.FedProx{Rate: 1, Mu: 0.01, Staleness: algorithm.Staleness{Exponent: 0.5}}, Weights: SampleWeights}
		}},
		{"exponents are numbers", []string{"compute.std=1e-3", "schedule.eta0=3E-1"}, func(c *Config) { c.Compute.Std = 0.001 }},
		{"a group in flow form", []string{"schedule={k: error, k0: 40}"}, func(c *Config) { c.Schedule.K, c.Schedule.K0 = schedule.ErrorK{}, 40 }},
		{"text needs no quotes", []string{"http=[::1]:9090", "init=a: b.safetensors"}, func(c *Config) { c.HTTP, c.Init = "[::1]:9090", "a: b.safetensors" }},
		{"text may be null or empty", []string{"http=:1", "http=", "init=x", "init=null"}, func(*Config) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := Demonstration()
			test.want(&want)
			got, err := Load("", test.sets)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each case is a mistake a person makes and the line they should read.
func TestLoad_MistakesAreNamed(t *testing.T) {
	for _, test := range []struct {
		name, file string
		sets       []string
		want       string
	}{
		{"nested without end", "a: " + strings.Repeat("[", 100_000), nil, `config.yaml: lists or maps within each other over 50 times; a configuration has none of more than a few`},
		{"misspelt value", "name: x\nschedule:\n  k: round\n", nil, `config.yaml:3: schedule.k: "round" is not a schedule (did you mean "rounds"?)`},
		{"misspelt key", "schedule: {windw: 5}", nil, `config.yaml:1: schedule.windw: unknown key (did you mean "schedule.window"?)`},
		{"key of another group", "\n\nk0: 5", nil, `config.yaml:3: k0: unknown key (did you mean "schedule.k0"?)`},
		{"key of several groups", "", []string{"rounds=3"}, `--set rounds: unknown key (did you mean "stop.rounds"?)`},
		{"key without its group, near to another", "", []string{"server_upload_mbps=3"}, `--set server_upload_mbps: unknown key (did you mean "network.server_upload_mbps"?)`},
		{"model larger than any", "", []string{"network.model_megabits=1e9"}, `--set network.model_megabits: 1000000000 is out of range (from 1e-06 to 8000000 megabits)`},
		{"time of no known form", "", []string{"stop.virtual_seconds=10mins"}, `--set stop.virtual_seconds: "10mins" is not a number (more than 0 and at most 4000000000 seconds), or a time such as 1h30m, or null`},
		{"no such key", "", []string{"colour=red"}, `--set colour: unknown key (fedpace help configuration lists all)`},
		{"misspelt key in a set", "", []string{"chort=5"}, `--set chort: unknown key (did you mean "cohort"?)`},
		{"key that is no text", "1: 2", nil, `config.yaml:1: 1: unknown key (fedpace help configuration lists all)`},
		{"word for a number", "cohort: many", nil, `config.yaml:1: cohort: "many" is not a whole number from 1 to 1000000, or fit`},
		{"quoted number", "cohort: '60'", nil, `config.yaml:1: cohort: "60" is not a whole number from 1 to 1000000, or fit`},
		{"fraction of a client", "cohort: 2.5", nil, `config.yaml:1: cohort: 2.5 is not a whole number from 1 to 1000000, or fit`},
		{"list for a number", "cohort:\n  - 1\n", nil, `config.yaml:1: cohort: a list stands where a whole number is wanted`},
		{"nothing for a number", "cohort:", nil, `config.yaml:1: cohort: nothing stands where a whole number is wanted`},
		{"number for a group", "schedule: 3", nil, `config.yaml:1: schedule: this is a group of keys: name, k, k0, unit, eta, eta0, batch, cohort, loss, trim, window, f0, patience, min_delta or decay_round`},
		{"word for a flag", "train: yes", nil, `config.yaml:1: train: "yes" is not true or false`},
		{"cohort above clients", "clients: 10\ncohort: 11", nil, `config.yaml:2: cohort: 11 is more than there are clients (at most 10, or set clients)`},
		{"cohort above clients, by clients", "clients: 10", nil, `config.yaml:1: clients: 10 are fewer than the cohort, 60 (set cohort, too)`},
		{"k0 below 1", "", []string{"schedule.k0=0"}, `--set schedule.k0: 0 is out of range (a whole number from 1 to 1000000)`},
		{"negative speed", "network: {download_mbps: -1}", nil, `config.yaml:1: network.download_mbps: -1 is out of range (more than 0 and at most 1000000 Mbit/s)`},
		{"not a number", "network: {upload_mbps: .nan}", nil, `config.yaml:1: network.upload_mbps: NaN is out of range (more than 0 and at most 1000000 Mbit/s)`},
		{"infinite rate", "schedule: {eta0: .inf}", nil, `config.yaml:1: schedule.eta0: +Inf is out of range (more than 0 and at most 1000000)`},
		{"beyond float64", "pace: 1e999", nil, `config.yaml:1: pace: +Inf is out of range (from 0 to 1000000000)`},
		{"too many clients", "clients: 1000000000", nil, `config.yaml:1: clients: 1000000000 is out of range (a whole number from 0 to 100000000)`},
		{"no round", "stop: {rounds: 0}", nil, `config.yaml:1: stop.rounds: 0 is out of range (a whole number from 1 to 1000000000)`},
		{"no end", "stop: {rounds: null}", nil, `config.yaml:1: stop: nothing is set, so the run would not end (set rounds, virtual_seconds, equal_runtime_rounds, accepted, samples, tokens, energy_joules, bytes, carbon_grams, energy_cost, client_hours, validation_accuracy, metric or privacy.epsilon)`},
		{"a slow link", "network: {upload_mbps: 1e-9}", nil, `config.yaml:1: network: one round would take 6.71e+09 virtual seconds (at most 4000000000: raise the speeds or lower schedule.k0)`},
		{"losses without training", "train: false\nschedule: {k: error}", nil, `config.yaml:2: schedule.k: "error" decides by training losses, which train: false does not measure (use cosine, dsgd, exponential, expression, fixed, linear, list, power, quadratic or rounds)`},
		{"plateau without training", "train: false", []string{"schedule.eta=step"}, `--set schedule.eta: "step" decides by the validation accuracy, which train: false does not measure (use cosine, exponential, expression, fixed, linear, list, power, rounds or warmup, or set schedule.decay_round)`},
		{"accuracy without training", "train: false\nstop:\n  validation_accuracy: 0.5", nil, `config.yaml:3: stop.validation_accuracy: 0.5 is never reached with train: false, which measures no accuracy (remove it)`},
		{"no server's URL", "nats: {url: \"http://a:4222\"}", nil, `config.yaml:1: nats.url: "http://a:4222" is not a NATS server's URL (nats://host:4222)`},
		{"a password in a URL", "nats: {url: \"nats://a:b@c:4222\"}", nil, `config.yaml:1: nats.url: a user or password in it would stand in the results (use --nats, or --creds)`},
		{"an external server that listens", "nats: {url: \"nats://a:4222\", listen: \"127.0.0.1:4222\"}", nil, `config.yaml:1: nats.listen: "127.0.0.1:4222" is for the embedded server alone, and nats.url is another`},
		{"no server that listens", "nats: {url: none, listen: \"127.0.0.1:4222\"}", nil, `config.yaml:1: nats.listen: "127.0.0.1:4222" is for a server, and nats.url is none: there is none`},
		{"replicas of no server", "nats: {url: none, replicas: 3}", nil, `config.yaml:1: nats.replicas: 3 are for a cluster, and nats.url is none: there is no server`},
		{"devices without a server", "nats: {url: none}\ndevices: {names: [pi]}", nil, `config.yaml:2: devices.names: devices reach a run through a server, and nats.url is none: there is no server`},
		{"replicas of one server", "nats: {replicas: 3}", nil, `config.yaml:1: nats.replicas: 3 are for a cluster, and the embedded server is one (set nats.url)`},
		{"name with a dot", "name: a.b", nil, `config.yaml:1: name: "a.b" is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit)`},
		{"address", "http: nonsense", nil, `config.yaml:1: http: "nonsense" is not an address (host:port, e.g. localhost:9090)`},
		{"own model on made data", "model: linear", nil, `config.yaml:1: model: "linear" is for custom data; synthetic data has the task's model (set data, or model: task)`},
		{"all of what is made", "clients: all", nil, `config.yaml:1: clients: all is for data that is read; synthetic data needs a number`},
		{"model without a list", "data: x\nmodel: {mlp: 3}", nil, `config.yaml:2: model.mlp: 1 widths, want FEATURES,HIDDEN,...,CLASSES`},
		{"immense model", "data: x\nmodel: {mlp: [1048576, 1048576]}", nil, `config.yaml:2: model.mlp: more than 268435456 parameters`},
		{"twice the same key", "seed: 1\nseed: 2", nil, `config.yaml:2: not YAML: mapping key "seed" already defined at [1:1]`},
		{"not YAML", "a: [1", nil, `config.yaml:1: not YAML: sequence end token ']' not found`},
		{"no map", "femnist", nil, `config.yaml:1: a configuration is a map of keys, e.g. "task: femnist"`},
		{"two documents", "seed: 1\n---\nseed: 2", nil, `config.yaml: 2 documents stand where one is wanted`},
		{"an alias", "seed: &a 1\ncohort: *a", nil, `config.yaml:1: seed: YAML's anchors, aliases and tags are not read here (write a whole number)`},
		{"a set without a value", "", []string{"cohort"}, `--set "cohort": want key=value, e.g. schedule.k=error`},
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

func TestLoad_MissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	if err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v", err)
	}
}

// The paper's timing runs need no data and no model.
func TestPaperTasks_CanBeTimed(t *testing.T) {
	for _, p := range tasks.Paper() {
		for _, sets := range [][]string{
			{"stop.equal_runtime_rounds=10000"},
			{"stop.equal_runtime_rounds=10000", "schedule={k: step, decay_round: 5000}"},
			{"stop.equal_runtime_rounds=10000", "network.model_megabits=320"},
		} {
			if _, err := Load("", append(sets, "train=false", "task="+string(p.Task))); err != nil {
				t.Errorf("%s %v: %v", p.Task, sets, err)
			}
		}
	}
}

// anyConfig draws a valid configuration far from the defaults.
func anyConfig(t *rapid.T) Config {
	c, err := Defaults(rapid.SampledFrom([]Task{TaskSent140, TaskFEMNIST}).Draw(t, "task"))
	if err != nil {
		t.Fatal(err)
	}
	positive := func(name string) float64 { return rapid.Float64Range(1e-3, 1e3).Draw(t, name) }
	maybe := func(name string, hi int) int { return rapid.OneOf(rapid.Just(0), rapid.IntRange(1, hi)).Draw(t, name) }
	printable := rapid.OneOf(rapid.StringMatching(`[ -~äλ漢]{1,20}`), rapid.SampledFrom([]string{"null", "~", "true", "12", "1e5", ".inf", " a ", "a: b", "#a"}))
	c.Name = rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9_-]{0,20}`).Draw(t, "name")
	c.Seed = rapid.Uint64().Draw(t, "seed")
	if rapid.Bool().Draw(t, "own data") {
		c.Data.Path = printable.Draw(t, "data")
		if rapid.Bool().Draw(t, "all") {
			c.Clients = AllClients
		}
		switch rapid.IntRange(0, 2).Draw(t, "model") {
		case 0:
			c.Model = learn.Linear{}
		case 1:
			c.Model = learn.MLP{Layers: append(rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 4).Draw(t, "layers"), rapid.IntRange(2, 1000).Draw(t, "classes"))}
		}
	}
	if c.Clients != AllClients {
		c.Clients = rapid.IntRange(c.Cohort, 1_000_000).Draw(t, "clients")
	}
	c.Batch = rapid.IntRange(1, 1000).Draw(t, "batch")
	c.Synthetic.Heterogeneity = rapid.Float64Range(0, 100).Draw(t, "heterogeneity")
	c.Schedule.K = rapid.SampledFrom([]schedule.K{schedule.DSGD{}, schedule.FixedK{}, schedule.RoundsK{}, schedule.ErrorK{}, schedule.StepK{}}).Draw(t, "k")
	c.Schedule.Eta = rapid.SampledFrom([]schedule.Eta{schedule.FixedEta{}, schedule.RoundsEta{}, schedule.ErrorEta{}, schedule.StepEta{}}).Draw(t, "eta")
	c.Schedule.K0 = rapid.IntRange(1, 1000).Draw(t, "k0")
	c.Schedule.Eta0 = rapid.Float64Range(1e-300, 1e6).Draw(t, "eta0")
	c.Schedule.MinDelta = rapid.Float64Range(0, 1).Draw(t, "min_delta")
	c.Schedule.DecayRound = maybe("decay_round", 1000)
	c.Stop = Stop{
		Rounds: rapid.IntRange(1, 1_000_000_000).Draw(t, "rounds"), VirtualSeconds: positive("virtual_seconds"),
		EqualRuntimeRounds: maybe("equal", 100), ValidationAccuracy: rapid.Float64Range(0, 1).Draw(t, "accuracy"),
	}
	c.Network = Network{Network: fleet.Network{DownloadMbps: positive("down"), UploadMbps: positive("up")}, ModelMegabits: rapid.SampledFrom([]float64{0, 320, 6.71, 1e-6}).Draw(t, "megabits")}
	c.Compute = fleet.Compute{SecondsPerStep: rapid.Float64Range(0, 10).Draw(t, "step"), Std: rapid.Float64Range(0, 10).Draw(t, "std")}
	anyRules(t, &c)
	anyDevices(t, &c)
	c.Init = rapid.OneOf(rapid.Just(""), printable).Draw(t, "init")
	c.HTTP = rapid.SampledFrom([]string{"", ":0", "localhost:9090", "[::1]:80"}).Draw(t, "http")
	c.Out = printable.Draw(t, "out")
	return c
}

func TestYAML_ReadsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	rapid.Check(t, func(t *rapid.T) {
		want := anyConfig(t)
		if err := want.Validate(); err != nil {
			t.Fatalf("the drawn configuration is not valid: %v", err)
		}
		if err := os.WriteFile(path, want.YAML(), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, want.YAML())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s in\n%s", diff, want.YAML())
		}
		if string(got.YAML()) != string(want.YAML()) {
			t.Fatal("the second text differs from the first")
		}
	})
}

// Every key is written, so that a file of a run hides no default, and has help.
func TestYAML_HoldsEveryKey(t *testing.T) {
	c := Demonstration()
	c.Close, c.Select, c.Availability, c.Slowdown = closing.Buffered{N: 3, StalenessLimit: 2}, selection.Fit{Base: selection.RoundRobin{}}, fleet.Trace{Sessions: "x", PeriodSeconds: 3}, fleet.SlowPeriods{}
	file, err := tree.Parse("config.yaml", c.YAML())
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]string{}
	file.Places(written, "")
	for _, k := range KnownKeys() {
		if k.Help == "" {
			t.Errorf("%s has no help", k.Name)
		}
		taken := k.Entries == nil || slices.Contains(k.Entries, "buffered") || slices.Contains(k.Entries, "fit") || slices.Contains(k.Entries, "trace")
		if group, _, nested := strings.Cut(k.Name, "."); taken && !k.InList() && !slices.Contains([]string{"model", "slowdown"}, group) {
			if _, ok := written[k.Name]; !ok && (written[group] == "" || !nested) {
				t.Errorf("%s is not written in\n%s", k.Name, c.YAML())
			}
		}
	}
}

func TestSchedule_Names(t *testing.T) {
	for _, name := range schedule.Names() {
		s, err := Demonstration().Schedule.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name() != name {
			t.Errorf("%s comes back as %s", name, s.Name())
		}
		if s.K0 != 80 {
			t.Errorf("%s changes k0 to %d", name, s.K0)
		}
	}
	_, err := Demonstration().Schedule.Named("round")
	if want := `schedules: "round" is not a schedule (did you mean "rounds"?)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for old, now := range map[string]string{"k-rounds": "rounds", "K_r-step": "step", "eta_r-error": "eta-error", "K-eta-fixed": "fixed"} {
		if _, err := Demonstration().Schedule.Named(old); err == nil || err.Error() != fmt.Sprintf("schedules: %q is called %q", old, now) {
			t.Errorf("%s: %v, want its name, %s", old, err, now)
		}
	}
}

func TestModel_Bits(t *testing.T) {
	if got := (Network{}).ModelBits(209662); got != 6709184 {
		t.Errorf("exact: %v bits", got)
	}
	if got := (Network{ModelMegabits: 6.71}).ModelBits(209662); math.Abs(got-6.71e6) > 1e-6 {
		t.Errorf("table 1: %v bits", got)
	}
}

// FuzzFile: whatever bytes a file holds, it is refused or gives a
// configuration that is valid and reads back.
func FuzzFile(f *testing.F) {
	f.Add(Demonstration().YAML())
	f.Add([]byte("task: sent140\nstop: {rounds: 3}\n"))
	f.Add([]byte("schedule: {k: error, k0: 1e3}\nmodel: {mlp: [1, 2]}\ndata: x"))
	f.Add([]byte("fleet:\n  - name: a\n    weight: 2\n    links: {file: l.csv, traces: [x]}\n    availability: {model: daily, to_hour: 6, zones: [{hours: 1, weight: 2}]}\n    watts: {compute: 3}\n" +
		"  - {name: b, weight: 1, upload_mbps: {dist: empirical, values: [1, 2e3], at_least: 0.5}, vary: {compute: 2}, slowdown: {}, dropout: {probability: 1}}\n"))
	f.Add([]byte("select: {rule: fit, from: round_robin}\nclose: {rule: deadline, seconds: 3}\naggregate: {algorithm: fednova, server_rate: 0.5}\nslowdown: {every_seconds: 9, for_seconds: 1, factor: 3}"))
	f.Add([]byte("schedule: {k: [1]}"))
	f.Add([]byte("a: &b [*b]"))
	f.Add([]byte("? x\n: - !!y |\n  z"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4096 {
			return // the reader's own limit is tested by its constant; nothing new in length
		}
		c, err := Parse("config.yaml", text)
		if err != nil {
			return
		}
		d, err := Parse("again.yaml", c.YAML())
		if err != nil {
			t.Fatalf("%v in\n%s", err, c.YAML())
		}
		if diff := cmp.Diff(c, d, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Fatal(diff)
		}
	})
}
