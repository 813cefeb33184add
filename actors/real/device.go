package real

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedpace/actors"
	"fedpace/actors/external"
	"fedpace/algorithm"
	"fedpace/algorithm/privacy"
	"fedpace/bus"
	"fedpace/bus/gateway"
	"fedpace/data"
	"fedpace/data/federated"
	"fedpace/data/synthetic"
	"fedpace/data/table"
	"fedpace/learn"
)

// Config describes a real device.
type Config struct {
	// ID is the name of the device, by which runs call it.
	ID string
	// Run is the run to join. Empty means any run that calls.
	Run string
	// Data is the path of the device's data, SyntheticData or TrainerData.
	Data string
	// Set holds the device's samples in place of Data; Close closes it. Nil means that Data says where
	// they are.
	Set federated.Set
	// Owner selects the client whose samples are this device's in a data set of several clients, by
	// name or number. Empty means the only client.
	Owner string
	// Once ends the device with its first run.
	Once bool
	// Version is that of this program, which the device reports to coordinators.
	Version string
	// Samples is the maximum number of samples in the device's credentials. 0 means any number.
	Samples uint64
	// Trainer is the command of the program that takes the local steps in runs that need one. Empty
	// means that there is none.
	Trainer string
	// Map changes the meaning of the columns of Data, as option=value. The run's mapping applies to the
	// rest.
	Map []string
	// Measured is the result of a calibration of the device, which it reports to coordinators.
	Measured []*bus.Measured
	// Withhold lists what the device does not report about its data: [Samples], [Losses] or [Log].
	Withhold []string
	// Notice takes a line about each event of the device. It may be nil.
	Notice func(string)
	// Observe is called for each message of secure aggregation before it is sent and once it is answered,
	// and with the weighted update before it is masked. It may be nil.
	Observe func(SecureStep)
	// Trust reports whether a key is the one by which a client signs in secure aggregation. nil trusts
	// the coordinator to pass on these keys.
	Trust func(client uint32, identity []byte) bool
	// Identity is the key by which this device signs in secure aggregation. nil means one that is drawn
	// at its first task.
	Identity ed25519.PrivateKey
	// Survivors is the smallest number of survivors among which this device's updates may be summed: the
	// device takes part in no run without secure aggregation, or with a smaller minimum. 0 means that it
	// takes part in any.
	Survivors int
}

// Values of Config.Data that are no path.
const (
	// SyntheticData means that the device makes its samples as the run's simulated clients have
	// them.
	SyntheticData = "synthetic"
	// TrainerData means that the trainer brings samples of its own.
	TrainerData = "trainer"
)

// Values of Config.Withhold: what a device need not report.
const (
	// Samples is the number of its samples.
	Samples = "samples"
	// Losses are the losses of the first minibatch of each task.
	Losses = "loss"
	// Log is the log that the device writes for its owner.
	Log = "log"
)

// CheckWithhold returns an error if an entry of a device's list of what it withholds is not one of
// Samples, Losses and Log.
func CheckWithhold(list []string) error {
	for _, item := range list {
		if item != Samples && item != Losses && item != Log {
			return fmt.Errorf("%q cannot be withheld (%s, %s or %s)", item, Samples, Losses, Log)
		}
	}
	return nil
}

// withholds reports whether the device does not report an item, one of Samples, Losses and Log.
func (w *Device) withholds(item string) bool { return slices.Contains(w.config.Withhold, item) }

// reportedSamples returns the number of samples that the device reports: its own, at most what the bus
// allows, or 0 if it withholds the number or does not know it yet.
func (w *Device) reportedSamples() uint64 {
	if w.set == nil || w.withholds(Samples) {
		return 0
	}
	return uint64(min(w.set.Samples(w.client), bus.MaxDeviceSamples))
}

// Open makes a device from its configuration and reads its data, unless these come with the run or
// with the trainer. Close the device after use.
func Open(c Config) (*Device, error) {
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	kernel, err := learn.SelectKernel(learn.AutoKernel)
	if err != nil {
		return nil, err
	}
	w := &Device{config: c, kernel: kernel, set: c.Set, identity: c.Identity}
	if c.Set != nil {
		return w, nil
	}
	if c.Data == TrainerData && c.Trainer == "" {
		return nil, errors.New("data: trainer is for samples that a trainer brings, and there is none")
	}
	// Synthetic data are made for a run, and a trainer brings its data when it starts.
	if c.Data != SyntheticData && c.Data != TrainerData {
		if err := w.openData(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// Work takes part in runs until ctx is cancelled, or until the first run ends if Once is set. Tasks
// that fail because of the network are left to the run, which sends them again.
func (w *Device) Work(ctx context.Context, conn bus.Line) (err error) {
	c := &w.config
	w.bus, err = gateway.OpenDevice(ctx, conn, gateway.DeviceConfig{
		ID:        c.ID,
		Run:       c.Run,
		Samples:   c.Samples,
		Notice:    c.Notice,
		Join:      w.Join(),
		Prepare:   w.Prepare,
		SharesLog: !w.withholds(Log),
	})
	if err != nil {
		return err
	}
	defer func() {
		// The coordinator learns why the device leaves, and need not wait until the device counts as
		// silent.
		switch {
		case ctx.Err() != nil:
			w.bus.Leave("it was stopped")
		case err != nil:
			w.bus.Leave(err.Error())
		}
		err = errors.Join(err, w.bus.Close())
	}()
	if c.Run == "" {
		w.bus.Notice(fmt.Sprintf("Device %s waits for a run that names it.", c.ID))
	}
	var missing missingModel
	for {
		task, err := w.bus.Next(ctx)
		switch {
		// Without Once the device waits for the next run.
		case errors.Is(err, gateway.ErrOver):
			w.bus.Notice(fmt.Sprintf("The run is over after %d tasks.", w.doneTasks))
			if c.Once {
				return nil
			}
			w.doneTasks = 0
			continue
		case err != nil:
			return err
		}
		if err := w.doTask(task); err != nil {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			// The run has ended the task, for instance because the round closed without it.
			case task.Context.Err() != nil:
				w.bus.Notice(fmt.Sprintf("Task %d: the run goes on without it.", task.Task.Task))
			case isRecoverable(err, conn):
				w.bus.Notice(fmt.Sprintf("Task %d: %v.", task.Task.Task, err))
				// After several failures in a row the device leaves, so that the run does not wait for it. The
				// run calls the device again, which then joins it anew.
				if errors.Is(err, errDownload) && missing.again(task.Task.Task) {
					w.bus.Leave(err.Error())
				}
			default:
				return err
			}
		}
	}
}

// Join returns the message with which the device joins a run: its name, its version, its kernel, its
// number of samples unless that is withheld, its calibration, and the newest protocol that it speaks.
func (w *Device) Join() *bus.Join {
	c := &w.config
	return &bus.Join{
		Name:          c.ID,
		Kernel:        w.kernel.Class(),
		Samples:       w.reportedSamples(),
		Protocol:      bus.DeviceProtocol,
		Version:       c.Version,
		WithholdsLoss: w.withholds(Losses),
		Measured:      c.Measured,
	}
}

// errDownload is wrapped by errors of models that could not be fetched. The run sends such a task
// again.
var errDownload = errors.New("the model does not arrive")

// missingModel counts how often in a row the model of a task could not be fetched.
type missingModel struct {
	task  uint64
	times int
}

// maxMissing is how often the run sends a task whose model does not arrive, such as behind a server that passes no
// requests for models. A model that was lost with its server is there again by then.
const maxMissing = 3

// again notes that the model of a task could not be fetched once more. It reports whether the device is to leave the
// run, which it does after maxMissing failures in a row. If it joins the run again, they are counted anew.
func (m *missingModel) again(task uint64) bool {
	if m.task != task {
		*m = missingModel{task: task}
	}
	m.times++
	return m.times%maxMissing == 0
}

// Device is a real device. It is not safe for concurrent use.
type Device struct {
	config Config
	bus    *gateway.Device
	kernel learn.Kernel
	set    federated.Set
	// agreed holds the mapping and schema of the run that the set was made for.
	agreed string
	// client is the client in set whose samples are the device's.
	client int
	// madeFor says what a synthetic set was made for.
	madeFor string
	trainer *actors.Trainer
	// model is the model that the trainer is for.
	model learn.ModelInfo
	// program takes the steps if the run has an external trainer. Nil means that it is not started.
	program *external.Program
	// problem says what the trainer was made for.
	problem string
	// vectors are the frozen part of the run's model, and the device's state before the last task and
	// after it. Only the next task says which of the two counts.
	vectors map[bus.Digest][]float32
	// doneTasks counts the tasks in this run.
	doneTasks int
	// identity is the key that signs in secure aggregation, nil as long as it is not drawn. weight is the
	// weight of the open task there, group is in which round it is summed, and lastResult is the result of the
	// last task.
	identity   ed25519.PrivateKey
	weight     uint64
	group      group
	lastResult *computed
}

// Close ends the process of the trainer, if any, and closes the data. The device may be prepared
// for a run again afterwards.
func (w *Device) Close() error {
	const withProgram = true
	err := w.closeTrainer(withProgram)
	if w.set != nil {
		err = errors.Join(err, w.set.Close())
		w.set = nil
	}
	return err
}

// closeTrainer ends the trainer that was made for a run. withProgram says that the program of the
// external trainer, which could serve the next run as well, is ended, too.
func (w *Device) closeTrainer(withProgram bool) (err error) {
	if w.trainer != nil {
		err = w.trainer.Close()
		w.trainer = nil
	}
	if w.program != nil && withProgram {
		err = errors.Join(err, w.program.Close())
		w.program = nil
	}
	return err
}

// openData reads the device's own data, unless their columns have no meaning yet because only a run's
// mapping gives them one. Then the data are read by adaptData, when the device has joined.
func (w *Device) openData() error {
	if len(w.config.Map) > 0 {
		return nil
	}
	set, err := data.Open(w.config.Data, federated.Options{})
	if errors.Is(err, table.ErrUnmapped) {
		return nil
	}
	if err != nil {
		return err
	}
	w.set = set
	return w.findClient()
}

// ErrOwnerMissing is the error of a device whose data are of several clients and whose configuration
// names none of them as its own.
var ErrOwnerMissing = errors.New("say whose samples are this device's")

// findClient sets the client of the data whose samples are this device's, by the name or number in
// Owner. Without Owner the data must be of a single client.
func (w *Device) findClient() error {
	n := w.set.Clients()
	if w.config.Owner == "" {
		if n == 1 {
			return nil
		}
		return fmt.Errorf(
			"data: %s holds %d clients (%s); %w, by --owner NAME",
			w.config.Data,
			n,
			w.someClients(),
			ErrOwnerMissing,
		)
	}
	for i := range n {
		if w.set.Client(i) == w.config.Owner {
			w.client = i
			return nil
		}
	}
	// An owner that is no name may be a number, written as this program would write it.
	number, err := strconv.Atoi(w.config.Owner)
	isNumber := err == nil && strconv.Itoa(number) == w.config.Owner
	if !isNumber || number < 0 || number >= n {
		return fmt.Errorf(
			"data: %s has no client %q, but %d others (%s); %w, by --owner NAME or a number below %d",
			w.config.Data,
			w.config.Owner,
			n,
			w.someClients(),
			ErrOwnerMissing,
			n,
		)
	}
	w.client = number
	return nil
}

// adaptData makes the device's samples mean the same as the run's: columns that the device's own options do
// not map are read by the run's mapping, and labels and scales are those of the run's schema. Data are read
// again only if mapping or schema differ from those of the run before.
func (w *Device) adaptData(welcome *bus.Welcome) error {
	schema := federated.Schema{
		Labels:    welcome.Schema.GetLabels(),
		Columns:   welcome.Schema.GetColumns(),
		Alphabet:  welcome.Schema.GetAlphabet(),
		Mean:      federated.Convert[float64](welcome.Schema.GetMean()),
		Deviation: federated.Convert[float64](welcome.Schema.GetDeviation()),

		TargetMean:      federated.Convert[float64](welcome.Schema.GetTargetMean()),
		TargetDeviation: federated.Convert[float64](welcome.Schema.GetTargetDeviation()),
	}
	agreed := fmt.Sprint(welcome.Mapping, schema)
	if w.set != nil && w.agreed == agreed {
		return nil
	}
	// Data that were adapted to another run are read again.
	if w.set == nil || w.agreed != "" {
		if err := w.Close(); err != nil {
			return err
		}
		var reader federated.Reader
		// Without a mapping of the run's, only the device's own options say what columns mean.
		if welcome.Mapping != "" {
			var err error
			reader, err = federated.Readers.Decode(welcome.Mapping)
			if err != nil {
				return fmt.Errorf("data: the run's mapping: %w", err)
			}
		}
		set, err := data.OpenClientTable(reader, w.config.Data, w.config.Map)
		if err != nil {
			return err
		}
		w.set = set
		w.trainer = nil
		if err := w.findClient(); err != nil {
			return err
		}
	}
	w.agreed = agreed
	// This is a calibration without a run, so the samples mean what the device says.
	if welcome.Spec.GetDataDigest() == "" {
		return nil
	}
	return federated.Adopt(w.set, schema)
}

// Prepare makes the trainer for a run: its model and, if wanted, synthetic data like those of the run's simulated
// clients. It does nothing if the trainer fits already. If welcome names no model, it is that of the device's external
// trainer, whatever it is.
func (w *Device) Prepare(ctx context.Context, run string, welcome *bus.Welcome) (err error) {
	if err := w.checkSecure(welcome); err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	spec := welcome.Spec
	switch {
	// The set comes with the program or its trainer, and fits every run.
	case w.config.Set != nil, w.config.Data == TrainerData:
	case w.config.Data == SyntheticData:
		wanted := fmt.Sprint(welcome.Task, welcome.Clients, welcome.DataSeed, welcome.Heterogeneity)
		// Synthetic data are made anew only if a run wants others than the run before.
		if w.madeFor != wanted {
			if err := w.Close(); err != nil {
				return err
			}
			w.set, err = synthetic.New(
				welcome.Task,
				int(welcome.Clients),
				welcome.DataSeed,
				welcome.Heterogeneity,
			)
			if err != nil {
				return err
			}
			w.madeFor = wanted
			w.client = int(welcome.Client)
		}
	default:
		if err := w.adaptData(welcome); err != nil {
			return err
		}
	}
	// All that decides how the trainer is made is compared as one text.
	wanted := fmt.Sprint(
		spec.Model,
		spec.Seed,
		spec.Batch,
		spec.Augment,
		spec.Algorithm,
		spec.Local,
		spec.Compression,
		spec.NoiseClip,
		spec.NoiseMultiplier,
	)
	// The trainer that was made for an equal run is used again.
	if w.trainer != nil && w.problem == wanted {
		return nil
	}
	p, err := w.problemOf(ctx, welcome)
	if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	const withProgram = false
	if err := w.closeTrainer(withProgram); err != nil {
		return err
	}
	w.problem = wanted
	w.model = p.Model
	w.trainer, err = actors.NewTrainer(p)
	if err == nil && spec.Model != "" && w.trainer.StateLength() != int(welcome.Kept) {
		return fmt.Errorf(
			"run %s: it keeps %d values here, the run's clients keep %d",
			run,
			w.trainer.StateLength(),
			welcome.Kept,
		)
	}
	return err
}

// problemOf returns what the run of a welcome message learns, as the device's trainer takes it:
// model, data, algorithm, optimizer, compression and noise. ctx bounds the start of an external
// trainer. A model with another number of parameters than the run's is an error.
func (w *Device) problemOf(ctx context.Context, welcome *bus.Welcome) (p actors.Problem, err error) {
	spec := welcome.Spec
	p = actors.Problem{
		Seed:    spec.Seed,
		Batch:   int(spec.Batch),
		Augment: spec.Augment,
		Kernel:  w.kernel,
		Noise:   privacy.Local{Clip: spec.NoiseClip, Noise: spec.NoiseMultiplier},
		Secret:  secret,
	}
	if p.Noise != (privacy.Local{}) {
		if err := p.Noise.Validate(); err != nil {
			return p, fmt.Errorf("local noise: %w", err)
		}
	}
	p.Model, err = w.modelOf(ctx, spec.Model)
	if err != nil {
		return p, err
	}
	if spec.Model != "" && learn.Communicated(p.Model) != int(welcome.Params) {
		return p, fmt.Errorf(
			"%s has %d parameters that travel here, the run's model %d",
			p.Model,
			learn.Communicated(p.Model),
			welcome.Params,
		)
	}
	// The set may have fewer classes than the run's model, which settles their number.
	if counter, ok := w.set.(interface{ CountClasses(n int) }); ok {
		counter.CountClasses(p.Model.Samples().Classes)
	}
	// The set is read here because an external trainer may have brought it with its model.
	p.Set = w.set
	p.Trainer = w.program
	p.Algorithm, err = algorithm.Algorithms.Decode(spec.Algorithm)
	if err == nil && spec.Local != "" {
		p.Optimizer, err = learn.Optimizers.Decode(spec.Local)
	}
	if err == nil && spec.Compression != "" {
		p.Compression, err = algorithm.Compressions.Decode(spec.Compression)
	}
	return p, err
}

// secret draws a key for the noise of one update. It is not stored anywhere.
func secret() (key privacy.Secret) {
	// Reading random bytes never fails.
	rand.Read(key[:])
	return key
}

// modelOf returns the model of this name: one of this program, or that of the trainer, which is started
// if it is not running. "" stands for the trainer's model, whatever it is. A running trainer with another
// model is started once more, as its script may have changed; a second difference is an error.
func (w *Device) modelOf(ctx context.Context, name string) (learn.ModelInfo, error) {
	if name != "" && !external.IsExternal(name) {
		if w.config.Data == TrainerData {
			return nil, fmt.Errorf("it learns %s without a trainer, which alone has this device's samples", name)
		}
		return learn.Parse(name)
	}
	if w.config.Trainer == "" {
		return nil, external.CompareModels(name, "")
	}
	// The loop runs a second time only for a trainer that was running already.
	for {
		wasRunning := w.program != nil
		if !wasRunning {
			if err := w.startTrainer(ctx); err != nil {
				return nil, err
			}
		}
		model := w.program.Model()
		if name == "" {
			return model, nil
		}
		err := external.CompareModels(name, model.String())
		if err == nil || !wasRunning {
			return model, err
		}
		// The trainer's script may have changed since the run before.
		const withProgram = true
		if err := w.closeTrainer(withProgram); err != nil {
			return nil, err
		}
	}
}

// startTrainer starts the external trainer and hands it the device's samples. A trainer that brings
// samples of its own gets none, and its samples become the device's. On an error nothing stays open
// that start has opened.
func (w *Device) startTrainer(ctx context.Context) (err error) {
	c := external.Config{Command: w.config.Trainer, Threads: runtime.GOMAXPROCS(0), Notice: w.config.Notice}
	if w.config.Data != TrainerData {
		c.Data, err = external.Share(w.set)
		if err != nil {
			return err
		}
	}
	w.program, err = external.Open(ctx, c)
	if err != nil {
		return errors.Join(err, c.Data.Close())
	}
	if w.config.Data == TrainerData {
		w.set = w.program.Set()
		err = w.findClient()
	}
	return err
}

// doTask does one task: it fetches the model and the device's state, takes the local steps and sends
// the update with the measured times. Preparing for a run takes place once and is no part of the
// measured steps.
func (w *Device) doTask(t *gateway.DeviceTask) error {
	// The terms are those of the newest welcome, so they are looked at before each task.
	if err := w.checkSecure(t.Welcome); err != nil {
		return fmt.Errorf("task %d: %w", t.Task.Task, err)
	}
	if t.Welcome.Secure != nil {
		return w.doSecurely(t)
	}
	ctx := t.Context
	// frozen are the values of the model that do not train, and state is what the device kept after its last
	// task.
	var frozen, state []float32
	params, err := w.bus.Model(ctx, t.Run, bus.DigestFrom(t.Task.ModelDigest))
	if err == nil {
		frozen, err = w.vector(ctx, t, t.Task.FrozenDigest)
	}
	if err == nil {
		state, err = w.vector(ctx, t, t.Task.KeptDigest)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errDownload, err)
	}
	// The model is its communicated values followed by the frozen ones, which are fetched once.
	communicated := len(params)
	params = append(params, frozen...)
	// The next task finds the vectors here by their digests, and need not fetch them. If this update is not
	// accepted, the next task names the state before it again.
	w.vectors = map[bus.Digest][]float32{
		bus.DigestFrom(t.Task.FrozenDigest): frozen,
		bus.DigestFrom(t.Task.KeptDigest):   state,
	}
	download := time.Since(t.Received)
	w.bus.Phase(bus.Compute)
	// Preparing takes place once a run, and is no part of the measured steps.
	if err := w.Prepare(ctx, t.Run, t.Welcome); err != nil {
		return err
	}
	update, nextState, err := w.Compute(ctx, params, state, t.Task)
	if err != nil {
		return err
	}
	w.vectors[bus.DigestOf(nextState)] = nextState
	update.DownloadNs = download.Nanoseconds()
	// Only the communicated values are sent, followed by the device's next state.
	update.Values = append(update.Values[:min(communicated, len(update.Values))], nextState...)
	if err := w.bus.Send(ctx, t.Run, update); err != nil {
		return err
	}
	w.doneTasks++
	return nil
}

// vector returns the vector with this digest, such as a model's frozen values: the one that the device has
// kept from the task before, or else the one that it fetches from the run. For an empty digest it is nil.
func (w *Device) vector(ctx context.Context, t *gateway.DeviceTask, digest []byte) ([]float32, error) {
	d := bus.DigestFrom(digest)
	if cached, found := w.vectors[d]; found || d.IsZero() {
		return cached, nil
	}
	return w.bus.Model(ctx, t.Run, d)
}

// Samples returns how many samples the device has. known is false as long as that depends on a run or on
// a trainer that has not started.
func (w *Device) Samples() (n int, known bool) {
	if w.set == nil {
		return 0, false
	}
	return w.set.Samples(w.client), true
}

// ErrNoSamplesYet is the error of a trainer that cannot be tried before a run gives the samples a
// meaning.
var ErrNoSamplesYet = errors.New("only a run says what the samples are")

// TryTrainer starts the device's external trainer, without a run, and returns the name of its
// model. It returns ErrNoSamplesYet if the trainer needs samples that only a run can give a
// meaning.
func (w *Device) TryTrainer(ctx context.Context) (string, error) {
	if w.set == nil && w.config.Data != TrainerData {
		return "", ErrNoSamplesYet
	}
	if err := w.startTrainer(ctx); err != nil {
		return "", err
	}
	return w.program.Model().String(), nil
}

// Compute takes the local steps of task t from a model, params, and measures how long they take.
// state is what the device has kept since its last task, nil if it has kept nothing. It returns the
// update and the device's next state. If the steps do not stay finite, the loss of the update is NaN and
// so is its only value.
func (w *Device) Compute(
	ctx context.Context,
	params, state []float32,
	t *bus.Task,
) (update *bus.DeviceUpdate, nextState []float32, err error) {
	started := time.Now()
	values, nextState, loss, err := w.trainer.Local(ctx, params, actors.Assignment{
		Task:       t.Task,
		Client:     w.client,
		LocalSteps: int(t.LocalSteps),
		StepsDone:  int64(t.StepsDone),
		Rate:       t.LearningRate,
		State:      state,
	})
	// There is no model, and a value that is not finite makes the coordinator refuse the update.
	if diverged, ok := errors.AsType[*actors.Diverged](err); ok {
		w.bus.Notice(fmt.Sprintf("Task %d: its steps do not stay finite (%s).", t.Task, diverged.Cause))
		values = []float32{float32(math.NaN())}
		nextState = nil
		loss = math.NaN()
		err = nil
	}
	if err != nil {
		return nil, nil, err
	}
	took := time.Since(started)
	if w.withholds(Losses) {
		loss = bus.UnreportedLoss
	}
	update = &bus.DeviceUpdate{Values: values, Update: &bus.Update{
		Task:          t.Task,
		TaskDigest:    t.Digest,
		ComputeNs:     took.Nanoseconds(),
		FirstStepLoss: loss,
		Samples:       w.reportedSamples(),
	}}
	return update, nextState, nil
}

// Model returns the model of the run that the device is prepared for.
func (w *Device) Model() learn.ModelInfo { return w.model }

// Arithmetic names what takes the local steps: the instructions of this program's kernel, or the
// class of the external trainer.
func (w *Device) Arithmetic() string {
	if external.IsExternal(w.model.String()) {
		return w.program.Class
	}
	return w.kernel.Instructions()
}

// Initial returns the values of an initial model for this seed. The device must be prepared for a
// run, whose model it is.
func (w *Device) Initial(ctx context.Context, seed uint64) ([]float32, error) {
	if external.IsExternal(w.model.String()) {
		model, err := w.program.Initial(ctx, seed)
		// The trainer may have started a process for the initial model that it does not need any
		// more.
		return model, errors.Join(err, w.program.CloseSpare())
	}
	params := make([]float32, w.model.Params())
	w.model.(learn.Model).Init(params, seed)
	return params, nil
}

// someClients returns the names of the first three clients in the device's data, separated by
// commas, for an error message. An ellipsis stands for the others.
func (w *Device) someClients() string {
	const shown = 3
	var names []string
	for i := range min(shown, w.set.Clients()) {
		names = append(names, w.set.Client(i))
	}
	list := strings.Join(names, ", ")
	if w.set.Clients() > shown {
		list += ", ..."
	}
	return list
}

// isRecoverable reports whether a task's error leaves the device in the run: the update was refused or
// not answered, or the model did not arrive although the connection stands. The run sends such a task
// again, or another.
func isRecoverable(err error, conn bus.Line) bool {
	if errors.Is(err, gateway.ErrUpdateRefused) || errors.Is(err, gateway.ErrUnanswered) {
		return true
	}
	return errors.Is(err, errDownload) && conn.Err() == nil
}
