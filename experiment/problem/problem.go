package problem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"fedpace/actors"
	"fedpace/actors/external"
	"fedpace/actors/fleet"
	"fedpace/algorithm"
	"fedpace/config"
	"fedpace/coordinator/closing"
	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/experiment/folder"
	"fedpace/experiment/identity"
	"fedpace/experiment/policies"
	"fedpace/internal/human"
	"fedpace/learn"
	"fedpace/learn/metric"
	"fedpace/metrics/carbon"
	"fedpace/registry"
)

// Data is who takes part, as the configuration says, and what they learn from.
type Data struct {
	// Config is the configuration, with the values that preparation has filled in, such as clients.
	Config config.Config
	// Set is the samples of the clients; it is there only if the run trains or chooses clients by
	// them.
	Set federated.Set
	// Arrivals says which samples are there at which time; nil if all are there from the beginning.
	Arrivals *federated.Arrivals
	// timedFile says that the data are a prepared file whose samples arrive over time.
	timedFile bool
	// Files are those that the configuration names, by content, as they were when the run was
	// prepared.
	Files []folder.InputFile
}

// Timing is how long clients take, which needs no model.
type Timing struct {
	Data
	// Fleet gives the device of each client, and how long its tasks take.
	Fleet *fleet.Fleet
	// Bits is the size of a task's two transfers.
	Bits fleet.Bits
	// EvaluationInterval is the virtual time from one evaluation to the next; 0: they are by rounds. It is
	// for whoever plays the run to set.
	EvaluationInterval round.Time
	// Carbon is what the electrical grid emits and costs; nil: it is not known.
	Carbon *carbon.Trace
	// EqualUse is the run's budget where stop.equal gives it one: what all clients together use in as many rounds of
	// fixed K as stop.equal_runtime_rounds says. It is zero in other runs. It is for whoever plays the run to set.
	EqualUse round.Used
}

// Problem is what a configuration asks to be learned, by whom and how fast:
// everything that costs time to prepare and can be wrong before a run starts.
type Problem struct {
	Timing

	// The fields that follow are those of a run that trains. A run that is only timed has a Model if the
	// size of its transfers follows from it, and Metrics and Quality for the columns of its tables.

	// Model says what is trained: its tensors, its number of parameters and its metrics.
	Model learn.ModelInfo
	// Initial are the parameters that the run starts from, in the order of the model.
	Initial []float32
	// Kernel is the class of arithmetic that trains.
	Kernel string

	// Arithmetic computes the local steps in the class Kernel where Trainer is nil.
	Arithmetic learn.Kernel

	// Trainer is the program that takes the local steps; if it is nil, Arithmetic does.
	Trainer *external.Program

	// Metrics are the quantities by which models are measured besides their loss.
	Metrics []metric.Metric
	// Quality is the quantity by which models are compared.
	Quality metric.Quality
	// Targets are the values that end the run once a model reaches them.
	Targets []metric.Target

	// Algorithm is the federated optimization algorithm, which says how updates become the next
	// model.
	Algorithm algorithm.Algorithm
	// Privacy is the run's differential privacy; it is nil where the run has none.
	Privacy *Privacy

	// Secure is how updates are aggregated securely; it is nil where the coordinator sees them.
	Secure *Secure
	// Policies are the policies in Python, which are bound to the components of Config; nil where
	// there are none.
	Policies *policies.Set

	// notice takes lines about the trainer for the user; it may be nil.
	notice func(string)
}

// newProblem returns a problem with configuration c, of which nothing is prepared yet. notice takes
// lines for the user and may be nil.
func newProblem(c config.Config, notice func(string)) *Problem {
	return &Problem{Timing: Timing{Data: Data{Config: c}}, notice: notice}
}

// Prepare reads and makes all that a run of a configuration needs, and finds what is wrong with it.
// remote says that hosts on other machines do the work. notice takes lines for the user, and reading
// is told how far the data are read; both may be nil. Close the problem after use.
//
// The steps are in order: each may use what the ones before it have settled.
func Prepare(
	ctx context.Context,
	configuration config.Config,
	remote bool,
	notice func(string),
	reading *federated.Reading,
) (*Problem, error) {
	p := newProblem(configuration, notice)
	c := &p.Config
	// A prepared file says by itself whether its samples arrive over time.
	p.timedFile = data.PreparedArrives(c.Data.Path)
	for _, step := range []struct {
		needed bool
		do     func() error
	}{
		// What the configuration says by itself is checked first, because that is quick.
		{true, c.Validate},
		{true, func() error { return folder.CheckSecrets(*c) }},
		// The class of arithmetic is part of what identifies a run that trains.
		{c.Train, func() error { return p.selectKernel(remote) }},
		{true, func() (err error) {
			// The fleet follows from the configuration alone.
			p.Fleet, err = c.NewFleet()
			return err
		}},
		{true, p.readCarbon},
		{true, func() (err error) {
			// Files that change during the run must not count, so their digests are taken now.
			p.Files, err = identity.Files(c)
			return err
		}},
		{true, func() (err error) {
			p.Policies, err = policies.Open(ctx, c, notice)
			return err
		}},
		// A run that is only timed needs data if they say how many clients there are, or which to
		// choose.
		{c.Train || c.Clients == config.AllClients || p.readsData(), func() error { return p.openData(ctx, reading) }},
		{c.Train && notice != nil, p.noticeData},
		// Who has which device is settled once the number of clients is known.
		{true, func() error {
			c.Fit(nil)
			p.Fleet.SetDevices(c.Clients)
			return p.correlateDevices()
		}},
		// Without training, a model is made only for the size of its transfers.
		{c.Train || c.Network.ModelMegabits == 0, func() error { return p.makeModel(ctx) }},
		{true, p.chooseMetrics},
		{true, p.sizeTransfers},
		// Secure aggregation depends on the number of parameters.
		{c.Secure.On, p.settleSecure},
		// From here on, checks look at the whole problem.
		{true, p.checkPhases},
		{true, p.checkAttacks},
		{c.Privacy.On(), p.settlePrivacy},
		{c.Privacy.Local.On() || c.Privacy.Distributed.On(), p.checkLocalNoise},
		{c.Train, p.checkTrainerState},
		{c.Train, p.checkTrainerSteps},
		{c.Train, p.checkMemory},
		// The initial model is made last, as it may take long.
		{c.Train, func() error { return p.initialize(ctx) }},
		// Hosts start trainers of their own, so this machine's is needed no more.
		{c.Train && remote && c.External(), func() error { return p.Trainer.CloseSpare() }},
		{c.Train && c.UsesTheory(), p.settleTheory},
	} {
		if !step.needed {
			continue
		}
		// A step that fails may leave data open or a trainer running.
		if err := step.do(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// noticeData tells the user of every warning that the data set has, before anything is trained on
// it. It does nothing where a trainer has its own data.
func (p *Problem) noticeData() error {
	// A trainer may own its data.
	if p.Set == nil {
		return nil
	}
	for _, warning := range p.Set.Info().Warnings {
		p.notice(fmt.Sprintf("Data: %s.", warning))
	}
	return nil
}

// params returns how many parameters a task transfers, and how many of them are trained. Frozen
// parameters are not transferred, because clients have them. Both numbers are 0 in a run without a
// model.
func (p *Problem) params() (communicated, trainable int) {
	if p.Model == nil {
		return 0, 0
	}
	return learn.Communicated(p.Model), p.Model.Trainable()
}

// sizeTransfers settles how many bits a task transfers each way, and refuses sizes out of range. It
// tells the user where the configuration's size of the model is not that of the trainer's.
func (p *Problem) sizeTransfers() error {
	params, trainable := p.params()
	model, update := p.Config.Bits(params, trainable)
	// Sizes out of range would give transfers that take no time, or years.
	for _, x := range []struct {
		key, content string
		bits         float64
	}{{"network.model_megabits", "a model", model}, {"network.update_megabits", "an update", update}} {
		if x.bits < 1 || x.bits > maxModelBits {
			return fmt.Errorf("%s: %s of %g Mb, want 1e-6 to %g", x.key, x.content, x.bits/1e6, maxModelBits/1e6)
		}
	}
	p.noticeModelSize(params)
	p.Bits = fleet.Bits{Down: int64(model), Up: int64(update)}
	return nil
}

// noticeModelSize tells the user where network.model_megabits differs by more than 1 % from the size
// of the trainer's model: the simulated transfers take the time of the former.
func (p *Problem) noticeModelSize(params int) {
	if p.Trainer == nil || p.notice == nil {
		return
	}
	network := &p.Config.Network
	// A parameter is transferred as a float32, which has 32 bits.
	exact := 32 * float64(params)
	// Sizes within 1 % of each other count as equal, because users round them.
	if math.Abs(network.ModelBits(params)/exact-1) <= 0.01 {
		return
	}
	p.notice(fmt.Sprintf(
		"network.model_megabits is %g, and the trainer's model of %d parameters has %.4g (exact): "+
			"transfers take the time of the former.",
		network.ModelMegabits,
		params,
		exact/1e6,
	))
}

// selectKernel settles the class of arithmetic that trains. Where other machines train, this one need
// not have the class that the configuration names, and uses its fastest for estimates.
func (p *Problem) selectKernel(remote bool) error {
	c := &p.Config
	// The fastest kernel of this machine serves for estimates if the one named is not available.
	fastest, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return err
	}
	p.Arithmetic, err = learn.SelectKernel(c.Kernel)
	switch {
	// The trainer's class of arithmetic is not known before it has started.
	case c.External():
		return nil
	case err == nil:
		c.Kernel = p.Arithmetic.Class()
	case remote:
		// Remote hosts train; this machine needs a kernel for estimates only.
		p.Arithmetic = fastest
	default:
		return &config.KeyError{Key: "kernel", Problem: err.Error() + " (set go, which every machine has, or auto)"}
	}
	p.Kernel = c.Kernel
	return nil
}

// Kernel is the class of arithmetic with which this machine would train a run of a configuration.
func Kernel(c config.Config) (string, error) {
	if !c.Train {
		return c.Kernel, nil
	}
	p := newProblem(c, nil)
	// With remote training, a class which this machine lacks is no error.
	const remote = true
	err := p.selectKernel(remote)
	return p.Config.Kernel, err
}

// Close releases the data, ends the trainer's first process, and closes the scripts of policies. It
// may be called more than once.
func (p *Problem) Close() (err error) {
	if p.Trainer != nil {
		err = p.Trainer.Close()
		// Close may be called again, so what is closed is forgotten.
		p.Trainer = nil
	}
	if p.Set != nil {
		err = errors.Join(err, p.Set.Close())
		p.Set = nil
	}
	err = errors.Join(err, p.Policies.Close())
	p.Policies = nil
	return err
}

// stateBytes returns how many bytes of memory the coordinator needs for the state of the
// algorithm's server and for what it keeps of each client.
func (p *Problem) stateBytes() int64 {
	return algorithm.StateBytes(
		p.Algorithm,
		p.Config.Compress,
		p.Model.Params(),
		p.Learning().MemoryValues(),
		p.Population(),
		p.maxUpdatesIfStale(),
	)
}

// AboutState tells the user in sentences how much memory the coordinator will need for what it keeps
// between rounds, by which component, and for the updates that a robust rule compares. It is empty where
// nothing is kept.
func (p *Problem) AboutState() string {
	if !p.Config.Train {
		return ""
	}
	params := p.Model.Params()
	updatesText := p.aboutDevices()
	// A rule that compares updates must hold those of a round at the same time.
	if s := p.Config.Combining(); s.PerClient() {
		updatesText += fmt.Sprintf(
			" %s looks at each update: a round holds up to %s for %d parameters and %d updates.",
			s.Name(),
			human.Size(s.Bytes(params, p.maxUpdates())),
			params,
			p.maxUpdates(),
		)
	}
	bytes := p.stateBytes()
	// Nothing is kept; the text about updates then stands alone.
	if bytes == 0 {
		return strings.TrimPrefix(updatesText, " ")
	}
	// localValues is how many values the optimizer of local steps keeps for each client between its tasks.
	localValues := p.Learning().MemoryValues()
	policyKeepsClients := registry.NeedsOf(p.Algorithm).ClientState || registry.NeedsOf(p.Config.Compress).ClientState
	_, holdsStaleUpdates := p.Algorithm.(algorithm.StaleWeigher)
	// The state grows with the clients, or with the updates of a round, or with neither of them.
	scope := ""
	switch {
	case localValues > 0 || policyKeepsClients:
		scope = fmt.Sprintf(" and %d clients", p.Population())
	case holdsStaleUpdates:
		scope = fmt.Sprintf(" and %d updates in a round", p.maxUpdatesIfStale())
	}
	keeper, _ := algorithm.LargestState(p.Algorithm, p.Config.Compress, localValues)
	// Personal parameters are named after the key by which they are configured.
	if len(p.Config.Personal.Names) > 0 {
		keeper = "personal"
	}
	stateText := fmt.Sprintf(
		"%s keeps up to %s of state for %d parameters%s.",
		keeper,
		human.Size(bytes),
		params,
		scope,
	)
	return stateText + updatesText
}

// checkMemory returns an error if what the coordinator keeps in memory could pass limits.state_gb: the
// state of the algorithm and its clients, what is held for real devices, the models of sites, or the
// updates that a round holds one by one. Each part by itself may fill the limit; the first that passes it
// is reported, with the settings that would help.
func (p *Problem) checkMemory() error {
	c := &p.Config
	params := p.Model.Params()
	limit := int64(c.Limits.StateGB * 1e9)
	if err := p.checkStateMemory(limit); err != nil {
		return config.Error("", err)
	}
	if deviceBytes := p.deviceBytes(); deviceBytes > limit {
		return config.Error("", registry.Errorf(
			"limits.state_gb",
			"%.3g, but what is held for devices takes %.3g GB (raise the limit, or set devices.robust: false)",
			c.Limits.StateGB,
			float64(deviceBytes)/1e9,
		))
	}
	if siteBytes := p.siteBytes(); siteBytes > limit {
		return config.Error("", registry.Errorf(
			"limits.state_gb",
			"%.3g, but the sites' models and sums take %.3g GB (raise the limit, or take fewer sites)",
			c.Limits.StateGB,
			float64(siteBytes)/1e9,
		))
	}
	err := c.Combining().CheckBytes(params, p.maxUpdates(), p.deviceBytes()+p.stateBytes(), limit)
	return config.Error("", err)
}

// checkStateMemory returns an error if the state of the algorithm's server and of all clients could take
// more than limit bytes. Its message speaks of personal parameters where the run has them, since they
// are most of that state.
func (p *Problem) checkStateMemory(limit int64) error {
	c := &p.Config
	err := algorithm.CheckState(
		p.Algorithm,
		c.Compress,
		p.Model.Params(),
		p.Learning().MemoryValues(),
		p.Population(),
		p.maxUpdatesIfStale(),
		limit,
	)
	if err != nil && len(c.Personal.Names) > 0 {
		return registry.Errorf("limits.state_gb", "%.3g, but clients keep up to %.3g GB of personal parameters "+
			"(raise the limit, or take fewer clients or names)", c.Limits.StateGB, float64(p.stateBytes())/1e9)
	}
	return err
}

// siteBytes returns how many bytes of memory the coordinator needs for sites that train several rounds by
// themselves between two rounds of the run; it is 0 in a run without such sites. Each site of a cohort
// holds a model of its own, of float32, and the sum of its updates, of 8 bytes for each parameter.
func (p *Problem) siteBytes() int64 {
	c := &p.Config
	if c.Aggregate.SiteRounds <= 1 {
		return 0
	}
	const bytesPerParameter = 4 + 8
	sitesInRound := min(c.Network.Sites.Count, c.Cohort)
	return bytesPerParameter * int64(p.Model.Params()) * int64(sitesInRound)
}

// deviceBytes returns how many bytes of memory the coordinator needs because real devices take part, any of
// which may send false updates: for the best model so far, to which the run can return, with 4 bytes a
// parameter, and for the updates of a round if a robust rule combines them.
func (p *Problem) deviceBytes() int64 {
	params := p.Model.Params()
	n := len(p.Config.Devices.Names)
	// Without real devices nothing is held for them.
	if n == 0 {
		return 0
	}
	return 4*int64(params) + p.Config.Combining().DeviceBytes(params, min(n, p.maxUpdates()))
}

// aboutDevices says what a device that sends false updates can do; it is empty without real devices.
func (p *Problem) aboutDevices() string {
	c := &p.Config
	if len(c.Devices.Names) == 0 {
		return ""
	}
	held := human.Size(p.deviceBytes())
	// Without a robust rule the only protection is to return to the best model.
	if reason := c.UnguardedReason(); reason != "" {
		return fmt.Sprintf(" No robust rule guards this run against Byzantine devices (%s): a false update is noticed "+
			"only if the model diverges. The run keeps its best model to return to, %s.", reason, held)
	}
	return fmt.Sprintf(" Updates of devices are combined so that a few may be false; honest ones of unusual data "+
		"are left out with them (docs/robust.md). That and the best model take up to %s.", held)
}

// maxUpdates returns the largest number of updates that one round of this run may have, by its
// closing rule, its cohort and its real devices.
func (p *Data) maxUpdates() int {
	c := &p.Config
	maxWithStale := p.maxUpdatesIfStale()
	first, closesWithFirst := c.Close.(closing.First)
	switch {
	// Where stale updates count, their bound is also that of all updates in a round.
	case maxWithStale > 0:
		return maxWithStale
	// The round closes with the first N updates, so it has no more than these.
	case closesWithFirst:
		return first.N
	// Real devices are drawn into the cohort and add nothing to it.
	case c.DrawsDevices():
		return c.Cohort
	}
	return c.Cohort + len(c.Devices.Names)
}

// maxUpdatesIfStale bounds the updates that an algorithm may hold one by one in a round that can have
// stale updates, which are those of tasks that began from an older model than the newest. The sum of
// the fresh updates counts as one. The result is 0 where no update can be stale.
//
// A client has one task at a time, so at most one of its updates in a round is stale: where it counts
// twice, with a late update and with that of its next task, the second one is fresh.
func (p *Data) maxUpdatesIfStale() int {
	c := &p.Config
	// A buffer closes the round with its N updates, fresh or stale.
	if b, ok := c.Close.(closing.Buffered); ok {
		return b.N
	}
	// Each client and device can have one stale update in a round at most.
	if c.CountsLater() {
		return c.Clients + len(c.Devices.Names)
	}
	return 0
}

// maxModelBits bounds a transfer: a model of a terabyte.
const maxModelBits = 8e12

// openData reads or makes the data, and settles the population: clients, cohort and batch where the
// configuration leaves them to the data. A run that neither trains nor reads the data otherwise needs only their
// numbers of clients and samples, so the data are closed again and p.Set is nil.
func (p *Problem) openData(ctx context.Context, reading *federated.Reading) error {
	c := &p.Config
	err := p.openSet(ctx, reading)
	if err != nil {
		return err
	}
	// From here on config.Clients is a number.
	if c.Clients == config.AllClients {
		c.Clients = p.Set.Clients()
	}
	if err := p.checkPopulation(); err != nil {
		return err
	}
	samples := make([]int, c.Clients)
	for client := range samples {
		samples[client] = p.Set.Samples(client)
	}
	// The samples decide the sizes of cohort and minibatch that the configuration leaves open.
	c.Fit(samples)
	// The run's config.yaml names the number of clients, so a later run of it opens no data at all. This run must
	// not have any from here on either, so that both are the same.
	if !c.Train && !p.readsData() {
		err = p.Set.Close()
		p.Set = nil
	}
	return errors.Join(err, p.readArrivals(), c.Validate())
}

// openSet opens the samples of the run: those that a trainer in another process brings, synthetic ones,
// which are made here, or those of a file or folder. reading is told how far a file is read; it may be nil.
func (p *Problem) openSet(ctx context.Context, reading *federated.Reading) (err error) {
	c := &p.Config
	switch {
	// The trainer's program brings the samples, so it must run before they can be counted.
	case c.UsesTrainerData():
		err = p.startTrainer(ctx)
		if err == nil {
			p.Set = p.Trainer.Set()
		}
	case c.IsSynthetic() && c.Task.IsConvex():
		p.Set, err = p.convexSet()
	case c.IsSynthetic():
		p.Set, err = synthetic.New(string(c.Task), syntheticClients(c), c.DataSeed(), c.Synthetic.Heterogeneity)
	default:
		task := string(c.Task)
		// These tasks accept samples of any kind, so the reader is not held to one.
		if c.Task == config.TaskLogistic || c.Task == config.TaskCustom {
			task = ""
		}
		p.Set, err = data.OpenWith(c.Data.Reader, c.Data.Path, federated.Options{
			Task:        task,
			Seed:        c.Seed,
			MinTweets:   c.Sent140.MinTweets,
			HeldOutOnly: c.DevicesAlone(),
			Reading:     reading,
		})
	}
	return err
}

// checkPopulation refuses data that do not have the clients which the configuration asks for: samples that
// belong to no client, fewer clients than the run has, or fewer than a cohort.
func (p *Data) checkPopulation() error {
	c := &p.Config
	switch {
	// Real devices bring their own samples; of the set, only the samples for evaluation are used.
	case c.DevicesAlone():
		return nil
	case p.Set.Info().Undealt:
		return fmt.Errorf("data: the samples of %s belong to no clients: name the column that says whose a row is "+
			"(data.client), or deal them with fedpace data partition", c.Data)
	case c.Clients > p.Set.Clients():
		return fmt.Errorf("clients: %d, but %s holds %d", c.Clients, c.Data, p.Set.Clients())
	case c.Cohort > c.Clients && !c.DrawsDevices():
		return fmt.Errorf("cohort: %d of %d clients in %s; set cohort to at most that", c.Cohort, c.Clients, c.Data)
	}
	return nil
}

// syntheticClients returns for how many clients synthetic data are made. Where only real devices take
// part it is their number: each device makes the samples of one client of the same set.
func syntheticClients(c *config.Config) int {
	if c.DevicesAlone() {
		return len(c.Devices.Names)
	}
	return c.Clients
}

// convexSet makes the synthetic data of a convex task: quadratic objectives, or a mixture for
// logistic regression. They follow from the configuration and its data seed alone.
func (p *Data) convexSet() (federated.Set, error) {
	c := &p.Config
	seed := c.DataSeed()
	// The other convex task is logistic regression.
	if c.Task == config.TaskQuadratic {
		q := c.Quadratic
		return synthetic.Quadratics{
			Clients:       syntheticClients(c),
			Dimension:     q.Dimension,
			Samples:       q.Samples,
			Mu:            q.Mu,
			L:             q.L,
			Noise:         q.Noise,
			Heterogeneity: c.Synthetic.Heterogeneity,
			Seed:          seed,
		}.Set()
	}
	l := c.Logistic
	return synthetic.Mixtures{
		Clients:       syntheticClients(c),
		Features:      l.Features,
		Classes:       l.Classes,
		Samples:       l.Samples,
		Heterogeneity: c.Synthetic.Heterogeneity,
		Seed:          seed,
	}.Set()
}

// makeModel makes the description of the model that the run trains, without values of its parameters, and
// checks that model, data and algorithm go together. A model of this program takes its sizes from the
// samples; an external trainer says what model it has.
func (p *Problem) makeModel(ctx context.Context) (err error) {
	c := &p.Config
	if c.External() {
		err = p.startTrainer(ctx)
	} else {
		var info federated.Info
		if p.Set != nil {
			info = p.Set.Info()
		}
		p.Model, err = c.NewModel(info.Samples)
	}
	if err != nil {
		return err
	}
	// Personal parameters stay with each client, so the model is split in two.
	if len(c.Personal.Names) > 0 {
		p.Model, err = learn.NewPersonal(p.Model, c.Personal.Names, c.Personal.HeadSteps)
		if err != nil {
			return config.Error("personal", err)
		}
	}
	if !c.Train {
		return nil
	}
	p.Algorithm = c.Aggregate.Algorithm
	return p.Learning().Check()
}

// Learning returns the learning problem in the form that trainers and evaluators take: model, data,
// algorithm, optimizer, noise and attacks of this configuration.
func (p *Problem) Learning() *actors.Problem {
	c := &p.Config
	// Classes of the fleet may have a minibatch size of their own; 0 means that the class has none. Trainers
	// size their memory by the largest.
	largest := 0
	smallest := 0
	for _, class := range c.Fleet {
		largest = max(largest, class.Batch)
		isSmallest := smallest == 0 || class.Batch < smallest
		if class.Batch > 0 && isSmallest {
			smallest = class.Batch
		}
	}
	return &actors.Problem{
		Model:         p.Model,
		Set:           p.Set,
		Seed:          c.Seed,
		Batch:         c.Batch,
		LargestBatch:  largest,
		SmallestBatch: smallest,
		Augment:       c.Augment,
		Algorithm:     p.Algorithm,
		Optimizer:     c.Local,
		HeadSteps:     c.Personal.HeadSteps,
		Compression:   c.Compress,
		Kernel:        p.Arithmetic,
		Attacks:       attacks(c),
		Trainer:       p.Trainer,
		// The metrics that evaluate.measures lists are calculated from what the model predicts for each sample.
		Outcomes: len(c.Evaluate.Measures) > 0,
		Noise:    c.Privacy.Local,
		Grid:     p.noiseGrid(),
		Clips:    c.Combining().Clip != nil,
		// Buffers are values that are not trained, such as running means. Clients may not send them beside
		// the sum where noise must cover all that they send, or secure aggregation must hide it.
		SumsBuffers:   c.Combining().Private || c.Secure.On,
		ScalesBuffers: c.Secure.On,
	}
}

// Batch returns a function that gives the minibatch size of a client's class of the fleet, in samples. It
// gives 0 for a class that has the size of the configuration. The function is nil if all classes have that.
func (p *Timing) Batch() func(client int) int {
	if !p.Config.HasOwnBatches() {
		return nil
	}
	return func(client int) int { return p.Config.Fleet[p.Fleet.Class(client)].Batch }
}

// initialize makes the parameters that the run starts from: those of the file that init names, those
// of the trainer, or those that follow from the seed. They are in the order of the run, in which
// personal parameters stand behind the shared ones.
func (p *Problem) initialize(ctx context.Context) (err error) {
	var made []float32
	if p.Trainer != nil {
		made, err = p.trainersInitial(ctx)
		if err != nil {
			return err
		}
	}
	switch {
	// A file takes precedence. Values that it lacks are those that the trainer makes.
	case p.Config.Init != "":
		p.Initial, err = folder.ReadModelOnto(p.Config.Init, p.Model.Tensors(), made)
		if err != nil {
			return fmt.Errorf("init: %w", err)
		}
	case p.Trainer != nil:
		p.Initial = made
	default:
		p.Initial = p.seededInitial()
	}
	return nil
}

// seededInitial returns initial parameters that follow from the run's seed, for a model of this program.
// A model with personal parameters is initialized in the order of the model that it splits, so that it
// begins with the same values, and then put into the order of the run.
func (p *Problem) seededInitial() []float32 {
	initial := make([]float32, p.Model.Params())
	// Models of this program, unlike those of trainers, can initialize themselves.
	whole := learn.Stepped(p.Model).(learn.Model)
	whole.Init(initial, p.Config.Seed)
	return p.inRunsOrder(initial)
}

// trainersInitial returns the initial model that the external trainer makes for the run's seed. Its
// values are put into the order of the run, in which the values that clients send are the first.
func (p *Problem) trainersInitial(ctx context.Context) ([]float32, error) {
	initial, err := p.Trainer.Initial(ctx, p.Config.Seed)
	if err != nil {
		return nil, err
	}
	return p.inRunsOrder(initial), nil
}

// inRunsOrder returns a model as the run holds it. A personal model keeps its parameters in another order
// than the model that it splits.
func (p *Problem) inRunsOrder(model []float32) []float32 {
	m, ok := p.Model.(*learn.Personal)
	if !ok {
		return model
	}
	ordered := make([]float32, len(model))
	// The parameters that clients send come first, and the personal ones behind them.
	m.FromModelOrder(ordered, model)
	return ordered
}

// triedClients is the number of clients whose task durations are checked before a run.
const triedClients = 1000

// checkPhases refuses devices so slow that downloading, computing or uploading in a client's first task
// would take longer than the clock allows for a phase, which is over three years. It looks at the first
// triedClients only: a client with an even slower device is found in the run, when its task comes.
func (p *Timing) checkPhases() error {
	epochs := p.epochs()
	if err := p.checkSteps(epochs); err != nil {
		return err
	}
	for client := range min(triedClients, p.Config.Clients) {
		if err := p.checkClientPhases(client, p.firstSteps(epochs, client)); err != nil {
			return err
		}
	}
	return nil
}

// firstSteps returns the number of local steps in a client's first task, which is K_0 or, where the
// schedule counts epochs, what K_0 epochs are for the client's number of samples. epochs is that of
// [Timing.epochs], with a batch of 0 where the schedule counts steps.
func (p *Timing) firstSteps(epochs schedule.Epochs, client int) int {
	k0 := p.Config.Schedule.K0
	if epochs.Batch == 0 {
		return k0
	}
	partsOfEpochs := k0 * schedule.Parts
	return epochs.ForClient(client).Steps(partsOfEpochs, float64(p.Set.Samples(client)))
}

// checkClientPhases returns an error that names the key to change if a phase of a client's task with this
// number of local steps would take longer than the clock allows.
func (p *Timing) checkClientPhases(client, steps int) error {
	c := &p.Config
	computeKeys := "compute."
	networkKeys := "network."
	class := ""
	// A fleet of classes has its own devices, so the message names the key of the client's class.
	if len(c.Fleet) > 0 {
		number := p.Fleet.Class(client)
		computeKeys = fmt.Sprintf("fleet[%d].", number)
		networkKeys = computeKeys
		class = " of class " + c.Fleet[number].Name
	}
	// Computing is looked at first, with a task that transfers nothing.
	if _, err := p.Fleet.Expect(client, steps, fleet.SameBits(0)); err != nil {
		return &config.KeyError{
			Key: computeKeys + "seconds_per_step",
			Problem: fmt.Sprintf("client %d%s would take over three years for %d local steps (lower it or "+
				"schedule.k0, or set at_most)", client, class, steps),
		}
	}
	// Then the transfers, with a task without local steps.
	if d, err := p.Fleet.Expect(client, 0, p.Bits); err != nil {
		name := "upload_mbps"
		bits := p.Bits.Up
		// A download below zero says that it is the phase that takes too long.
		if d.Download < 0 {
			name = "download_mbps"
			bits = p.Bits.Down
		}
		return &config.KeyError{
			Key: networkKeys + name,
			Problem: fmt.Sprintf(
				"client %d%s would take over three years for a transfer of %g Mbit (raise it, or set at_least)",
				client,
				class,
				float64(bits)/1e6,
			),
		}
	}
	return nil
}

// checkSteps refuses a schedule in epochs that would give some client more local steps than a task
// may have. epochs turns a client's epochs into steps; its batch is 0 where the schedule counts steps
// itself, of which no client has too many.
func (p *Timing) checkSteps(epochs schedule.Epochs) error {
	if epochs.Batch == 0 {
		return nil
	}
	// Every client counts, since the one with the most samples takes the most steps.
	for client := range p.Config.Clients {
		if p.firstSteps(epochs, client) > round.MaxLocalSteps {
			return &config.KeyError{
				Key: "schedule.k0",
				Problem: fmt.Sprintf(
					"%d epochs of client %d, who has %d samples, are more than %d local steps (lower it)",
					p.Config.Schedule.K0,
					client,
					p.Set.Samples(client),
					round.MaxLocalSteps,
				),
			}
		}
	}
	return nil
}
