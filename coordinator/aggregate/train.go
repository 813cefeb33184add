package aggregate

import (
	"context"
	"math"

	"fedpace/algorithm"
	"fedpace/bus"
	"fedpace/coordinator/round"
)

// Round is what [Aggregator.Train] trains.
type Round struct {
	Number int
	// Tasks are the accepted tasks in the order of their base models, those of real devices last. At
	// least one.
	Tasks []round.Task
}

// Outcome is a round that was trained: what the round machine wants to know of it, and what
// [Aggregator.Advance] makes the next model of. It is valid until the next call of Train.
type Outcome struct {
	// Loss is the mean of the clients' losses before their first local steps (Eq. 15).
	Loss float64
	// Losses are those of the clients, by task; NaN where a loss is not known.
	Losses []float64
	// Refused are the tasks whose updates are not valid. They do not count.
	Refused []uint64

	number int
	tasks  []round.Task
	sum    roundSum
	// degraded says that the round's model has lost half of what the best one so far had learned, and diverged that it
	// is far worse than the first model: the run then goes back to the best model that the guard knows.
	degraded, diverged bool
	// modelLoss is the loss of the model that the sum makes, where the guard measured it.
	modelLoss float64
}

// roundSum is the sum of a round's updates.
type roundSum struct {
	// values are the exact sum, of [algorithm.SumLength] values: of the updates, followed by the
	// changes of control variates where the algorithm has them. They lie in memory that the next
	// sum takes over.
	values []int64
	// scale is the factor that the server applies to the trained values of the sum.
	scale float64
	// bufferScales are the factors that the server applies to the sum's buffers; nil if all are 1.
	bufferScales []float64
	// buffers are those of the next model, where clients send them beside the sum. Nil means that they
	// stay as the sum makes them.
	buffers []float32

	// updates are the updates that count.
	updates []clientUpdate
	// refused are the task numbers of the updates that do not count.
	refused []uint64
	// loss is the mean of losses.
	loss float64
	// losses holds one loss for each task of the round, NaN for a refused update.
	losses []float64

	// clipMemory is what the clip of all updates remembers next, nil if it remembers what it did
	// before.
	clipMemory []float64
	devices    deviceBounds
}

// Train has the tasks of a round trained and their updates added up. Updates of real devices count only as
// far as the guard finds that they do no harm; with secure aggregation the guard cannot see them, and all
// count. It changes nothing that a checkpoint holds.
func (a *Aggregator) Train(ctx context.Context, r Round) (Outcome, error) {
	if a.config.Round.SiteRounds > 0 {
		return a.trainSites(ctx, r)
	}
	// Tasks of devices follow those of simulated clients.
	firstDevice := a.devices.Split(r.Tasks)
	hasDevices := firstDevice < len(r.Tasks)
	// The guard needs single updates, which secure aggregation hides.
	seesUpdates := a.learning.Secure == nil
	if hasDevices && seesUpdates {
		return a.trainVetted(ctx, r)
	}
	sum, err := a.addUp(ctx, r)
	return a.outcome(r, sum), err
}

// noteDevices stores in devices' updates what the devices have sent beside them: the buffers, and the state that each
// keeps for its next task.
func (a *Aggregator) noteDevices(updates []clientUpdate) {
	for i := range updates {
		u := &updates[i]
		u.buffers = sentBuffers{values: a.devices.Buffers(u.task.Task, a.modelParams(u.task.Model))}
		u.stateAfter = a.devices.StateAfter(u.task.Task)
	}
}

// outcome returns the outcome of round r, whose updates have this sum, for a round that the guard does not
// judge. Such a round changes nothing about whether the model counts as degraded. Where the guard judges the
// round, the caller overwrites what it decides.
func (a *Aggregator) outcome(r Round, sum roundSum) Outcome {
	return Outcome{
		Loss:     sum.loss,
		Losses:   sum.losses,
		Refused:  sum.refused,
		number:   r.Number,
		tasks:    r.Tasks,
		sum:      sum,
		degraded: a.models.current().degraded,
	}
}

// emptySum returns an exact sum of no updates, all zeros. It reuses the memory of the sum before, whose
// values are overwritten.
func (a *Aggregator) emptySum() []int64 {
	clear(a.sumMemory)
	return a.sumMemory
}

// addUp trains the tasks of a round and returns the sum of their updates with the clients' losses. Simulated
// clients come first in round.Tasks and are trained by jobs; devices, which come after them, have sent their
// updates already. An update that is not valid is refused, and the others then get the weights that they
// would have had without it. If every update is refused, the error is the reason of the last one.
func (a *Aggregator) addUp(ctx context.Context, round Round) (roundSum, error) {
	updates := newUpdates(round.Tasks)
	weights, err := a.weigh(updates)
	if err != nil {
		return roundSum{}, err
	}
	result := roundSum{values: a.emptySum()}
	// Devices follow the simulated clients, so one index divides the tasks.
	simulated := a.devices.Split(round.Tasks)
	spans := jobSpans(updates[:simulated], a.queue.trainingJobCount(localSteps(updates[:simulated])))
	merge := func(members span, values []int64) error { return mergeSpan(result.values, updates, members, values) }
	if err := a.trainSimulated(ctx, round.Number, updates, spans, merge); err != nil {
		return result, err
	}
	result.losses = lossesOf(updates)
	valid, refused, lastFailure := refuse(updates)
	result.refused = refused
	if len(valid) == 0 {
		return result, lastFailure
	}
	if refused != nil {
		weights, err = a.weigh(valid)
		if err != nil {
			return result, err
		}
	}
	result.updates = valid
	// Only simulated clients are refused here, so devices begin this many places earlier.
	firstDevice := simulated - len(refused)
	result.devices, err = a.addDevices(ctx, result.values, valid, firstDevice)
	if err != nil {
		return result, err
	}
	ofDevices := valid[firstDevice:]
	a.noteDevices(ofDevices)
	// The losses are those of all tasks, refused ones included, so those of devices begin at their first task.
	copy(result.losses[simulated:], lossesOf(ofDevices))
	result.scale, result.clipMemory, err = a.completeSum(round.Number, result.values, valid, weights)
	if err != nil {
		return result, err
	}
	result.devices.moves = a.bufferMoves(valid, firstDevice)
	result.bufferScales = a.bufferScales(valid)
	result.buffers = a.nextBuffers(a.Params(), valid)
	// Where updates are votes, the sum of the votes becomes the step that they decide.
	a.algorithm.Decide(result.values)
	result.loss = meanLoss(result.losses)
	return result, a.rebaseStale(result.values, valid)
}

// localSteps returns the total number of local steps of the updates' tasks.
func localSteps(updates []clientUpdate) (steps int) {
	for i := range updates {
		steps += updates[i].task.LocalSteps
	}
	return steps
}

// jobSpans divides the updates of simulated clients into jobs, as spans of places: one job for each update
// that is kept separate, and for the others about as many as parts, each with one base model. Separate
// updates come first, since either all of the round's are separate or only the stale ones, and updates are
// sorted by base model.
func jobSpans(updates []clientUpdate, parts int) (spans []span) {
	nextUpdate := 0
	for nextUpdate < len(updates) && updates[nextUpdate].separate {
		spans = append(spans, span{nextUpdate, nextUpdate + 1})
		nextUpdate++
	}
	for _, part := range splitByBase(updates[nextUpdate:], parts) {
		spans = append(spans, span{nextUpdate + part.start, nextUpdate + part.end})
	}
	return spans
}

// mergeSpan takes the result of a training job: values is the exact sum of the updates with the places in part,
// weighted. It is added to sum, the round's. An update that is kept separate has a job of its own (jobSpans), so
// its values become that update's own sum instead.
func mergeSpan(sum []int64, updates []clientUpdate, part span, values []int64) error {
	u := &updates[part.start]
	if !u.separate {
		return algorithm.Merge(sum, values)
	}
	u.sum = make([]int64, len(values))
	return algorithm.Merge(u.sum, values)
}

// trainSimulated has the updates of simulated clients trained by the trainers that take jobs from the bus;
// updates may have those of devices behind them. Each span of places in updates is one job, whose result is
// one exact sum of its weighted updates: merge is called with the span and that sum when it arrives. It sets
// in each update the client's loss and next state, or the reason why its training failed, with a loss of NaN.
// It returns when all jobs are answered.
func (a *Aggregator) trainSimulated(
	ctx context.Context,
	roundNumber int,
	updates []clientUpdate,
	spans []span,
	merge func(span, []int64) error,
) (err error) {
	states, err := a.publishStates(ctx, updates)
	defer func() {
		if failure := states.close(ctx); err == nil {
			err = failure
		}
	}()
	if err != nil {
		return err
	}
	trainedClients := 0
	simulated := a.devices.Split(tasksOf(updates))
	report := a.config.Observer.Trained
	if report == nil || simulated == 0 {
		report = func(int, int) {}
	}
	report(0, simulated)
	jobs := make([]job, len(spans))
	for i, jobSpan := range spans {
		members := updates[jobSpan.start:jobSpan.end]
		jobs[i] = a.trainingJob(roundNumber, jobSpan, members)
		jobs[i].message.Method = a.method(states.serverVariate, jobs[i].base)
		jobs[i].handle = func(r *bus.Result) error {
			a.noteResult(members, r)
			trainedClients += len(members)
			report(trainedClients, simulated)
			return merge(jobSpan, r.Values)
		}
	}
	a.learning.Attackers.collude(jobs)
	if err := a.queue.run(ctx, jobs); err != nil {
		return err
	}
	// A failed job has one client, whose update is at the span's start.
	for _, j := range jobs {
		if j.failure != nil {
			updates[j.start].failure = j.failure
			updates[j.start].loss = math.NaN()
		}
	}
	return nil
}

// trainingJob makes the job in which the clients of these updates train: with the local steps, learning rate, weight
// and kept state of each. The updates share one base model, and part is their span among all updates of the round.
func (a *Aggregator) trainingJob(roundNumber int, part span, updates []clientUpdate) job {
	training := a.clientJob(roundNumber, part, updates)
	// A rule that sees updates one by one has a job for each client, and the round can do without
	// a client that diverges. Other jobs may hold several clients, and their failure ends the run.
	training.mayDiverge = a.learning.Combine.PerClient()
	for i, work := range training.message.Clients {
		u := &updates[i]
		work.LocalSteps = uint32(u.task.LocalSteps)
		work.LearningRate = u.task.LearningRate
		work.Weight = u.weight
		work.VariateDigest = u.stateBefore.Bytes()
	}
	return training
}

// noteResult stores in the updates of one job what its result r has of each client: the loss, the buffers,
// and the state that the client keeps for its next task. r lists the clients in the order of the updates.
func (a *Aggregator) noteResult(updates []clientUpdate, r *bus.Result) {
	for j := range updates {
		u := &updates[j]
		u.loss = r.Clients[j].FirstStepLoss
		u.buffers.first, u.buffers.values = r.BufferOf(j)
		if a.algorithm.ClientStates != nil {
			digest := bus.DigestFrom(r.Clients[j].VariateDigest)
			u.stateAfter = algorithm.ClientState{Digest: digest, Values: r.ClientStates[j]}
		}
	}
}

// clientJob makes a job for updates that share one base model; part is their span in the round. As it is
// made, each client does one local step with learning rate 0 and weight 0, which only measures its loss. A
// caller that wants training sets the steps, the rate and the weight.
func (a *Aggregator) clientJob(roundNumber int, part span, updates []clientUpdate) job {
	base := updates[0].task.Model
	message := a.queue.newJob(bus.Train, roundNumber, a.models.versions[base].digest)
	message.Buffers = uint32(a.sentBufferCount())
	for i := range updates {
		task := &updates[i].task
		work := &bus.ClientWork{
			Task:       task.Task,
			Client:     uint64(task.Client),
			LocalSteps: 1,
			StepsDone:  uint64(task.StepsDone),
			Attacker:   a.learning.Attackers.attackerNumber(task.Client),
		}
		// A client's class may have a minibatch of its own; 0 stands for the run's.
		if batch := a.learning.Batch; batch != nil {
			work.Batch = uint32(batch(task.Client))
		}
		// A formula may give the tasks of each round a minibatch of their own. Classes then have none.
		if task.Batch > 0 {
			work.Batch = uint32(task.Batch)
		}
		if arrived := a.learning.Arrived; arrived != nil {
			first, count := arrived(task.Client, task.Start)
			work.FirstSample = uint64(first)
			work.Samples = uint64(count)
		}
		message.Clients = append(message.Clients, work)
	}
	return job{span: part, base: base, message: message}
}

// QueryLosses returns the loss of the newest model on the next minibatch of each task's client, in the
// order of the tasks. Nothing is trained. It serves selection rules that compare candidates by their
// losses. roundNumber is the round's.
func (a *Aggregator) QueryLosses(ctx context.Context, roundNumber int, tasks []round.Task) ([]float64, error) {
	updates := newUpdates(tasks)
	var jobs []job
	for _, part := range split(len(tasks), a.queue.jobCount()) {
		members := updates[part.start:part.end]
		j := a.clientJob(roundNumber, part, members)
		j.handle = func(r *bus.Result) error {
			for i := range members {
				members[i].loss = r.Clients[i].FirstStepLoss
			}
			return nil
		}
		jobs = append(jobs, j)
	}
	err := a.queue.run(ctx, jobs)
	return lossesOf(updates), err
}
