package config

import (
	"fmt"
	"math"
	"slices"

	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/algorithm/combine"
	"fedpace/algorithm/privacy"
	"fedpace/bus/quota"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/metrics"
	"fedpace/registry"
)

// Config is everything that decides what a run computes, with a few keys that only say where
// results go and how fast the run may be. Every field with the tag key is one key of the YAML file,
// or a group of keys below it; package registry explains the tags. In a field whose tag allows
// null, the zero value means that the key is not set.
type Config struct {
	Name string   `key:"name" default:"demo" is:"inert" help:"name of the run, in subjects and metrics"`
	Tags []string `key:"tags" is:"null,inert" help:"words to find the run by"`
	// Seed is the root of all random numbers of the run: two runs with the same seed and the same
	// other keys compute the same.
	Seed uint64 `key:"seed" default:"1" help:"seed of all randomness"`
	Task Task   `key:"task" words:"sent140,femnist,cifar100,shakespeare,quadratic,logistic,custom,flower" help:"custom: own data; flower: a Flower app"`
	// Data names the samples: made ones, the path of a data set, or a path and its reader.
	Data      Data      `key:"data" default:"synthetic" help:"synthetic or a path, alone or with its reader"`
	Synthetic Synthetic `key:"synthetic"`
	Sent140   Sent140   `key:"sent140"`
	// Model is the architecture that is trained, [TaskModel] for the task's own.
	Model learn.Architecture `key:"model" default:"task" help:"architecture"`
	// Clients is the number of simulated clients: [AllClients] for as many as the data has, and 0
	// for a deployment, whose clients are real devices.
	Clients int `key:"clients" range:"[0,100000000]" word:"all=-1" help:"simulated clients; all: the data's; 0: real devices alone"`
	// Cohort is the number of clients that a round selects. It is 0 until [Config.Fit] settles it.
	Cohort int `key:"cohort" range:"[1,1000000]" word:"fit=0" help:"clients a round; fit: a tenth, but 10 to 100; all devices if clients is 0"`
	// Batch is the number of samples in a minibatch. It is 0 until [Config.Fit] settles it.
	Batch   int     `key:"batch" range:"[1,100000]" word:"fit=0" help:"minibatch size; fit: 32, or a quarter of most clients' samples if less"`
	Augment string  `key:"augment" default:"none" words:"none,flip_crop" help:"random change of each training image"`
	Flower  Flower  `key:"flower"`
	Trainer Trainer `key:"trainer" default:"" help:"program of the local steps"`
	// Local turns the gradients of a client's local steps into changes of the model.
	Local     learn.Optimizer `key:"local" default:"sgd" help:"how local steps follow from gradients"`
	Personal  Personal        `key:"personal" default:"null" help:"parameters that stay with each client"`
	Quadratic Quadratic       `key:"quadratic"`
	Logistic  Logistic        `key:"logistic"`
	// Select chooses the clients of each round.
	Select       selection.Rule     `key:"select" default:"uniform" help:"selection of a round's clients"`
	Availability fleet.Availability `key:"availability" default:"always" help:"when clients can be chosen"`
	Dropout      fleet.Dropout      `key:"dropout"`
	Schedule     Schedule           `key:"schedule"`
	Theory       Theory             `key:"theory"`
	// Close decides when a round ends, and Late what becomes of tasks that are then unfinished.
	Close     closing.Rule     `key:"close" default:"all" help:"what closes a round"`
	Late      closing.Lateness `key:"late" default:"drop" help:"tasks that run when their round closes"`
	Aggregate Aggregate        `key:"aggregate"`
	Privacy   privacy.Options  `key:"privacy"`
	// Secure hides single updates from the coordinator.
	Secure SecureAggregation `key:"secure_aggregation"`
	// Compress shrinks updates for their upload; nil sends them whole.
	Compress algorithm.Compression `key:"compress" is:"null" help:"compression of updates"`
	Limits   Limits                `key:"limits"`
	Stop     Stop                  `key:"stop"`
	Network  Network               `key:"network"`
	Compute  fleet.Compute         `key:"compute"`
	// Slowdown makes clients slow for a while; nil never does.
	Slowdown fleet.Slowdown `key:"slowdown" is:"null" help:"slow periods of clients"`
	// Fleet lists the classes of devices; without any, all clients have the same device.
	Fleet       []fleet.Class     `key:"fleet" is:"null" help:"classes of devices, [{name: phone, weight: 3, ...}, ...]; []: all clients alike"`
	Correlation fleet.Correlation `key:"correlation"`
	Carbon      Carbon            `key:"carbon"`
	Devices     Devices           `key:"devices"`
	// Train is false for a run that measures virtual time alone and trains no model.
	Train    bool     `key:"train" default:"true" help:"false: time only, no learning"`
	Kernel   string   `key:"kernel" default:"auto" words:"auto,go,neon,avx,amx,amx3" help:"arithmetic, which decides a model's last bits; auto: fastest of float32; go: equal on all machines; amx: products of bfloat16; amx3: of pairs of them"`
	Evaluate Evaluate `key:"evaluate"`
	// Init is the file of the parameters that the run starts from; empty takes the task's own.
	Init       string     `key:"init" is:"null,path" help:"model.safetensors to start from"`
	Checkpoint Checkpoint `key:"checkpoint"`
	NATS       NATS       `key:"nats"`
	HTTP       string     `key:"http" default:"" is:"inert" help:"address of page and metrics, e.g. localhost:9090"`
	// Pace is the number of virtual seconds in a second of wall time; 0 runs as fast as possible.
	Pace   float64 `key:"pace" default:"0" range:"[0,1e9]" is:"inert" help:"virtual seconds a wall second; 0: as fast as possible"`
	Out    string  `key:"out" is:"inert,path" help:"folder of the results; runs/<name> unless set"`
	Events Events  `key:"events"`
	// Expect lists conditions on the results. The run fails if one of them does not hold.
	Expect  []string       `key:"expect" is:"null,inert" help:"conditions, as [tail_accuracy >= 0.75]; a miss is exit status 3"`
	Outputs []metrics.Sink `key:"outputs" is:"null,inert" help:"further outputs, [NAME, {sink: NAME, ...}, ...]"`
}

// AutoKernel is the value of Config.Kernel that chooses the fastest arithmetic of the machine. Runs
// on different machines may then differ in the last bits of a model.
const AutoKernel = learn.AutoKernel

// Synthetic says how the samples of a task are made where no data set is read: how far the clients'
// distributions differ, and from which seed all of it follows.
type Synthetic struct {
	Heterogeneity float64 `key:"heterogeneity" default:"1" range:"[0,100]" help:"how far clients differ"`
	Seed          int     `key:"seed" is:"null" range:"[1,1000000000]" help:"seed of the data; null: the run's"`
}

// Sent140 says how the tweets of task sent140 become clients: each user is one, and users with
// fewer than MinTweets tweets are left out.
type Sent140 struct {
	MinTweets int `key:"min_tweets" default:"10" range:"[1,1000000]" help:"minimum tweets of a user"`
}

// Quadratic shapes the federated quadratics of task quadratic. Each client has a quadratic
// objective with strong convexity Mu and smoothness L, where Mu may be at most L (see
// synthetic.Quadratics).
type Quadratic struct {
	Dimension int     `key:"dimension" default:"20" range:"[2,10000]" help:"dimensions"`
	Samples   int     `key:"samples" default:"50" range:"[1,1000000]" help:"samples of each client"`
	Mu        float64 `key:"mu" default:"0.1" range:"(0,1e6]" help:"strong convexity of each client's objective"`
	L         float64 `key:"l" default:"1" range:"(0,1e6]" help:"smoothness of each client's objective, L"`
	Noise     float64 `key:"noise" default:"1" range:"[0,1e6]" help:"samples' deviation from their client's mean"`
}

// Logistic shapes the regularised logistic regression of task logistic (see synthetic.Mixtures).
// Features, Classes and Samples apply to made data alone; data that is read has its own sizes.
type Logistic struct {
	Features int     `key:"features" default:"20" range:"[1,100000]" help:"features of a sample"`
	Classes  int     `key:"classes" default:"5" range:"[2,10000]" help:"classes"`
	Samples  int     `key:"samples" default:"50" range:"[1,1000000]" help:"samples of each client"`
	Mu       float64 `key:"mu" default:"0.05" range:"[1e-6,1e6]" help:"regularisation: mu/2 times the parameters' squared norm"`
}

// Schedule decides, for every round r, the number of local steps K_r and the learning rate eta_r
// (Table 3 of the paper), and which losses both follow.
type Schedule struct {
	Label string     `key:"name" default:"" is:"inert" help:"name in results; empty: its rules"`
	K     schedule.K `key:"k" default:"rounds" help:"decay of the number of local steps"`
	K0    int        `key:"k0" range:"[1,1000000]" help:"local steps at the start, K_0"`
	// Unit is what K counts: local steps, or [Epochs] of each client's own samples.
	Unit string       `key:"unit" default:"steps" words:"steps,epochs" help:"unit of K: local steps or epochs"`
	Eta  schedule.Eta `key:"eta" default:"fixed" help:"decay of the learning rate"`
	Eta0 float64      `key:"eta0" range:"(0,1e6]" help:"learning rate at the start"`
	// Batch is a formula of the minibatches of each round; empty takes Config.Batch in all rounds.
	Batch string `key:"batch" is:"null" help:"formula of minibatch size, as 32 * k / k0; at most batch"`
	// Cohort is a formula of the clients of each round; empty takes Config.Cohort in all rounds.
	Cohort string `key:"cohort" is:"null" help:"formula of a round's clients, as cohort * k / k0; at most cohort"`
	// Loss is which loss the schedules follow, and Trim the share of clients' losses that a trimmed
	// mean leaves out at each end.
	Loss string  `key:"loss" default:"training" words:"training,validation,trimmed" help:"loss of schedules: clients' mean first-step loss, newest validation loss, or trimmed mean"`
	Trim float64 `key:"trim" default:"0.1" range:"(0,0.5)" help:"share that trimmed leaves out at each end"`
	// Window is the number of rounds over which the training loss is averaged, s in Eq. 15.
	Window int `key:"window" default:"100" range:"[1,1000000]" unit:"rounds" help:"rounds that average the training loss, s in Eq. 15"`
	// F0 says which loss is F_0, to which schedules compare the present one.
	F0 string `key:"f0" default:"window" words:"window,first" help:"F_0: loss of the first full window or round"`
	// Patience is the number of evaluations without an improvement of more than MinDelta after
	// which the run counts as converged.
	Patience int     `key:"patience" default:"10" range:"[1,1000000]" unit:"evaluations" help:"evaluations without improvement until convergence"`
	MinDelta float64 `key:"min_delta" default:"0" range:"[0,1e12]" help:"minimum improvement of evaluate.metric"`
	// DecayRound is the last round before step schedules decay; 0 lets them wait for convergence.
	DecayRound int `key:"decay_round" is:"null" range:"[1,1000000000]" help:"last round before step decays; null: convergence"`
}

// TooLong returns a warning if the window of the training loss is longer than a tenth of a run of
// this many rounds, and the empty text if it is not. The mean over a longer window says little
// about the present loss, and F_0 then covers much of the run. Where rounds is 0, the length of the
// run is unknown, and there is no warning.
func (s *Schedule) TooLong(rounds int) string {
	if fits := max(1, rounds/10); rounds > 0 && s.Window > fits {
		return fmt.Sprintf("mean over %d rounds, in a run of %d (schedule.window: %d fits)", s.Window, rounds, fits)
	}
	return ""
}

// FromFirst is the value of Schedule.F0 that takes the first round's loss as F_0. The other value,
// window, takes the mean of the first full window (Eq. 13 and 14).
const FromFirst = "first"

// These are values of the fields of Schedule that are words.
const (
	// Epochs is the value of Schedule.Unit by which K counts passes over a client's samples.
	Epochs = "epochs"
	// ValidationLoss is the value of Schedule.Loss by which schedules follow the newest validation
	// loss.
	ValidationLoss = "validation"
	// TrimmedLoss is the value of Schedule.Loss by which schedules follow a trimmed mean of
	// clients' losses.
	TrimmedLoss = "trimmed"
)

// Setup returns the constants that the configuration gives to its schedules: K_0, eta_0 and the
// last round before step schedules decay. Where K counts epochs, K_0 is given in parts of an epoch
// and PartsPerUnit says how many parts one has. The run itself finds the constants of Eq. 9 (Theory).
func (s *Schedule) Setup() schedule.Setup {
	setup := schedule.Setup{K0: s.K0, Eta0: s.Eta0, DecayRound: s.DecayRound}
	// Schedules calculate with whole numbers, and an epoch may have to be divided: they count its
	// parts.
	if s.Unit == Epochs {
		setup.K0 = s.K0 * schedule.Parts
		setup.PartsPerUnit = schedule.Parts
	}
	return setup
}

// FollowedLoss returns which loss the schedules see for a round. The zero value of Loss is the plain
// mean of the clients' first-step losses.
func (s *Schedule) FollowedLoss() (l schedule.Loss) {
	switch s.Loss {
	case ValidationLoss:
		l.Validation = true
	case TrimmedLoss:
		l.Trim = s.Trim
	}
	return l
}

// Theory gives the constants that schedule theory (Eq. 9) needs. A nil constant is calculated where
// the task is convex. For other tasks L, Mu and G must be set, and F* may be left out: it is then
// 0, as in Eq. 13 of the paper.
type Theory struct {
	L     *float64 `key:"l" is:"null" range:"(0,1e30]" help:"smoothness L; null: calculated"`
	Mu    *float64 `key:"mu" is:"null" range:"(0,1e30]" help:"strong convexity; null: calculated"`
	G     *float64 `key:"g" is:"null" range:"(0,1e30]" help:"bound on gradients' norm, G; null: calculated"`
	FStar *float64 `key:"f_star" is:"null" range:"[-1e30,1e30]" help:"least training loss F*; null: calculated, or 0"`
	Time  string   `key:"time" default:"elapsed" words:"elapsed,ahead" help:"W in Eq. 9"`
}

// AheadTime is the value of Theory.Time by which W in Eq. 9 is the time that remains until the end
// of the run, as in the theorem. Otherwise W is the time since the start, as in the paper's
// schedules.
const AheadTime = "ahead"

// FillFrom copies each constant of found into t where t has none (nil). A run calls it with the constants
// that it has calculated, so that what the user set is kept.
func (t *Theory) FillFrom(found Theory) {
	for _, s := range []struct{ target, source **float64 }{
		{&t.L, &found.L},
		{&t.Mu, &found.Mu},
		{&t.G, &found.G},
		{&t.FStar, &found.FStar},
	} {
		if *s.target == nil {
			*s.target = *s.source
		}
	}
}

// Limits bound what a run may use of the machine; they change nothing that it computes.
type Limits struct {
	StateGB float64 `key:"state_gb" default:"8" range:"[0,1e6]" unit:"GB" is:"inert" help:"maximum of an algorithm's state"`
}

// Stop says when a run ends: as soon as it reaches any limit that is set. A zero limit is not set.
type Stop struct {
	// Rounds is the number of rounds after which the run ends.
	Rounds int `key:"rounds" is:"null" range:"[1,1000000000]" help:"rounds to run"`
	// VirtualSeconds is the virtual time at which the run ends.
	VirtualSeconds float64 `key:"virtual_seconds" is:"null" range:"(0,4e9]" unit:"seconds" help:"virtual time to run"`
	// EqualRuntimeRounds ends the run at the virtual time that this number of rounds with
	// K-eta-fixed takes, so that schedules are compared over the same time.
	EqualRuntimeRounds int `key:"equal_runtime_rounds" is:"null" range:"[1,1000000000]" help:"virtual time of n rounds of fixed K"`
	// Accepted is the number of updates that have entered the model when the run ends.
	Accepted int `key:"accepted" is:"null" range:"[1,1000000000000]" help:"updates in the model"`
	// Samples and Tokens bound the training data that the local steps of accepted updates took.
	Samples int `key:"samples" is:"null" range:"[1,4000000000000000]" help:"samples of local steps that count, over all clients"`
	Tokens  int `key:"tokens" is:"null" range:"[1,4000000000000000]" help:"the same in tokens of a text"`
	// EnergyJoules, Bytes, CarbonGrams, EnergyCost and ClientHours end the run after the round with
	// which clients have used as much on tasks that have ended, whether their updates count or not.
	EnergyJoules float64 `key:"energy_joules" is:"null" range:"(0,1e18]" help:"energy of all clients' tasks"`
	Bytes        int     `key:"bytes" is:"null" range:"[1,4000000000000000000]" help:"bytes of models and updates, both ways"`
	CarbonGrams  float64 `key:"carbon_grams" is:"null" range:"(0,1e18]" help:"CO2 of all clients' tasks, by carbon.file"`
	EnergyCost   float64 `key:"energy_cost" is:"null" range:"(0,1e18]" help:"cost of their energy, by carbon.file"`
	ClientHours  float64 `key:"client_hours" is:"null" range:"(0,1e6]" help:"hours of clients on tasks, together"`
	// Equal is what equal_runtime_rounds holds equal: the run ends when it has used as much of it
	// as these rounds of fixed K.
	Equal string `key:"equal" is:"null" words:"energy,bytes,carbon,client_time" help:"what equal_runtime_rounds counts; null: time"`
	// ValidationAccuracy ends the run when a validation reaches this share of right answers.
	ValidationAccuracy float64 `key:"validation_accuracy" is:"null" range:"(0,1]" help:"validation accuracy"`

	// Metric ends the run at a value of any metric of the model, or of the loss.
	Metric MetricStop `key:"metric" default:"null" help:"value of a metric, or of the loss"`
}

// Targets returns the values of metrics that end the run once a validation reaches them. The
// metrics are those that the model reports, and q is the quantity by which its states are compared.
// An error names the key whose metric the model does not have.
func (s *Stop) Targets(q metric.Quality, metrics []metric.Metric) (list []metric.Target, err error) {
	// A target that names no metric, or the metric of q, keeps what q says about which values are
	// better.
	add := func(key, name string, value float64) {
		quality := q
		if name != "" && name != q.Name {
			var qualityErr error
			quality, qualityErr = metric.QualityOf(metrics, name)
			if qualityErr != nil {
				err = fmt.Errorf("%s: %w", key, qualityErr)
			}
		}
		list = append(list, metric.Target{Quality: quality, Value: value})
	}
	if s.ValidationAccuracy > 0 {
		add("stop.validation_accuracy", metric.Accuracy, s.ValidationAccuracy)
	}
	if s.Metric.Reaches != nil {
		add("stop.metric", s.Metric.Name, *s.Metric.Reaches)
	}
	return list, err
}

// MetricStop ends a run when a validation is at least as good as a value. It is off while Reaches
// is nil.
type MetricStop struct {
	Name    string   `key:"name" is:"null" help:"metric, or loss; null: evaluate.metric"`
	Reaches *float64 `key:"reaches" is:"short,null" range:"[-1e12,1e12]" help:"value to reach"`
}

// maxSeconds bounds virtual time, in seconds. The clock counts int64 nanoseconds, which end at
// 9.2e9 s; the bound leaves more than half of that unused.
const maxSeconds = 4e9

// Network describes the link of every client (Eq. 3) and the server's own link. Sizes are in
// megabits and speeds in Mbit/s, where 1 Mbit is 10^6 bit. A zero speed of the server is no limit.
type Network struct {
	fleet.Network
	ModelMegabits      float64 `key:"model_megabits" range:"[1e-6,8e6]" unit:"megabits" word:"exact=0" help:"size of a model; exact: 32 bits a parameter"`
	UpdateMegabits     float64 `key:"update_megabits" is:"null" range:"[1e-6,8e6]" unit:"megabits" help:"size of an update; null: the model's, compressed"`
	ServerDownloadMbps float64 `key:"server_download_mbps" is:"null" range:"(0,1e9]" unit:"Mbit/s" help:"server's capacity for all downloads"`
	ServerUploadMbps   float64 `key:"server_upload_mbps" is:"null" range:"(0,1e9]" unit:"Mbit/s" help:"the same for uploads"`
	Sites              Sites   `key:"sites"`
}

// Sites are access points, or places, where many clients share one link to the server. Client c is
// behind site c modulo Count; with a Count of 0 each client has its link alone.
type Sites struct {
	Count        int     `key:"count" is:"null" range:"[1,1000000]" help:"sites; client c is at site c modulo count"`
	DownloadMbps float64 `key:"download_mbps" is:"null" range:"(0,1e9]" unit:"Mbit/s" help:"site's capacity for its downloads"`
	UploadMbps   float64 `key:"upload_mbps" is:"null" range:"(0,1e9]" unit:"Mbit/s" help:"the same for uploads"`
}

// ModelBits returns the size on the network, in bits, of a model that has this number of float32
// parameters: the configured size, or 32 bits a parameter where it is exact.
func (n Network) ModelBits(parameters int) float64 {
	if n.ModelMegabits == 0 {
		return 32 * float64(parameters)
	}
	return n.ModelMegabits * 1e6
}

// Bits returns how many bits a task's download and upload carry, for a model that has this number
// of float32 parameters of which the first trainable ones are trained. Only the trained part of an
// update is compressed, and its compressed size is calculated for a model of the size that the
// network carries, which the configuration may set apart from the real one.
func (c *Config) Bits(parameters, trainable int) (model, update float64) {
	model = c.Network.ModelBits(parameters)
	// Streaming algorithms send one fragment of the model in each round.
	if s, ok := algorithm.Streams(c.Aggregate.Algorithm); ok {
		model /= float64(s.Fragments)
	}
	// A size that the configuration gives for updates takes precedence over what compression would
	// make.
	switch {
	case c.Network.UpdateMegabits > 0:
		return model, c.Network.UpdateMegabits * 1e6
	case c.Secure.On:
		return model, model * maskedGrowth
	case c.Compress != nil:
		// The parameters that are not trained are sent uncompressed, in proportion to their number.
		untrainedBits := 0.0
		if trainable < parameters {
			untrainedShare := float64(parameters-trainable) / float64(parameters)
			untrainedBits = float64(model * untrainedShare)
		}
		// Compression takes a number of float32 values of 32 bits, at least one.
		trainedValues := max(1, int64(math.RoundToEven((model-untrainedBits)/32)))
		return model, float64(c.Compress.Bits(trainedValues)) + untrainedBits
	}
	// An update without compression is as large as the model.
	return model, model
}

// Overlap returns how many local steps a client takes while the model of its task is still being
// made and sent. Only streaming algorithms have such steps; it is 0 for all others.
func (c *Config) Overlap() int {
	s, _ := algorithm.Streams(c.Aggregate.Algorithm)
	return s.Overlap
}

// HoldsClients reports whether a client waits with its next task until its last update is in the model,
// also where rounds overlap.
func (c *Config) HoldsClients() bool {
	_, holds := c.Aggregate.Algorithm.(algorithm.Decoupled)
	return holds
}

// Shared reports whether transfers of different clients slow each other down, because the server or
// a site has a limited link.
func (n Network) Shared() bool {
	return n.ServerDownloadMbps > 0 || n.ServerUploadMbps > 0 || n.Sites.Count > 0
}

// Devices says which real devices take part in a run, how long the run waits for them, and how far
// it trusts their updates. Real devices hold their own samples and train outside the simulation.
type Devices struct {
	Names   []Device `key:"names" is:"null,keyed" help:"real devices by id, or with classes, {pi1: pi4, ...}"`
	Include string   `key:"include" default:"every_round" words:"every_round,sampled" help:"devices join each cohort, or are drawn with the others (clients: 0: all, or a cohort)"`
	// LivenessSeconds is the wall time of silence after which a device is taken for lost.
	LivenessSeconds float64 `key:"liveness_seconds" default:"120" range:"[0.1,1e6]" unit:"seconds" help:"silence (wall time) after which a device is lost; a run waits for devices as long"`
	// TaskSeconds is the wall time after which a device that still works at one task is taken for
	// lost.
	TaskSeconds float64 `key:"task_seconds" default:"600" range:"[0.1,1e6]" unit:"seconds" help:"wall time of a task until a device is lost"`
	// NormLimit is the largest Euclidean norm that a device's update may have; 0 is no limit.
	NormLimit float64 `key:"norm_limit" default:"0" range:"[0,1e12]" help:"largest Euclidean norm of a device's update; 0: none"`
	// MaxSamples bounds the samples that a device reports, by which updates may be weighted.
	MaxSamples  int    `key:"max_samples" default:"0" range:"[0,16777216]" help:"maximum samples that count; 0: four times the median of a round's other updates"`
	KeepUpdates bool   `key:"keep_updates" default:"false" is:"inert" help:"keep updates in devices.log for a replay"`
	Link        string `key:"link" default:"measured" words:"measured,modelled" help:"transfer times: measured, or by class or network"`

	// Clip bounds the norm of devices' updates; nil is no bound.
	Clip combine.Clip `key:"clip" default:"median" is:"null" help:"bound on devices' updates"`
	// Robust combines the updates of devices so that false ones, up to one in five, do little harm.
	Robust bool `key:"robust" default:"true" help:"four or more devices are combined so that one in five may be false"`
	// Quota bounds what each device may use of the server, and how many of its tasks may fail.
	Quota quota.Device `key:"quota"`
}

// Device is one real device of a run. Class names a class in fleet, whose speeds foretell how long
// the device takes; empty means that nothing is known of its speed.
type Device struct {
	ID    string `key:"id" is:"short" help:"its id"`
	Class string `key:"class" is:"null" help:"class in fleet that predicts its times"`
}

// IDs returns the ids of the real devices that the configuration names, in its order, as a new list
// that the caller may change.
func (d *Devices) IDs() []string {
	list := make([]string, len(d.Names))
	for i := range list {
		list[i] = d.Names[i].ID
	}
	return list
}

// AllClients is the value of Config.Clients that takes as many clients as the data has.
const AllClients = -1

// DevicesAlone reports whether the run is a deployment: real devices are its only clients, and none
// is simulated.
func (c *Config) DevicesAlone() bool { return c.Clients == 0 }

// DrawsDevices reports whether real devices are among the clients that cohorts are drawn from.
// Otherwise devices take part in every round, beside the cohort.
func (c *Config) DrawsDevices() bool {
	return len(c.Devices.Names) > 0 && (c.DevicesAlone() || c.Devices.Include == Sampled)
}

// drawnFrom returns the number of clients and devices that cohorts are drawn from. It is 0 while the data,
// which has not been read yet, decides the number of clients.
func (c *Config) drawnFrom() int {
	switch {
	case c.Clients == AllClients:
		return 0
	case c.DrawsDevices():
		return c.Clients + len(c.Devices.Names)
	}
	return c.Clients
}

// These are the words of Devices.Include and Devices.Link.
const (
	// EveryRound is the value of Devices.Include by which each device takes part in each round.
	EveryRound = "every_round"
	// Sampled is the value of Devices.Include by which devices are drawn like simulated clients.
	Sampled = "sampled"
	// ModelledLink is the value of Devices.Link by which the configured speeds give transfer times.
	ModelledLink = "modelled"
)

// Evaluate says how often the global model is measured on held-out samples, by which metric models
// are compared, and when the model is measured on the clients' own samples.
type Evaluate struct {
	Every        int      `key:"every" default:"50" range:"[1,1000000000]" unit:"rounds" help:"rounds between validations"`
	EverySeconds float64  `key:"every_seconds" is:"null" range:"(0,4e9]" unit:"seconds" word:"fixed=-1" help:"virtual time between validations; fixed: of every rounds of fixed K"`
	Samples      int      `key:"samples" is:"null" range:"[1,1000000000]" help:"held-out samples of a validation; null: all"`
	Metric       Metric   `key:"metric" default:"null" help:"what compares models"`
	Measures     []string `key:"measures" is:"null" help:"further metrics: majority_share, balanced_accuracy, f1_macro, auroc of classes; mean_baseline, r2 of numbers"`
	Target       *float64 `key:"target" is:"null" range:"[-1e12,1e12]" help:"value whose time the summary gives; null: stop's"`

	// Clients says when the model is measured on each client's own samples; the zero value is
	// never.
	Clients ClientEvaluation `key:"clients"`
}

// AsFixed is the value of Evaluate.EverySeconds that takes the virtual time of Evaluate.Every
// rounds of K-eta-fixed. All schedules are then validated at the same times.
const AsFixed = -1

// Metric says by which quantity models are compared. Both fields may be empty: the model's first
// metric is taken, or else the loss, and the model says which values are better.
type Metric struct {
	Name   string `key:"name" is:"short,null" help:"metric or loss; null: the model's first, else the loss"`
	Better string `key:"better" is:"null" words:"higher,lower" help:"better values; null: as the model says"`
}

// QualityOf finds the quantity by which models are compared among the metrics that a model reports.
// The configuration's word on which values are better overrides the model's. An error is a
// *[KeyError] about evaluate.metric.
func (m Metric) QualityOf(list []metric.Metric) (metric.Quality, error) {
	q, err := metric.QualityOf(list, m.Name)
	if err != nil {
		return q, problem("evaluate.metric", nil, "%v", err)
	}
	if m.Better != "" {
		q.Lower = m.Better == metric.Lower
	}
	return q, nil
}

// ClientEvaluation says when the global model is measured on the samples of each client, which
// shows how fair it is. If any such evaluation is asked for, the final model has one, too.
type ClientEvaluation struct {
	Every   int   `key:"every" is:"null" range:"[1,1000000000]" unit:"rounds" help:"rounds between evaluations on clients' samples"`
	Rounds  []int `key:"rounds" is:"null" range:"[1,1000000000]" help:"rounds with one"`
	Samples int   `key:"samples" is:"null" range:"[1,1000000000]" help:"maximum samples of each client; null: all"`
}

// Any reports whether at least one evaluation on the clients' own samples is asked for.
func (e *ClientEvaluation) Any() bool { return e.Every > 0 || len(e.Rounds) > 0 }

// Checkpoint says how often the state of a run is saved. An interrupted run is resumed from the
// newest saved state.
type Checkpoint struct {
	Seconds float64 `key:"seconds" default:"10" range:"(0,1e6]" unit:"seconds" is:"inert" help:"wall time between checkpoints"`
}

// NATS describes the server that carries the messages between the coordinator, its hosts and
// devices. Nothing here changes what a run computes.
type NATS struct {
	URL        string  `key:"url" default:"embedded" is:"inert" help:"embedded, URLs separated by commas, or none (one process)"`
	Listen     string  `key:"listen" default:"" is:"inert" help:"address of the embedded server, e.g. 127.0.0.1:4222"`
	Insecure   bool    `key:"insecure" default:"false" is:"inert" help:"other machines may connect without TLS"`
	Replicas   int     `key:"replicas" default:"0" range:"[0,5]" is:"inert" help:"copies of the work queue in a cluster; 0: three, or all of fewer"`
	AckSeconds float64 `key:"ack_seconds" default:"10" range:"(0,3600]" unit:"seconds" is:"inert" help:"wall time until a silent trainer's job goes to another"`
	MaxDeliver int     `key:"max_deliver" default:"5" range:"[1,1000]" is:"inert" help:"trainers that may fail at a job"`
}

// These are the values of NATS.URL that are no URL.
const (
	// Embedded is the value of NATS.URL that runs a server within the run's process.
	Embedded = "embedded"
	// None is the value of NATS.URL that needs no server: messages are handed over in memory.
	None = "none"
)

// Replayed reports whether the configuration is of a run with real devices that none of them can
// reach, because no server listens. Such a run is played again from the log of its devices.
func (c *Config) Replayed() bool { return c.Train && len(c.Devices.Names) > 0 && c.NATS.InProcess() }

// InProcess reports whether no other process can take part in the run: there is no server, or the
// embedded one does not listen.
func (n NATS) InProcess() bool { return n.URL == None || n.URL == Embedded && n.Listen == "" }

// Events bounds what the event log keeps of the tasks of a run.
type Events struct {
	Sample int `key:"sample" default:"32" range:"[0,10000]" word:"off=-1" is:"inert" help:"clients in events.log, beside the slowest and real devices"`
	// Megabytes is the size of the log, in 10^6 bytes, beyond which it thins out its rounds, so
	// that the log of a run of weeks stays readable.
	Megabytes float64 `key:"megabytes" default:"256" range:"[0.01,1e6]" unit:"MB" is:"inert" help:"size beyond which events.log keeps fewer rounds"`
}

// KeptSlowest is the number of a round's slowest tasks that the outputs always see, however small
// their sample is.
const KeptSlowest = 10

// NoEvents is the value of Events.Sample for a run that writes no event log.
const NoEvents = -1

// ReadsData reports whether the data must be read even if nothing is trained. It must if the
// clients' samples decide who is drawn, how many local steps clients take, who has which device,
// when the run ends, or how large its model is, or if samples arrive over the time of the run.
func (c *Config) ReadsData() bool {
	_, isPaper := c.Task.Paper()
	// The model's size is known without the data where it is set, where data is made, for the
	// paper's own models, and for a trainer, which reports it.
	isPaperModel := isPaper && c.UsesTaskModel()
	sizeIsKnown := c.Network.ModelMegabits != 0 || c.IsSynthetic() || isPaperModel || c.External()
	return c.Arrives() ||
		registry.NeedsOf(c.Select).Samples ||
		c.Schedule.Unit == Epochs ||
		c.Correlation.Given() ||
		c.Stop.Samples > 0 ||
		c.Stop.Tokens > 0 ||
		!sizeIsKnown
}

// DataSeed returns the seed from which made data follows: that of the group synthetic, or the run's
// where none is set there.
func (c *Config) DataSeed() uint64 {
	if c.Synthetic.Seed > 0 {
		return uint64(c.Synthetic.Seed)
	}
	return c.Seed
}

// ClosingText returns words that complete the sentence "Rounds close ..." of a summary: those of the
// closing rule and, where late updates are used, how these are used.
func (c *Config) ClosingText() string {
	text := closing.Rules.Text(c.Close)
	if closing.UsesLate(c.Late) {
		text += "; late updates are " + closing.Lates.Text(c.Late)
	}
	return text
}

// CountsLater reports whether an update may enter the model in a later round than the one whose
// task it answers. That happens where rounds overlap and where late updates are kept.
func (c *Config) CountsLater() bool { return closing.Overlaps(c.Close) || closing.UsesLate(c.Late) }

// MakeTimingOnly changes the configuration to one that measures time alone and trains nothing.
//
// Schedules that follow losses or validations, which are then not measured, become fixed; the
// result says whether any was replaced. A selection by losses is replaced by the draw of its
// candidates, so the time to ask them for losses is missing. In a deployment, the same number of
// simulated clients stands for the real devices.
func (c *Config) MakeTimingOnly() (replaced bool) {
	// As many simulated clients stand for the devices.
	if c.DevicesAlone() {
		c.Clients = len(c.Devices.Names)
	}
	c.Train = false
	c.Devices.Names = nil
	// needsTraining reports whether a schedule follows what a run without training does not measure.
	needsTraining := func(component any) bool {
		n := c.needs(component)
		return n.Losses || n.Validation
	}
	if needsTraining(c.Schedule.K) {
		c.Schedule.K = schedule.FixedK{}
		replaced = true
	}
	if needsTraining(c.Schedule.Eta) {
		c.Schedule.Eta = schedule.FixedEta{}
		replaced = true
	}
	// Candidates are drawn as before, but are not asked for losses.
	if s, ok := c.Select.(selection.ByLosses); ok {
		c.Select = s.DrawsBy()
	}
	// The draw itself may go by losses as well; then every client is as likely as any other.
	if registry.NeedsOf(c.Select).Losses {
		c.Select = selection.Uniform{}
	}
	return replaced
}

// ForHosts returns the configuration as it is sent to hosts in other processes. Keys that are the
// coordinator's own business, and change neither plans nor sums, have their default values.
func (c Config) ForHosts() Config {
	standard := Demonstration()
	c.NATS = standard.NATS
	c.Checkpoint = standard.Checkpoint
	c.HTTP = ""
	c.Pace = 0
	c.Out = OutFolder(c.Name)
	c.Init = ""
	c.Tags = nil
	// A host never runs a command that another machine names: it has its own.
	if c.External() {
		c.Trainer.Command = hostsOwn
	}
	if c.PlaysFlower() {
		c.Flower.App = hostsOwn
		c.Flower.Python = hostsOwn
		c.Flower.Folder = ""
	}
	return c
}

// HasOwnBatches reports whether any class of devices sets the size of its own minibatches, in place
// of the size that the configuration gives for all.
func (c *Config) HasOwnBatches() bool {
	return slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool { return k.Batch > 0 })
}

// devices returns the parts of the configuration that describe clients' devices, in the form that
// package fleet takes. The classes of real devices are listed in the order of their names.
func (c *Config) devices() fleet.Config {
	d := fleet.Config{
		Network:      c.Network.Network,
		Compute:      c.Compute,
		Slowdown:     c.Slowdown,
		Availability: c.Availability,
		Dropout:      c.Dropout,
		Fleet:        c.Fleet,
		Correlation:  c.Correlation,
		Deadline:     int64(c.Close.Deadline()),
	}
	// A device without a class has an empty name in the list.
	for _, device := range c.Devices.Names {
		d.Devices = append(d.Devices, device.Class)
	}
	return d
}

// NewFleet makes the devices of all clients from the run's seed and reads the trace files that the
// configuration names. An error is a *[KeyError].
func (c Config) NewFleet() (*fleet.Fleet, error) {
	f, err := fleet.NewFleet(c.devices(), c.Seed)
	if err != nil {
		return nil, Error("", err)
	}
	return f, nil
}

// EverAbsent reports whether any simulated client can be unavailable at some time of the run, by
// the availability of its class or, where the class has none, by that of the whole configuration.
func (c *Config) EverAbsent() bool {
	// absent reports whether an availability is set and is any other than always.
	absent := func(a fleet.Availability) bool {
		return a != nil && a != fleet.Availability(fleet.Always{})
	}
	// Without classes all clients share one availability; a class without its own takes that one.
	if len(c.Fleet) == 0 {
		return absent(c.Availability)
	}
	return slices.ContainsFunc(c.Fleet, func(k fleet.Class) bool {
		return absent(k.Availability) || k.Availability == nil && absent(c.Availability)
	})
}
