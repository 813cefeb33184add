package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"fedpace/actors/device"
)

// planned are the words that the design names and this version does not run.
// To enable one, remove it here.
var planned = map[string][]string{}

// KnownKey is a key of the configuration, for help and completion.
type KnownKey struct {
	Key   string
	Help  string
	Words []string // those that it may hold, beside or in place of other values
}

// KnownKeys lists the keys that have an effect, in the order of the file that
// YAML writes.
func KnownKeys() []KnownKey {
	var list []KnownKey
	for _, k := range keys {
		if !slices.Contains(unused, k.path) {
			list = append(list, KnownKey{k.path, k.help, k.words})
		}
	}
	return list
}

// keys is the whole configuration, in the order in which it is written. The
// keys of a group stand together.
var keys = slices.Concat(runKeys, convexKeys, selectKeys, lift("availability", func(c *Config) *Availability { return &c.Availability }, availabilityKeys),
	lift("dropout", func(c *Config) *device.Dropout { return &c.Dropout }, dropoutKeys),
	scheduleKeys, theoryKeys, closeKeys, aggregateKeys, stopKeys, speedKeys,
	lift("slowdown", func(c *Config) *Slowdown { return &c.Slowdown }, slowdownKeys), []key{fleetKey}, deviceKeys, restKeys, eventsKeys)

var runKeys = []key{
	text("name", "name of the run, used in subjects and metrics", func(c *Config) *string { return &c.Name }, CheckName),
	seedKey,
	choice("task", "what is learned", "task", func(c *Config) *Task { return &c.Task },
		string(TaskSent140), string(TaskFEMNIST), string(TaskCIFAR100), string(TaskShakespeare), string(TaskQuadratic), string(TaskLogistic)),
	text("data", "synthetic, or the path of a data set", func(c *Config) *string { return &c.Data }, notEmpty),
	real("synthetic.heterogeneity", "how much the clients of synthetic data differ; 0: not at all",
		func(c *Config) *float64 { return &c.Synthetic.Heterogeneity }, limits{lo: 0, hi: 100}),
	nullWhole("synthetic.seed", "seed of synthetic data; null: that of the run", func(c *Config) *int { return &c.Synthetic.Seed }, 1_000_000_000),
	whole("sent140.min_tweets", "users with fewer tweets are left out", func(c *Config) *int { return &c.Sent140.MinTweets }, 1, 1_000_000),
	modelKey,
	orWord(whole("clients", "size of the population; all: as many as the data has", func(c *Config) *int { return &c.Clients }, 1, 10_000_000), "all",
		func(c *Config) { c.Clients = 0 }, func(c *Config) bool { return c.Clients == 0 }),
	whole("cohort", "clients a round", func(c *Config) *int { return &c.Cohort }, 1, 1_000_000),
	whole("batch", "samples a minibatch", func(c *Config) *int { return &c.Batch }, 1, 100_000),
	choice("augment", "change of training images, drawn anew for each minibatch", "augmentation", func(c *Config) *string { return &c.Augment }, NoAugment, FlipCrop),
}

var scheduleKeys = []key{
	choice("schedule.k", "decay of the number of local steps", "schedule", func(c *Config) *string { return &c.Schedule.K }, DSGD, Fixed, Rounds, Error, Step, TheorySchedule),
	whole("schedule.k0", "local steps at the start, K_0", func(c *Config) *int { return &c.Schedule.K0 }, 1, 1_000_000),
	choice("schedule.eta", "decay of the learning rate", "schedule", func(c *Config) *string { return &c.Schedule.Eta }, Fixed, Rounds, Error, Step),
	real("schedule.eta0", "learning rate at the start", func(c *Config) *float64 { return &c.Schedule.Eta0 }, limits{lo: 0, hi: 1e6, above: true}),
	whole("schedule.window", "rounds over which the training loss is averaged, s in Eq. 15", func(c *Config) *int { return &c.Schedule.Window }, 1, 1_000_000),
	choice("schedule.f0", "what stands for F_0: the first full window or the first round", "choice of F_0", func(c *Config) *string { return &c.Schedule.F0 }, FromWindow, FromFirst),
	whole("schedule.patience", "evaluations without improvement that count as converged", func(c *Config) *int { return &c.Schedule.Patience }, 1, 1_000_000),
	real("schedule.min_delta", "least gain in validation accuracy that counts as improvement", func(c *Config) *float64 { return &c.Schedule.MinDelta }, limits{lo: 0, hi: 1}),
	nullWhole("schedule.decay_round", "last round before the decay of step; null: when converged", func(c *Config) *int { return &c.Schedule.DecayRound }, maxRounds),
}

var stopKeys = []key{
	nullWhole("stop.rounds", "stop after so many rounds", func(c *Config) *int { return &c.Stop.Rounds }, maxRounds),
	nullReal("stop.virtual_seconds", "stop at this virtual time", func(c *Config) *float64 { return &c.Stop.VirtualSeconds }, limits{hi: maxSeconds, unit: "seconds"}),
	nullWhole("stop.equal_runtime_rounds", "stop at the virtual time that so many rounds of K-eta-fixed take", func(c *Config) *int { return &c.Stop.EqualRuntimeRounds }, maxRounds),
	nullReal("stop.validation_accuracy", "stop once this accuracy is reached", func(c *Config) *float64 { return &c.Stop.ValidationAccuracy }, limits{hi: 1}),
}

var speedKeys = []key{
	real("network.download_mbps", "each client's download speed, D", func(c *Config) *float64 { return &c.Network.DownloadMbps }, limits{hi: 1e6, above: true, unit: "Mbit/s"}),
	real("network.upload_mbps", "each client's upload speed, U", func(c *Config) *float64 { return &c.Network.UploadMbps }, limits{hi: 1e6, above: true, unit: "Mbit/s"}),
	megabitsKey,
	nullText("network.links", "a CSV file of link traces to replay in place of the two speeds (trace,second,download_mbps,upload_mbps)", func(c *Config) *string { return &c.Network.Links }),
	nullReal("network.server_download_mbps", "what the downloads of all clients share at the server, fairly; null: they do not slow each other down",
		func(c *Config) *float64 { return &c.Network.ServerDownloadMbps }, limits{hi: 1e9, unit: "Mbit/s"}),
	nullReal("network.server_upload_mbps", "what their uploads share", func(c *Config) *float64 { return &c.Network.ServerUploadMbps }, limits{hi: 1e9, unit: "Mbit/s"}),

	real("compute.seconds_per_step", "mean time of a minibatch, beta (Table 2)", func(c *Config) *float64 { return &c.Compute.SecondsPerStep }, limits{hi: 1e6, unit: "seconds"}),
	stdKey,
	nullText("compute.measured", "a CSV file of measured devices (device,milliseconds) by whose speeds the clients' differ", func(c *Config) *string { return &c.Compute.Measured }),
	nullText("compute.reference", "the device in that file that takes seconds_per_step", func(c *Config) *string { return &c.Compute.Reference }),
}

var restKeys = []key{
	flag("train", "false: time only, nothing is learned", func(c *Config) *bool { return &c.Train }),
	whole("evaluate.every", "rounds from one validation to the next", func(c *Config) *int { return &c.Evaluate.Every }, 1, maxRounds),
	nullWhole("evaluate.samples", "held-out samples that a validation takes, spread evenly; null: all", func(c *Config) *int { return &c.Evaluate.Samples }, 1_000_000_000),
	nullReal("evaluate.target", "validation accuracy whose time the summary gives; null: stop.validation_accuracy", func(c *Config) *float64 { return &c.Evaluate.Target }, limits{hi: 1}),
	nullText("init", "a model.safetensors to start from", func(c *Config) *string { return &c.Init }),
	real("checkpoint.seconds", "wall time from one checkpoint to the next", func(c *Config) *float64 { return &c.Checkpoint.Seconds }, limits{hi: 1e6, above: true, unit: "seconds"}),
	text("nats.url", "embedded, or the URL of a server, several of a cluster with commas between them", func(c *Config) *string { return &c.NATS.URL }, validServer),
	text("nats.listen", `address on which the embedded server takes hosts and devices, e.g. 127.0.0.1:4222; "": none`, func(c *Config) *string { return &c.NATS.Listen }, validAddress),
	whole("nats.replicas", "copies of the work queue in a cluster", func(c *Config) *int { return &c.NATS.Replicas }, 1, 5),
	real("nats.ack_seconds", "wall time without a sign of life after which a trainer's job goes to another", func(c *Config) *float64 { return &c.NATS.AckSeconds }, limits{hi: 3600, above: true, unit: "seconds"}),
	text("http", `address of the live page and the metrics, e.g. localhost:9090; "": none`, func(c *Config) *string { return &c.HTTP }, validAddress),
	real("pace", "virtual seconds a second of wall time; 0: as fast as it goes", func(c *Config) *float64 { return &c.Pace }, limits{hi: 1e9}),
	text("out", "folder of the results", func(c *Config) *string { return &c.Out }, notEmpty),
}

const (
	maxRounds  = 1_000_000_000
	maxSeconds = 4e9 // int64 nanoseconds end at 9.2e9 s
)

var seedKey = key{
	path: "seed", help: "all that is random follows from it",
	read: func(c *Config, n ast.Node) error {
		s, err := scalar(n, "a whole number")
		if err != nil {
			return err
		}
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil || quoted(n) {
			return fmt.Errorf("%s is not a whole number from 0 to 18446744073709551615", shown(n, s))
		}
		c.Seed = v
		return nil
	},
	write: func(c *Config) string { return strconv.FormatUint(c.Seed, 10) },
	check: func(*Config) error { return nil },
}

// megabitsKey knows two words: exact stays, table1 becomes its number.
var megabitsKey = func() key {
	k := real("network.model_megabits", "size of a model on the network: exact, table1 or a number of 10^6 bit",
		func(c *Config) *float64 { return &c.Network.ModelMegabits }, limits{hi: 1e9, above: true, unit: "megabits"})
	k = orWord(k, "exact", func(c *Config) { c.Network.ModelMegabits = 0 }, func(c *Config) bool { return c.Network.ModelMegabits == 0 })
	return fromTable(k, "table1", func(c *Config, p PaperTask) { c.Network.ModelMegabits = p.Megabits })
}()

// stdKey reads table2 as Table 2's deviation for the task.
var stdKey = fromTable(real("compute.std", "standard deviation of a minibatch's time: table2 or a number",
	func(c *Config) *float64 { return &c.Compute.Std }, limits{hi: 1e6, unit: "seconds"}),
	"table2", func(c *Config, p PaperTask) { c.Compute.Std = p.StdPerStep })

// fromTable lets a number's key hold a word that stands for the paper's number.
func fromTable(k key, word string, set func(*Config, PaperTask)) key {
	read := k.read
	k.read = func(c *Config, n ast.Node) error {
		if s, err := scalar(n, "a number"); err == nil && s == word {
			p, ok := c.Task.Paper()
			if !ok {
				return fmt.Errorf("the paper's tables do not have task %q (write a number)", c.Task)
			}
			set(c, p)
			return nil
		}
		if err := read(c, n); err != nil {
			return fmt.Errorf("%w, or %s", err, word)
		}
		return nil
	}
	return k
}

// Limits of an own model.
const (
	maxLayers     = 16
	MaxParameters = 1 << 28
)

var modelKey = key{
	path: "model", help: "task: the task's own; for own data linear or {mlp: [inputs, ..., classes]}",
	read: func(c *Config, n ast.Node) error {
		if isNull(n) {
			return errors.New("nothing stands where " + modelForms + " is wanted")
		}
		m, ok := n.(*ast.MappingNode)
		if !ok {
			s, err := scalar(n, modelForms)
			if err == nil && s != ModelTask && s != ModelLinear {
				err = errors.New(notA(s, "model", []string{ModelTask, ModelLinear, "{mlp: [inputs, ..., classes]}"}))
			}
			c.Model = Model{Kind: s}
			return err
		}
		if len(m.Values) != 1 || m.Values[0].Key.String() != ModelMLP {
			return errors.New("a map that is not {mlp: [inputs, ..., classes]}")
		}
		list, ok := m.Values[0].Value.(*ast.SequenceNode)
		if !ok {
			return errors.New("mlp wants a list of layer widths, e.g. {mlp: [784, 200, 62]}")
		}
		c.Model = Model{Kind: ModelMLP}
		for _, v := range list.Values {
			s, err := scalar(v, "a layer's width")
			if err != nil {
				return err
			}
			width, err := strconv.Atoi(s)
			if err != nil || quoted(v) {
				return fmt.Errorf("%s is not a layer's width (a whole number)", shown(v, s))
			}
			c.Model.Layers = append(c.Model.Layers, width)
		}
		return nil
	},
	write: func(c *Config) string {
		if c.Model.Kind != ModelMLP {
			return quote(c.Model.Kind)
		}
		widths := make([]string, len(c.Model.Layers))
		for i, w := range c.Model.Layers {
			widths[i] = strconv.Itoa(w)
		}
		return "{mlp: [" + strings.Join(widths, ", ") + "]}"
	},
	check: func(c *Config) error {
		switch c.Model.Kind {
		case ModelTask, ModelLinear:
			if len(c.Model.Layers) > 0 {
				return errors.New("layers belong to mlp alone")
			}
			return nil
		case ModelMLP:
		default:
			return errors.New(notA(c.Model.Kind, "model", []string{ModelTask, ModelLinear, ModelMLP}))
		}
		if n := len(c.Model.Layers); n < 2 || n > maxLayers {
			return fmt.Errorf("mlp has %d widths (from 2, inputs and classes, to %d)", n, maxLayers)
		}
		parameters := 0
		for i, w := range c.Model.Layers {
			if w < 1 || w > MaxParameters {
				return fmt.Errorf("mlp's width %d is out of range (from 1 to %d)", w, MaxParameters)
			}
			if i > 0 {
				parameters += (c.Model.Layers[i-1] + 1) * w
			}
			if parameters > MaxParameters {
				return fmt.Errorf("mlp has more than %d parameters", MaxParameters)
			}
		}
		return nil
	},
}

const modelForms = "task, linear or {mlp: [inputs, ..., classes]}"

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckName keeps a run's name one token of a NATS subject.
func CheckName(s string) error {
	if !nameForm.MatchString(s) {
		return fmt.Errorf("%q is not a name (1 to 64 letters, digits, hyphens and underscores, the first a letter or digit)", s)
	}
	return nil
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("is empty (a path is wanted)")
	}
	return nil
}

func validAddress(s string) error {
	if s == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address (host:port, e.g. localhost:9090)", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is not an address: port %q is not a number from 0 to 65535", s, port)
	} else if n == 0 {
		return nil // any free port
	}
	return nil
}

// taskProblem says why a task has no defaults.
func taskProblem(s string) string {
	var c Config
	c.Task = Task(s)
	if err := keyAt("task").check(&c); err != nil {
		return err.Error()
	}
	panic("config: a task that is built has no defaults")
}

// keyAt returns the key of that path, nil if there is none.
func keyAt(path string) *key {
	for i := range keys {
		if keys[i].path == path {
			return &keys[i]
		}
	}
	return nil
}
