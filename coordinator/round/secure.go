package round

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"fedpace/coordinator/closing"
)

// Secure is how the updates of a run are aggregated securely (package secagg has the protocol). Of the
// protocol the machine knows which client is in which stage and how long that takes, but no keys and
// masks.
//
// A round then has five stages. All clients with a task send keys; when the last of them has, they
// send shares; when the last of them has, the task itself begins: download, local steps, masks and
// upload. After the round has closed the survivors sign their set, then reveal shares, and the round
// is over as soon as every secret that is wanted has enough shares. A client that leaves in a stage is
// noticed at once, as one that leaves its task.
//
// Where rounds overlap a client takes its local steps first and then waits. As soon as as many wait as
// close a round they are its members, and go through all stages together: they agree on masks when
// nobody can be late any more, and each update is the difference from its own base model. One such group
// is under way at a time. A real device answers its task in two parts there: that it has taken its steps, and
// then its part in the group (secure_devices.go).
type Secure struct {
	// Neighbours, Threshold, Colluders and Minimum are the terms of package secagg.
	Neighbours int
	Threshold  int
	Colluders  int
	Minimum    int
	// Limit is the longest time of the stage of keys and of that of shares; with 0 they wait for all
	// clients. A client that takes longer is late.
	Limit Time
	// Bytes are those of one member in each stage, both ways together: at keysStage, sharesStage, survivorsStage
	// and recoveryStage.
	Bytes [4]int64
	// ExtraUpload is by how many bytes a masked update is larger than a plain one.
	ExtraUpload int64
	// Connected reports whether members sign a set of survivors, which is in the order of the ring: none
	// signs one that could fall apart (secagg.Terms.CheckConnected). Nil means that they sign any.
	Connected func(survives []bool) bool
	// DeviceMinimum is the smallest number of real devices that mask their updates among each other: where rounds
	// overlap, a group has as many or none. It does not matter without devices.
	DeviceMinimum int
	// OfSite returns these terms for a site that asks this many clients, where sites add up updates: each own
	// round of a site is a secure aggregation among its clients. Its own OfSite is nil.
	OfSite func(members int) *Secure
}

// The places of the stages in Secure.Bytes.
const (
	keysStage = iota
	sharesStage
	survivorsStage
	recoveryStage
)

// quorum returns the number of survivors that must sign out of n members (secagg.Terms.Quorum).
func (c *Secure) quorum(n int) int { return (n+c.Colluders)/2 + 1 }

// Stages are how long the stages take one client: its own work and transfers, without waiting for
// others.
type Stages struct {
	Keys      Time
	Shares    Time
	Survivors Time
	Recovery  Time
}

// SecureReport is what secure aggregation did in a round.
type SecureReport struct {
	// Members is the number of clients that have finished the stage of shares, and Recovered the number
	// of those that left before they had uploaded, or did not count, and without whom the sum was
	// recovered.
	Members   int
	Recovered int
	// Unrecovered is 1 if the round's sum could not be recovered, or the round was refused, so that none
	// of its updates counts. Where sites add up, it is the number of their own rounds of which that is so, and
	// Members and Recovered are sums over own rounds.
	Unrecovered int
	// Setup is how long the stages of keys and shares took, and Recovery how long those of survivors
	// and recovery; where sites add up, in the own round that took longest.
	Setup    Time
	Recovery Time
	// Keys is the part of Setup in the stage of keys, and Survivors that of Recovery in the stage of survivors; where
	// sites add up, each in the own round in which it took longest.
	Keys      Time
	Survivors Time
	// Bytes are those that the stages and the words of 64 bits add to the round, in all.
	Bytes int64
}

// SecureMember is what the machine remembers of one client's part in secure aggregation.
type SecureMember struct {
	// Task is the number of the client's task in the round, and Stages are how long each stage takes the client.
	Task   uint64
	Stages Stages
	// Leaves is after how much time of its own work, in the stages and in its task, the client drops out; the
	// constant stays means that it does not. Time in which it waits for other members does not count.
	Leaves Time
	// HasStages says that the machine simulates the client's stages. It is false for a real device that has not
	// finished the first two, and for a client whose task has ended in one of them.
	HasStages bool
	// SentKeys, Finished and Uploaded say which stages the client has finished: that of keys, that of shares (with
	// which the set-up is finished), and the upload of an update that counts.
	SentKeys bool
	Finished bool
	Uploaded bool
	// Work is how long the task between the stages takes it, and Upload the part of it that follows the
	// first two stages where rounds overlap.
	Work   Time
	Upload Time
	// Awaited says that the member is a real device whose part in the group is not known yet.
	Awaited bool
}

// workBeforeUpload returns how long the member works before the upload of its update: its whole task, where
// rounds do not overlap.
func (x *SecureMember) workBeforeUpload() Time { return x.Work - x.Upload }

// stays is the value of Leaves of a client that does not drop out.
const stays = Time(math.MaxInt64)

// secure is the part of the machine that simulates the stages. Its members are in the order of their
// tasks' numbers, which is also that of the ring: cohorts are drawn at random.
type secure struct {
	config  *Secure
	members []SecureMember
	// recoveryTimer is the number of the timer of the end of the recovery, or noTimer.
	recoveryTimer uint64
	// ungrouped are, where rounds overlap, those whose tasks are under way in no group, in the order of their
	// tasks, and ready are the tasks of those that have taken their steps, in the order in which they did.
	ungrouped []SecureMember
	ready     []uint64
	// openTasks is the number of tasks of the group that have no outcome yet.
	openTasks int
	// masking says that the group has real devices, which mask their updates now: its stages are placed on the
	// clock when their answers are here.
	masking bool
}

// newSecure makes the machine's part for secure aggregation from a state. It is nil in a run
// without secure aggregation.
func newSecure(c *Secure, s *State) *secure {
	if c == nil {
		return nil
	}
	return &secure{
		config:        c,
		members:       s.Secure,
		recoveryTimer: s.Recovery,
		ungrouped:     s.Waiting,
		ready:         s.Ready,
		openTasks:     s.InGroup,
		masking:       s.Masking,
	}
}

// add makes the client of a task a member of the round's secure aggregation. stages are how long each stage
// of the protocol takes the client; nil for a real device that has not finished the first two stages, which
// then takes part in none.
//
// plan is that of the task. If the client will drop out, plan.Dropout says after how much of its own work, to which
// the stages count, too. That time is moved from the plan to the member (Leaves), until the simulated stages
// show whether it falls into the task or into a stage.
func (s *secure) add(task uint64, stages *Stages, plan *Plan) {
	member := SecureMember{
		Task:   task,
		Leaves: stays,
		Work:   plan.Total(),
	}
	if stages != nil {
		member.HasStages = true
		member.Stages = *stages
		if plan.Drops {
			member.Leaves = plan.Dropout
		}
		plan.Drops = false
		plan.Dropout = 0
	}
	s.members = append(s.members, member)
}

// joinSecure makes the client of task t, whose plan is in event e, a member of the round's secure
// aggregation or, where rounds overlap, one of those that do their local steps before they join a group. A
// device whose steps have come to nothing joins none.
func (m *Machine) joinSecure(t *TaskState, e *Event) {
	switch {
	case !m.roundsOverlap():
		m.secure.add(t.Task, e.Stages, &e.Plan)
	// The upload of a device is part of its second answer.
	case m.answersInTwoParts(t):
		e.Plan.Upload = 0
		if e.Kind == Planned {
			m.secure.addUngrouped(t.Task, nil, &e.Plan)
		}
	default:
		m.secure.addUngrouped(t.Task, e.Stages, &e.Plan)
	}
}

// find returns the member of the round that has the task with this number, nil if there is none.
// The members are sorted by task.
func (s *secure) find(task uint64) *SecureMember {
	i, ok := slices.BinarySearchFunc(s.members, task, byTask)
	if !ok {
		return nil
	}
	return &s.members[i]
}

// byTask compares the number of a member's task with another.
func byTask(x SecureMember, task uint64) int { return cmp.Compare(x.Task, task) }

// uploaded notes that the masked update of the task with this number has arrived and counts.
func (s *secure) uploaded(task uint64) {
	if x := s.find(task); x != nil {
		x.Uploaded = true
	}
}

// secureStage is one stage of secure aggregation, in which each member sends a message.
type secureStage struct {
	// start is when the stage begins, and limit how long it may last, 0 for any time.
	start Time
	limit Time
	// takesPart reports whether the member with this index is in the stage.
	takesPart func(i int) bool
	// duration returns how long the stage takes a member, and workBefore how much work of its own the
	// member has done before it, in its task and in earlier stages.
	duration   func(*SecureMember) Time
	workBefore func(*SecureMember) Time
	// done is called for each member of the stage, by its index, with the time at which it is done or,
	// if leaves, drops out. That may lie after the stage's end.
	done func(i int, at Time, leaves bool)
}

// simulate simulates a stage, and returns when it ends: with the last member's message, but no later than
// its limit allows.
func (s *secure) simulate(stage *secureStage) (end Time) {
	end = stage.start
	for i := range s.members {
		if !stage.takesPart(i) {
			continue
		}
		member := &s.members[i]
		took := stage.duration(member)
		// Leaves is measured in the member's own work, so what it did before is subtracted.
		untilLeave := member.Leaves - stage.workBefore(member)
		leaves := untilLeave < took
		if leaves {
			took = max(0, untilLeave)
		}
		at := stage.start + took
		stage.done(i, at, leaves)
		end = max(end, at)
	}
	if stage.limit > 0 {
		end = min(end, stage.start+stage.limit)
	}
	return end
}

// setUpSecure simulates the stages of keys and shares for the round's tasks, which all have plans and start
// together. The local work of a task begins when both stages are over, and the time until then becomes part
// of its download. Tasks of members that leave or are too late in a stage end there. Where sites add up, the
// members of each site go through the stages among themselves.
func (m *Machine) setUpSecure() {
	slices.SortFunc(m.secure.members, func(a, b SecureMember) int { return cmp.Compare(a.Task, b.Task) })
	if m.config.sitesAddUp() {
		m.setUpSites()
		return
	}
	m.exchangeSecrets(m.round.Start, nothingDone)
}

// nothingDone is how much work of its own a member has done before the stages of keys and shares where its task
// begins with them.
func nothingDone(*SecureMember) Time { return 0 }

// exchangeSecrets simulates the first two stages of secure aggregation, from the time start on: members send
// their keys, and then shares of their secrets to their neighbours. workBefore returns how much work of its own
// a member has done before these stages. A member's task goes on when the stages are over. It ends in them if the
// member leaves, takes longer than the limit, or has too few neighbours, and if the round is refused because too few
// members are left.
func (m *Machine) exchangeSecrets(start Time, workBefore func(*SecureMember) Time) {
	secure := m.secure
	// ends holds for each member when it has done the newest stage. noteEnd notes this, or ends the task of a
	// member that leaves in the stage.
	ends := make([]Time, len(secure.members))
	noteEnd := func(i int, at Time, leaves bool) {
		member := &secure.members[i]
		if leaves {
			m.endInSetUp(member.Task, at, Dropped)
			member.HasStages = false
			return
		}
		ends[i] = at
	}
	takesPart := func(i int) bool { return secure.members[i].HasStages }
	keysEnd := secure.simulate(&secureStage{
		start:      start,
		limit:      secure.config.Limit,
		takesPart:  takesPart,
		duration:   func(member *SecureMember) Time { return member.Stages.Keys },
		workBefore: workBefore,
		done:       noteEnd,
	})
	count := m.endLate(ends, keysEnd, func(member *SecureMember) { member.SentKeys = true })
	m.round.Secure.Keys = max(m.round.Secure.Keys, keysEnd-start)
	m.round.Secure.Bytes += int64(count) * secure.config.Bytes[keysStage]
	// With too few members the round cannot hide single updates, or a member has too few others to recover
	// its secrets, so the round is refused.
	neighbours := count - 1
	if count < secure.config.Minimum || neighbours < secure.config.Threshold {
		m.refuseSecure(keysEnd)
		m.noteSetup(keysEnd - start)
		return
	}
	sharesEnd := secure.simulate(&secureStage{
		start:      keysEnd,
		limit:      secure.config.Limit,
		takesPart:  takesPart,
		duration:   func(member *SecureMember) Time { return member.Stages.Shares },
		workBefore: func(member *SecureMember) Time { return workBefore(member) + member.Stages.Keys },
		done:       noteEnd,
	})
	count = m.endLate(ends, sharesEnd, func(member *SecureMember) { member.Finished = true })
	m.round.Secure.Bytes += int64(count) * secure.config.Bytes[sharesStage]
	m.noteSetup(sharesEnd - start)
	count = m.dropLonely(sharesEnd)
	m.round.Secure.Members += count
	if count < secure.config.Minimum {
		m.refuseSecure(sharesEnd)
		return
	}
	m.startWork(start, sharesEnd)
}

// noteSetup notes in the round's report how long the stages of keys and shares took: of several sites the longest.
func (m *Machine) noteSetup(took Time) { m.round.Secure.Setup = max(m.round.Secure.Setup, took) }

// endLate ends the tasks of members that were too late for a stage: those that finished it after end, when
// it was over. ends[i] is when the member with index i has finished it, if it took part (HasStages). It calls
// finish for each other member of the stage, and returns how many these are.
func (m *Machine) endLate(ends []Time, end Time, finish func(*SecureMember)) (count int) {
	s := m.secure
	for i := range s.members {
		member := &s.members[i]
		switch {
		// This member took no part in the stage.
		case !member.HasStages:
		case ends[i] > end:
			m.endInSetUp(member.Task, end, Late)
			member.HasStages = false
		default:
			finish(member)
			count++
		}
	}
	return count
}

// dropLonely ends the tasks of members that have finished the stage of shares but have fewer neighbours
// that did than the threshold: their secrets could not be recovered. It returns how many members are left.
func (m *Machine) dropLonely(end Time) (count int) {
	secure := m.secure
	// A member that is dropped may leave a neighbour with too few, so the search is repeated until no
	// member is dropped.
	for changed := true; changed; {
		changed = false
		count = 0
		// finishedNeighbours counts a member's neighbours that have finished the stage of shares.
		finishedNeighbours := secure.inRing(func(i int) bool { return secure.members[i].Finished })
		for i := range secure.members {
			member := &secure.members[i]
			switch {
			case !member.Finished:
			case finishedNeighbours(i) < secure.config.Threshold:
				member.Finished = false
				member.HasStages = false
				m.endInSetUp(member.Task, end, Cancelled)
				changed = true
			default:
				count++
			}
		}
	}
	return count
}

// inRing returns a function that counts, for the member with an index in s.members, its neighbours in the
// ring whose index matches. The ring has the members that sent keys, in the order of their tasks, and the
// last is followed by the first. A member's neighbours are the Neighbours nearest to it, half on either side.
// inRing takes time in proportion to the members, and each count takes constant time.
func (s *secure) inRing(matches func(i int) bool) func(i int) int {
	// place holds for each member its place in the ring, from 0.
	place := make([]int, len(s.members))
	// sums[k] is how many of the first k members of the ring match.
	sums := []int{0}
	for i := range s.members {
		place[i] = len(sums) - 1
		if !s.members[i].SentKeys {
			continue
		}
		sum := sums[len(sums)-1]
		if matches(i) {
			sum++
		}
		sums = append(sums, sum)
	}
	ringSize := len(sums) - 1
	perSide := (s.config.Neighbours + 1) / 2
	// between counts the members that match from one place in the ring to below another.
	between := func(from, to int) int { return sums[to] - sums[from] }
	return func(i int) int {
		itself := 0
		if matches(i) {
			itself = 1
		}
		// In so small a ring all other members are neighbours.
		if 2*perSide >= ringSize-1 {
			return between(0, ringSize) - itself
		}
		from := place[i] - perSide
		to := place[i] + perSide + 1
		// The neighbours may reach over the end of the list, where the ring closes.
		switch {
		case from < 0:
			return between(0, to) + between(from+ringSize, ringSize) - itself
		case to > ringSize:
			return between(from, ringSize) + between(0, to-ringSize) - itself
		}
		return between(from, to) - itself
	}
}

// endInSetUp makes a task end at the time at, within the stages of keys and shares, with outcome o: it
// changes the task's plan to last until then. A client that drops out (Dropped) does so by the plan; other
// outcomes are forced on the task.
func (m *Machine) endInSetUp(task uint64, at Time, o Outcome) {
	t := m.tasks.find(task)
	// Where rounds overlap the steps have been taken, and what follows them counts as the upload.
	if m.roundsOverlap() {
		t.Upload = at - (t.Start + t.Download + t.Compute)
	} else {
		t.Download = at - t.Start
		t.Compute = 0
		t.Upload = 0
	}
	if o == Dropped {
		t.Forced = Accepted
		t.Drops = true
		t.Dropout = at - t.Start
		return
	}
	t.Forced = o
	t.Drops = false
	t.Dropout = 0
}

// refuseSecure refuses the round at the time at, because too few clients are left for a sum that hides each
// of them: all tasks that are still in the stages end as cancelled.
func (m *Machine) refuseSecure(at Time) {
	s := m.secure
	m.noteUnrecovered()
	for i := range s.members {
		member := &s.members[i]
		if member.HasStages {
			m.endInSetUp(member.Task, at, Cancelled)
			member.HasStages = false
			member.Finished = false
		}
	}
}

// noteUnrecovered notes in the round's report that a sum could not be recovered, or was refused. Where sites add up, it
// counts the sites' own rounds of which that is so. Otherwise a round has one sum, and it sets 1.
func (m *Machine) noteUnrecovered() {
	r := &m.round.Secure
	if m.config.sitesAddUp() {
		r.Unrecovered++
		return
	}
	r.Unrecovered = 1
}

// startWork continues the task of each member that has finished the stages of keys and shares. These stages
// began at the time start and are over at end, for all members alike. If a member's dropout falls into the
// work that is left, its task is set to end by that dropout.
func (m *Machine) startWork(start, end Time) {
	s := m.secure
	for i := range s.members {
		member := &s.members[i]
		if !member.Finished {
			continue
		}
		m.round.Secure.Bytes += s.config.ExtraUpload
		task := m.tasks.find(member.Task)
		if m.roundsOverlap() {
			m.startUpload(task, member, end)
			continue
		}
		// The time of the stages counts as part of the download.
		inStages := end - start
		task.Download += inStages
		// Leaves is counted from the beginning of the stages, so the member's own work in them is subtracted.
		untilLeave := member.Leaves - (member.Stages.Keys + member.Stages.Shares)
		if member.Leaves != stays && untilLeave < member.Work {
			task.Drops = true
			task.Dropout = inStages + untilLeave
		}
	}
}

// startUpload sets a member's upload to begin at the time from, when the stages of keys and shares of its group
// are over. It is for rounds that overlap, in which these stages come after the local steps. The time since the
// local steps counts as part of the upload. If the member drops out during the upload, its task is set to end then.
func (m *Machine) startUpload(t *TaskState, member *SecureMember, from Time) {
	stepsDone := t.Start + t.Download + t.Compute
	t.Upload = from + member.Upload - stepsDone
	// Leaves is how much work of its own the member does before it drops out: its local steps, the stages and
	// then the upload, without the time in which it waits for others.
	workBefore := member.workBeforeUpload() + member.Stages.Keys + member.Stages.Shares
	untilLeave := member.Leaves - workBefore
	if member.Leaves != stays && untilLeave < member.Upload {
		t.Drops = true
		t.Dropout = from + untilLeave - t.Start
	}
}

// addUngrouped adds a client that does its local steps and then waits for a group, where rounds overlap. plan
// is cut to the download and the local steps, after which the task's timer falls due, and keeps its dropout
// only if that falls into them. The member keeps the upload and the dropout of the whole plan, for the time when
// its group exchanges secrets. stages are nil for a real device, which has done none of them. The list stays sorted
// by task.
func (s *secure) addUngrouped(task uint64, stages *Stages, plan *Plan) {
	member := SecureMember{
		Task:   task,
		Leaves: stays,
		Work:   plan.Total(),
		Upload: plan.Upload,
	}
	if stages != nil {
		member.Stages = *stages
		member.HasStages = true
	}
	if plan.Drops {
		member.Leaves = plan.Dropout
	}
	// From here on Total is the time of the download and the local steps.
	plan.Upload = 0
	plan.Drops = plan.Drops && plan.Dropout < plan.Total()
	if !plan.Drops {
		plan.Dropout = 0
	}
	i, _ := slices.BinarySearchFunc(s.ungrouped, task, byTask)
	s.ungrouped = slices.Insert(s.ungrouped, i, member)
}

// takeUngrouped removes the member with this task from those that belong to no group, and returns it. ok is
// false if there is none.
func (s *secure) takeUngrouped(task uint64) (x SecureMember, ok bool) {
	i, ok := slices.BinarySearchFunc(s.ungrouped, task, byTask)
	if !ok {
		return x, false
	}
	x = s.ungrouped[i]
	s.ungrouped = slices.Delete(s.ungrouped, i, i+1)
	return x, true
}

// waitsForGroup handles the timer of a task whose client has done its local steps and has no group yet: it adds
// the task to the ready ones, which wait for a group, and returns true. It returns false for a task that has a
// group, whose timer ends its upload, for one whose client drops out, which then joins no group, and unless rounds
// overlap with secure aggregation.
func (m *Machine) waitsForGroup(task *TaskState, drops bool) bool {
	secure := m.secure
	if secure == nil || !m.roundsOverlap() {
		return false
	}
	if _, hasNoGroup := slices.BinarySearchFunc(secure.ungrouped, task.Task, byTask); !hasNoGroup {
		return false
	}
	// A client that drops out during its local steps joins no group, nor does a device that was lost since.
	if drops || task.Forced != Accepted {
		secure.takeUngrouped(task.Task)
		return false
	}
	secure.ready = append(secure.ready, task.Task)
	return true
}

// formGroup makes ready clients the members of the round's group, in the order in which they became ready, as
// soon as they are as many as close a round and no group is under way. They go through the stages of keys and
// shares from now on, and their tasks end with their masked uploads. Before that, ready tasks whose base model
// has become too old end as late. It does nothing unless rounds overlap with secure aggregation.
func (m *Machine) formGroup() error {
	secure := m.secure
	if secure == nil || !m.roundsOverlap() || len(secure.members) > 0 {
		return nil
	}
	m.endStaleReady()
	chosen := m.chooseGroup()
	if len(chosen) == 0 {
		return nil
	}
	// Members are in the order of their tasks.
	slices.Sort(chosen)
	inGroup := func(task uint64) bool {
		_, found := slices.BinarySearch(chosen, task)
		return found
	}
	secure.ready = slices.DeleteFunc(slices.Clone(secure.ready), inGroup)
	for _, task := range chosen {
		x, _ := secure.takeUngrouped(task)
		secure.members = append(secure.members, x)
	}
	secure.openTasks = len(chosen)
	if m.askToMask() {
		return nil
	}
	return m.startGroup()
}

// startGroup has the members of the group go through the stages of keys and shares from now on, and places the ends of
// their tasks, which are those of their uploads, on the clock.
func (m *Machine) startGroup() error {
	// They have taken their local steps already.
	m.exchangeSecrets(m.now, (*SecureMember).workBeforeUpload)
	// The timers of their tasks fell due with the local steps, and are set anew for the uploads.
	for i := range m.secure.members {
		if err := m.placeTask(m.tasks.find(m.secure.members[i].Task)); err != nil {
			return err
		}
	}
	return nil
}

// endStaleReady ends the tasks of clients that have done their local steps and wait for a group, if their update
// cannot count any more: as late if their base model has meanwhile become too old, and as lost if they are devices
// that have left. The time that they have waited counts as their upload.
func (m *Machine) endStaleReady() {
	secure := m.secure
	for _, task := range slices.Clone(secure.ready) {
		t := m.tasks.find(task)
		outcome := t.Forced
		if m.isStale(t.Model) {
			outcome = Late
		}
		// Forced is Accepted unless an event has settled another outcome before.
		if outcome == Accepted {
			continue
		}
		secure.ready = slices.DeleteFunc(secure.ready, func(other uint64) bool { return other == task })
		secure.takeUngrouped(task)
		t.Timer = noTimer
		t.Upload = m.now - (t.Start + t.Download + t.Compute)
		m.setOutcome(t, outcome)
	}
}

// groupSize returns the smallest number of updates with which the closing rule closes a round, or 0 if that is more
// than the number of clients that wait. A rule that closes with some number also closes with more, so the number can
// be searched by halves.
func (m *Machine) groupSize(waiting int) int {
	n := sort.Search(waiting+1, func(n int) bool {
		return n > 0 && m.overlapping.Close(closing.Standing{Cohort: m.config.Cohort, Accepted: n})
	})
	if n > waiting {
		return 0
	}
	return n
}

// groupEnds counts the end of a task that belongs to the group under way, and reports whether it was the
// group's last one: the round then closes. It is false for other tasks, and unless rounds overlap with
// secure aggregation.
func (m *Machine) groupEnds(task uint64) bool {
	s := m.secure
	if s == nil || !m.roundsOverlap() || s.find(task) == nil {
		return false
	}
	s.openTasks--
	return s.openTasks == 0
}

// endSecure forgets all members at the end of the run. The timers of ready tasks have fallen due already,
// so they must not be cancelled.
func (m *Machine) endSecure() {
	s := m.secure
	for _, task := range s.ready {
		m.tasks.find(task).Timer = noTimer
	}
	s.members = nil
	s.ungrouped = nil
	s.ready = nil
	s.openTasks = 0
}

// beginRecovery simulates the recovery of a round that has closed, and sets the timer for its end.
func (m *Machine) beginRecovery() {
	end, _ := m.simulateRecovery()
	m.secure.recoveryTimer = m.setTimer(Timer{At: end, Priority: priorityTask, Kind: RecoveryEnds})
}

// simulateRecovery simulates the last two stages of secure aggregation, from now on: the members that have uploaded
// (survivors) sign the set of survivors, and then reveal the shares from which the masks of all are recovered. It
// returns when they end, and whether the sum cannot be recovered, since too few members have uploaded, signed or
// revealed shares. It notes both in the round's report.
func (m *Machine) simulateRecovery() (end Time, failed bool) {
	secure := m.secure
	// signed says for each member, by its index, whether it has signed the set of survivors.
	signed := make([]bool, len(secure.members))
	signers := 0
	sign := func(i int, _ Time, leaves bool) {
		if !leaves {
			signed[i] = true
			signers++
		}
	}
	signedAt := secure.simulate(&secureStage{
		start:      m.now,
		limit:      0,
		takesPart:  func(i int) bool { return secure.members[i].Uploaded },
		duration:   func(x *SecureMember) Time { return x.Stages.Survivors },
		workBefore: func(x *SecureMember) Time { return x.Stages.Keys + x.Stages.Shares + x.Work },
		done:       sign,
	})
	members := secure.countWhere(func(x *SecureMember) bool { return x.SentKeys })
	uploaded := secure.countWhere(func(x *SecureMember) bool { return x.Uploaded })
	end = signedAt
	// Members reveal shares only once enough of them have signed one set of survivors.
	hasQuorum := signers >= secure.config.quorum(members)
	failed = uploaded < secure.config.Minimum || !hasQuorum || !secure.isConnected()
	if !failed {
		end, failed = secure.recoverAll(signedAt, signed)
	}
	r := &m.round.Secure
	// Of several sites the longest recovery counts.
	r.Recovery = max(r.Recovery, end-m.now)
	r.Survivors = max(r.Survivors, signedAt-m.now)
	// Those that have uploaded sign, and those that have signed reveal shares.
	r.Bytes += int64(uploaded) * secure.config.Bytes[survivorsStage]
	r.Bytes += int64(signers) * secure.config.Bytes[recoveryStage]
	if failed {
		m.noteUnrecovered()
		return end, true
	}
	r.Recovered += secure.countWhere(func(x *SecureMember) bool { return x.Finished && !x.Uploaded })
	return end, false
}

// isConnected reports whether the set of members that have uploaded is connected enough that members would
// sign it. The ring has the members that sent keys, in the order of their tasks.
func (s *secure) isConnected() bool {
	if s.config.Connected == nil {
		return true
	}
	var survives []bool
	for i := range s.members {
		if s.members[i].SentKeys {
			survives = append(survives, s.members[i].Uploaded)
		}
	}
	return s.config.Connected(survives)
}

// countWhere returns for how many members of the round matches is true.
func (s *secure) countWhere(matches func(*SecureMember) bool) (n int) {
	for i := range s.members {
		if matches(&s.members[i]) {
			n++
		}
	}
	return n
}

// recoverAll simulates the stage of recovery, and returns when the coordinator can recover all masks: when
// each secret that it needs has Threshold shares. Neighbours hold the shares of a member's secret, and those
// that signed (by their index) reveal them from the time from on. Needed are the secrets of members that have
// uploaded, and of those that have finished the stage of shares but not uploaded, if a neighbour has uploaded:
// its update then has a mask in common with them. If the shares do not suffice, failed is true, and end is
// when the last of the members that signed has answered or left.
func (s *secure) recoverAll(from Time, signed []bool) (end Time, failed bool) {
	answers, end := s.answersFrom(from, signed)
	// The search is among the times at which a member answers.
	times := slices.Sorted(slices.Values(answers))
	answering, _ := slices.BinarySearch(times, neverAnswers)
	times = times[:answering]
	uploadedNeighbours := s.inRing(func(i int) bool { return s.members[i].Uploaded })
	suffices := func(at Time) bool {
		revealedShares := s.inRing(func(i int) bool { return answers[i] <= at })
		for i := range s.members {
			member := &s.members[i]
			isNeeded := member.Uploaded || member.Finished && uploadedNeighbours(i) > 0
			if isNeeded && revealedShares(i) < s.config.Threshold {
				return false
			}
		}
		return true
	}
	// More time never takes away a revealed share, so the first time that suffices can be searched.
	i := sort.Search(len(times), func(i int) bool { return suffices(times[i]) })
	if i == len(times) {
		return end, true
	}
	return times[i], false
}

// neverAnswers stands for the time at which a member reveals its shares if it does not.
const neverAnswers = Time(math.MaxInt64)

// answersFrom returns for each member when it reveals its shares in the stage of recovery, which begins at the time
// from. Those that have not signed, or leave before they answer, reveal nothing (neverAnswers). end is when the last
// of the members that signed has answered or left.
func (s *secure) answersFrom(from Time, signed []bool) (answers []Time, end Time) {
	answers = make([]Time, len(s.members))
	end = from
	for i := range s.members {
		member := &s.members[i]
		answers[i] = neverAnswers
		if !signed[i] {
			continue
		}
		workBefore := member.Stages.Keys + member.Stages.Shares + member.Work + member.Stages.Survivors
		untilLeave := member.Leaves - workBefore
		if member.Leaves != stays && untilLeave < member.Stages.Recovery {
			end = max(end, from+untilLeave)
			continue
		}
		answers[i] = from + member.Stages.Recovery
		end = max(end, answers[i])
	}
	return answers, end
}

// recoveryEnds handles timer t, the end of a round's recovery, and completes the round. If the sum could
// not be recovered, none of its updates counts.
func (m *Machine) recoveryEnds(t Timer) error {
	if m.config.sitesAddUp() {
		return m.siteRecoveryEnds(t)
	}
	if err := clearTimer(&m.secure.recoveryTimer, t); err != nil {
		return err
	}
	if m.round.Secure.Unrecovered > 0 {
		m.revokeAll()
	}
	return m.completeRound()
}

// revokeAll revokes the acceptance of all updates of the round, because secure aggregation could
// not recover their sum. Their tasks count as refused.
func (m *Machine) revokeAll() {
	for _, tasks := range m.tasks.lists() {
		for i := range tasks.List {
			t := &tasks.List[i]
			if t.Status == TaskAccepted {
				m.revokeAcceptance(t)
			}
		}
	}
}

// sumUnrecovered handles the driver's event that the sum of a round with real devices could not be
// recovered: none of its updates counts, and the model stays as it is. It is ignored unless the machine
// waits for the training of a round with secure aggregation.
func (m *Machine) sumUnrecovered() error {
	if m.phase != Training || m.secure == nil {
		return nil
	}
	m.round.Secure.Unrecovered = 1
	m.round.Secure.Recovered = 0
	m.revokeAll()
	return m.evaluateIfDue()
}
