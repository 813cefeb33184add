package round

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"fedpace/coordinator/closing"
	"fedpace/coordinator/schedule"
	"fedpace/coordinator/selection"
	"fedpace/registry"
)

// sampling is how a run selects clients, and how many local steps it asks each for.
type sampling struct {
	config  *Config
	clients *clients
	// round is the round under way.
	round *RoundState

	// setup is what the selection knows of the run. Its deadline is that of the closing rule, 0 if it has none.
	setup selection.Setup
	order selection.Order

	// The order or the selection, if it has the methods of these interfaces, else nil.
	drawing   selection.SingleOrder
	following selection.Following
	limiting  selection.Limiting
	rating    selection.Rating

	// overlapLimit is the limit of tasks where rounds overlap, for the K that was asked for last.
	overlapLimit limitForK
	// taskSetup is the setup with which the selection limits the local steps of a task. Its deadline is that of the
	// task: the closing rule's or, without one, how long the round's clients are to take.
	taskSetup selection.Setup
	// chosen is the last cohort. Its memory is used again.
	chosen []int32
}

// limitForK is how long tasks of one K are to take.
type limitForK struct {
	k     int
	limit Time
}

// newSampling makes the order of a run's selection. The order is made from expected times of the
// configuration alone, so that it is the same in every run with one seed. The limits of local steps
// follow from the times that devices have really taken, so these are put into the setup when the order is made.
func newSampling(config *Config, clients *clients, r *RoundState) (s sampling, err error) {
	s = sampling{config: config, clients: clients, round: r}
	s.setup = selection.Setup{
		Seed:           config.Seed,
		Clients:        config.selectableClients(),
		Cohort:         config.Cohort,
		Deadline:       config.Closing.Deadline(),
		Samples:        clients.samples,
		Expect:         config.Expect,
		Steps:          config.firstSteps(),
		Free:           clients.available,
		AvailableShare: config.AvailableShare,
		Simulated:      config.Clients,
	}
	// Without known numbers of samples a selection must not ask for them.
	if config.Samples == nil && config.Clients > 0 {
		s.setup.Samples = nil
	}
	s.order, err = config.Select.Order(s.setup)
	if err != nil {
		return s, err
	}
	// The order is made. From here on devices' measured times may count.
	if config.Expect != nil {
		s.setup.Expect = clients.expect
	}
	s.taskSetup = s.setup
	s.drawing, _ = s.order.(selection.SingleOrder)
	s.following, _ = s.order.(selection.Following)
	s.limiting = selection.LimitingOf(config.Select)
	s.rating, _ = config.Select.(selection.Rating)
	if closing.Overlaps(config.Closing) && s.drawing == nil {
		return s, fmt.Errorf(
			"round: the order of %T draws no single clients, which rounds that overlap need",
			config.Select,
		)
	}
	return s, nil
}

// firstSteps returns a function that returns a client's number of local steps in round 1, before a
// selection limits it. The schedules are asked at most once, and only if the function is called.
func (c *Config) firstSteps() func(client int) int {
	first := sync.OnceValue(func() int {
		p := schedule.Progress{Setup: c.Setup, Round: 1, StragglerShare: math.NaN()}
		p.LearningRate = c.Eta.LearningRate(p)
		return min(max(1, c.K.LocalSteps(p)), schedule.MaxK0)
	})
	return func(client int) int {
		if c.Epochs.Batch == 0 {
			return first()
		}
		return c.stepsOf(client, first())
	}
}

// stepsOf returns the number of local steps of a client, where schedules count epochs: k is the schedule's
// K, in parts of an epoch of the client's samples.
func (c *Config) stepsOf(client, k int) int {
	return min(c.Epochs.ForClient(client).Steps(k, float64(c.Samples(client))), MaxLocalSteps)
}

// selectCohort selects the clients of a round: the first available ones in the order that the selection rule
// gives for the round, at most slots. It counts those that the selection excludes, as too slow. The result is
// valid until the next call. All clients are chosen before the first gets a task.
func (s *sampling) selectCohort(slots int) []int32 {
	s.order.Start(s.round.Round, s.clients.step.now)
	s.chosen = s.chosen[:0]
	s.round.Excluded = 0
	for len(s.chosen) < slots {
		client, ok := s.order.Next()
		if !ok {
			break
		}
		switch {
		case !s.clients.available(client):
		case s.excludes(client):
			s.round.Excluded++
		default:
			s.chosen = append(s.chosen, int32(client))
		}
	}
	return s.chosen
}

// drawClient draws one of the available clients for the task with this number, which keys the draw. ok is
// false if no client is available.
func (s *sampling) drawClient(task uint64) (client int, ok bool) {
	// eachIdle calls visit with each client that has no task.
	eachIdle := func(visit func(client int)) { s.clients.busy.Absent(s.setup.Clients, visit) }
	return selection.Draw(s.drawing, s.config.Seed, task, s.clients.available, eachIdle)
}

// setRoundDeadline sets the time within which the clients of a round are to be done, for a selection that
// gives slow clients fewer local steps so that they meet it. It does nothing with other selections, or if the
// closing rule has a deadline, which then counts. The selection derives the time from the expected times of
// these clients; devices whose time is not known are left out. Where rounds overlap, it is derived from
// those of all simulated clients, or of maxExpected that are spread evenly.
func (s *sampling) setRoundDeadline(clients []int32) {
	if s.limiting == nil || s.setup.Deadline > 0 {
		return
	}
	if closing.Overlaps(s.config.Closing) {
		s.round.Limit = s.overlappingLimit()
		return
	}
	if s.config.Devices.Count > 0 {
		hasUnknownTime := func(client int32) bool { return !s.clients.canLimit(int(client)) }
		clients = slices.DeleteFunc(slices.Clone(clients), hasUnknownTime)
	}
	s.round.Limit = s.limiting.Deadline(&s.setup, clients, s.scheduledSteps)
}

// overlappingLimit returns the time within which tasks with the round's number of local steps K are to be done,
// where rounds overlap. The selection derives it from the expected times of all simulated clients, or of
// maxExpected that are spread evenly. The result is kept in s.overlapLimit, because it depends on K alone.
func (s *sampling) overlappingLimit() Time {
	if s.overlapLimit.k != s.round.K {
		clients := spread(s.config.Clients, maxExpected)
		s.overlapLimit = limitForK{k: s.round.K, limit: s.limiting.Deadline(&s.setup, clients, s.scheduledSteps)}
	}
	return s.overlapLimit.limit
}

// spread returns at most limit of the clients from 0 to clients-1, spread evenly.
func spread(clients, limit int) []int32 {
	list := make([]int32, min(clients, limit))
	for i := range list {
		list[i] = int32(int64(i) * int64(clients) / int64(len(list)))
	}
	return list
}

// localSteps returns the number of local steps of a client's task in the round under way: that of the
// schedule, lowered to the selection's limit, and at least 1.
func (s *sampling) localSteps(client int) int {
	// A real device's number of samples is not known before it joins, so it has the steps of the round.
	steps := s.round.LocalSteps
	if _, isDevice := s.clients.device(client); !isDevice {
		steps = s.scheduledSteps(client)
	}
	if s.limiting != nil && s.clients.canLimit(client) {
		s.taskSetup.Deadline = s.taskDeadline()
		steps = max(1, s.limiting.Limit(&s.taskSetup, client, steps))
	}
	return steps
}

// taskDeadline returns how long a task may take: to the deadline of the closing rule or, without one, as long as
// the selection gives the clients of the round. 0 means any time.
func (s *sampling) taskDeadline() Time { return cmp.Or(s.setup.Deadline, s.round.Limit) }

// learningRate returns the learning rate of a client's task with this many local steps: that of the round,
// unless the selection sets one for each client (rating). A device whose time per step is not known has the
// round's (canLimit).
func (s *sampling) learningRate(client, steps int) float64 {
	if s.rating == nil || !s.clients.canLimit(client) {
		return s.round.LearningRate
	}
	s.taskSetup.Deadline = s.taskDeadline()
	return s.rating.Rate(&s.taskSetup, client, steps, s.round.LearningRate)
}

// scheduledSteps returns the number of local steps of a simulated client in the round under way, before the
// selection limits it.
func (s *sampling) scheduledSteps(client int) int {
	// Where the schedule counts epochs, the round's K is in parts of an epoch, and each client has its own steps.
	if s.config.Epochs.Batch > 0 {
		return s.config.stepsOf(client, s.round.K)
	}
	return s.round.LocalSteps
}

// excludes reports whether the selection excludes a client from the round, because it cannot do a single
// local step in time.
func (s *sampling) excludes(client int) bool {
	if s.limiting == nil || !s.clients.canLimit(client) {
		return false
	}
	return s.limiting.Limit(&s.setup, client, s.scheduledSteps(client)) == 0
}

// excludesAll reports whether the selection excludes every client, so that the round would wait for ever.
// It looks at all clients only if the round's order has met one that is excluded.
func (s *sampling) excludesAll() bool {
	if s.round.Excluded == 0 {
		return false
	}
	for client := range s.setup.Clients {
		if !s.excludes(client) {
			return false
		}
	}
	return true
}

// taskEnded passes the outcome of a task on to an order that follows what its clients do.
func (s *sampling) taskEnded(t *TaskState, o Outcome) {
	if s.following != nil && int(t.Client) < s.setup.Clients {
		s.following.Ended(int(t.Client), int(t.LocalSteps), s.clients.step.now-t.Start, o == Accepted)
	}
}

// taskLosses passes the losses of trained updates on to an order that decides by them. losses has one for
// each accepted task, in order; a missing loss, or one that is not finite, is an error.
func (s *sampling) taskLosses(all *tasks, losses []float64) error {
	if s.following == nil || !registry.NeedsOf(s.config.Select).Losses {
		return nil
	}
	reported := 0
	for _, tasks := range all.lists() {
		for i := range tasks.List {
			task := &tasks.List[i]
			if task.Status != TaskAccepted {
				continue
			}
			if reported == len(losses) || !finite(losses[reported]) {
				return fmt.Errorf(
					"round: no loss, or none that is finite, of client %d in round %d",
					task.Client,
					s.round.Round,
				)
			}
			// The selection knows nothing of devices that it does not draw.
			if int(task.Client) < s.setup.Clients {
				s.following.Trained(int(task.Client), losses[reported])
			}
			reported++
		}
	}
	if reported < len(losses) {
		return fmt.Errorf("round: %d losses of %d updates in round %d", len(losses), reported, s.round.Round)
	}
	return nil
}
