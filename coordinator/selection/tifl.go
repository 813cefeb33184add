package selection

import (
	"cmp"
	"fmt"
	"slices"

	"fedpace/internal/keyed"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register(
		"tifl",
		"one tier of equally fast clients, more often those with high losses",
		Tifl{},
	)
}

// Tifl asks clients of about the same speed together, so that no round waits for a
// much slower one (TiFL: Chai et al. 2020). Clients are sorted by their response
// time into tiers of equal size. A round draws a tier that has credits left, pays
// one of them, and draws its cohort uniformly among the tier's clients. When none
// has credits left all get theirs again.
//
// At first tiers are equally probable. After every Interval rounds, if the tier that
// was drawn last is no better than Interval rounds before, the worst of n tiers gets
// the probability n/(1+...+n), the next one (n-1)/(1+...+n), and so on. The paper
// compares the accuracies that the model has on the data of each tier. Here a tier
// is as good as the mean of its clients' newest training losses is low, each at the
// first local step of the client's last accepted update; a tier without any comes
// first.
//
// A client's response time is its expected time for the local steps of round 1 as
// long as no update of it was accepted. Then it is that times the mean of what its
// tasks took in proportion to what was expected of them, so that a K that decays
// does not make a client count as fast. Tiers are made again after every Interval rounds.
//
// If a tier has fewer free clients than the cohort, the next one that is drawn gives
// the others, and pays nothing.
type Tifl struct {
	Tiers    int `key:"tiers" default:"5" range:"[1,1000]" help:"tiers"`
	Interval int `key:"interval" default:"20" range:"[1,1000000]" unit:"rounds" help:"I, rounds between new probabilities and tiers"`
	Credits  int `key:"credits" is:"null" range:"[1,1000000000]" unit:"rounds" help:"maximum rounds of a tier; null: any number"`
}

// Order returns the order of a run and sorts the clients into tiers by the times that they are
// expected to take. There are no more tiers than clients.
func (t Tifl) Order(s Setup) (Order, error) {
	t.Tiers = min(t.Tiers, s.Clients)
	o := &tiered{
		Tifl:       t,
		setup:      s,
		expected:   expectedTimes(&s),
		tierMemory: tierMemory{Clients: make([]tieredClient, s.Clients), Groups: make([]tier, t.Tiers)},
	}
	for i := range o.Groups {
		o.Groups[i].Remaining = int64(t.Credits)
		o.Groups[i].Weight = 1
	}
	o.assignTiers()
	return o, nil
}

// Needs says what the rule must be given: rounds that do not overlap, the clients' expected times, and
// their losses.
func (Tifl) Needs() Needs { return Needs{Rounds: true, Times: true, Losses: true} }

// Validate returns an error if there are more tiers than clients.
func (t Tifl) Validate(_, clients int) error {
	return atMost("tiers", t.Tiers, clients)
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (t Tifl) String() string {
	return fmt.Sprintf("from one of %d tiers of equally fast clients", t.Tiers)
}

// tierMemory is what is remembered between two steps.
type tierMemory struct {
	Clients []tieredClient
	Groups  []tier
	// Current is the tier that was drawn last.
	Current int
	// Before says that each tier's Loss, of Interval rounds before, has been set: it is false until Interval rounds
	// have closed.
	Before bool
}

// tieredClient is what is remembered of one client.
type tieredClient struct {
	// Tier is the index of the client's tier in Groups; the first tier is that of the fastest clients.
	Tier int32
	// Tasks is the number of accepted tasks, and Ratio the sum over these of the time taken in
	// proportion to the one expected.
	Tasks int32
	Ratio float64
	// Loss is the newest. HasLoss says that there is one.
	Loss    float64
	HasLoss bool
}

// tier is what is remembered of one tier.
type tier struct {
	// Remaining is the number of the tier's credits that are left.
	Remaining int64
	// Weight is the tier's weight in a draw of tiers.
	Weight int64
	// Loss is the mean of the clients' newest losses Interval rounds before. LossCount is 1 if there
	// was one, else 0, so that tiers without a loss are sorted before the others.
	Loss      float64
	LossCount int

	// members are the clients of the tier, in ascending order.
	members []int32
}

// tiered is the order of a round of [Tifl].
type tiered struct {
	Tifl
	setup Setup
	// expected holds for each client how long its local steps of round 1 are expected to take.
	expected []Time

	tierMemory
	round uint64
	// remainingTiers are the tiers of this round's order whose clients are not in queue yet.
	remainingTiers []int
	// queue are the clients of the current tier that Next has not returned yet.
	queue []int32
	// draws is the number of clients drawn in this round, which is part of the key of the next draw.
	draws uint64
}

// assignTiers divides the clients into tiers of equal size, the fastest in tier 0. A client's time is its
// expected time for the local steps of round 1, times the mean ratio of the times of its accepted tasks to
// their expected times.
func (o *tiered) assignTiers() {
	fastestFirst := make([]int32, len(o.Clients))
	times := make([]float64, len(o.Clients))
	for number := range o.Clients {
		client := &o.Clients[number]
		fastestFirst[number] = int32(number)
		times[number] = float64(o.expected[number])
		if client.Tasks > 0 {
			// Ratio is the sum of the ratios of the client's accepted tasks.
			times[number] *= client.Ratio / float64(client.Tasks)
		}
	}
	slices.SortFunc(fastestFirst, func(a, b int32) int {
		return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b))
	})
	for place, client := range fastestFirst {
		o.Clients[client].Tier = int32(place * len(o.Groups) / len(fastestFirst))
	}
	o.listMembers()
}

// listMembers makes the lists of the tiers' members, in the order of their numbers, from the tier that each
// client is in.
func (o *tiered) listMembers() {
	for i := range o.Groups {
		o.Groups[i].members = o.Groups[i].members[:0]
	}
	for client := range o.Clients {
		t := &o.Groups[o.Clients[client].Tier]
		t.members = append(t.members, int32(client))
	}
}

// Start draws the order of the tiers in a round: those with credits by their weights, without replacement,
// then those without, by number. The first tier with a free client becomes the current one, which pays for
// the round, and the tiers before it are left out.
func (o *tiered) Start(round int, _ Time) {
	o.round = uint64(round)
	o.draws = 0
	o.queue = nil
	o.remainingTiers = o.remainingTiers[:0]
	var eligible, spent []int
	for number := range o.Groups {
		hasNoCredit := o.Credits > 0 && o.Groups[number].Remaining == 0
		if hasNoCredit {
			spent = append(spent, number)
		} else {
			eligible = append(eligible, number)
		}
	}
	o.drawTiers(eligible)
	o.remainingTiers = append(o.remainingTiers, spent...)
	isFree := func(client int32) bool { return o.setup.Free(int(client)) }
	hasFree := func(tier int) bool { return slices.ContainsFunc(o.Groups[tier].members, isFree) }
	firstWithFree := slices.IndexFunc(o.remainingTiers, hasFree)
	// If no client at all is free, nothing is left out.
	o.remainingTiers = o.remainingTiers[max(firstWithFree, 0):]
	o.Current = o.remainingTiers[0]
}

// drawTiers appends these tiers, given by their numbers, to o.remainingTiers in a random order: each draw
// takes one of those that are left, with a probability in proportion to its weight. It changes the list.
func (o *tiered) drawTiers(eligible []int) {
	totalWeight := uint64(0)
	for _, number := range eligible {
		totalWeight += uint64(o.Groups[number].Weight)
	}
	for len(eligible) > 0 {
		hash := keyed.Hash(o.setup.Seed, keyed.Tier, o.round, uint64(len(o.remainingTiers)))
		// The tiers' weights lie side by side, and the draw falls into the part of one of them.
		position := keyed.Below(hash, totalWeight)
		place := 0
		weight := uint64(o.Groups[eligible[place]].Weight)
		for position >= weight {
			position -= weight
			place++
			weight = uint64(o.Groups[eligible[place]].Weight)
		}
		totalWeight -= weight
		o.remainingTiers = append(o.remainingTiers, eligible[place])
		eligible = slices.Delete(eligible, place, place+1)
	}
}

// Next draws a client uniformly from those of the current tier that are left. If none is, it takes the
// next tier of the round's order. ok is false after the last client of the last tier.
func (o *tiered) Next() (client int, ok bool) {
	for len(o.queue) == 0 {
		if len(o.remainingTiers) == 0 {
			return 0, false
		}
		o.queue = slices.Clone(o.Groups[o.remainingTiers[0]].members)
		o.remainingTiers = o.remainingTiers[1:]
	}
	place := keyed.Below(keyed.Hash(o.setup.Seed, keyed.Cohort, o.round, o.draws), uint64(len(o.queue)))
	o.draws++
	chosen := o.queue[place]
	last := len(o.queue) - 1
	o.queue[place] = o.queue[last]
	o.queue = o.queue[:last]
	return int(chosen), true
}

// Ended adds to what is known of a client's speed: how the time that its task took compares with
// what was expected of that many local steps. Only accepted updates count.
func (o *tiered) Ended(client, steps int, took Time, accepted bool) {
	if expected := o.setup.Expect(client, steps); accepted && expected > 0 {
		c := &o.Clients[client]
		c.Ratio += float64(took) / float64(expected)
		c.Tasks++
	}
}

// Trained remembers the client's newest loss.
func (o *tiered) Trained(client int, loss float64) {
	o.Clients[client].Loss = loss
	o.Clients[client].HasLoss = true
}

// Closed is called after each round. It takes a credit from the tier of the round and, after every Interval rounds,
// divides the clients into tiers again. Before that it adapts the probabilities of the tiers, if the loss of the tier
// that was drawn last is not lower than it was Interval rounds before.
func (o *tiered) Closed(round int, _ float64) {
	if o.Credits > 0 {
		o.spendCredit()
	}
	if round%o.Interval != 0 {
		return
	}
	losses := o.meanLosses()
	if o.Before && !o.isBetter(losses[o.Current]) {
		o.setWeights(losses)
	}
	o.assignTiers()
	// The next adaptation compares the tiers with their losses of now.
	for i, t := range o.meanLosses() {
		o.Groups[i].Loss = t.Loss
		o.Groups[i].LossCount = t.LossCount
	}
	o.Before = true
}

// isBetter reports whether now, the loss of the tier that was drawn last, is lower than that tier's loss
// Interval rounds before. It is false if one of the two is not known.
func (o *tiered) isBetter(now tier) bool {
	before := &o.Groups[o.Current]
	areKnown := before.LossCount > 0 && now.LossCount > 0
	return areKnown && now.Loss < before.Loss
}

// spendCredit takes a credit from the tier of the round, if it has one left. When no tier has any left, all
// get the number of credits with which they began.
func (o *tiered) spendCredit() {
	current := &o.Groups[o.Current]
	if current.Remaining > 0 {
		current.Remaining--
	}
	hasCredits := func(t tier) bool { return t.Remaining > 0 }
	if slices.ContainsFunc(o.Groups, hasCredits) {
		return
	}
	for i := range o.Groups {
		o.Groups[i].Remaining = int64(o.Credits)
	}
}

// meanLosses returns for each tier, in the fields Loss and LossCount alone, the mean of its members' newest
// losses. A tier of which no member has a loss has the count 0.
func (o *tiered) meanLosses() []tier {
	list := make([]tier, len(o.Groups))
	for i := range o.Groups {
		n := 0
		for _, client := range o.Groups[i].members {
			if c := &o.Clients[client]; c.HasLoss {
				list[i].Loss += c.Loss
				n++
			}
		}
		if n > 0 {
			list[i].Loss /= float64(n)
			list[i].LossCount = 1
		}
	}
	return list
}

// setWeights sets the weights by which tiers are drawn: of n tiers the one with the highest mean loss gets
// n, the next one n-1, and so on. now holds the tiers' mean losses. Tiers without a loss, whose LossCount is 0 and
// not 1, come before all others.
func (o *tiered) setWeights(now []tier) {
	order := make([]int, len(now))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(tierA, tierB int) int {
		return cmp.Or(
			cmp.Compare(now[tierA].LossCount, now[tierB].LossCount),
			cmp.Compare(now[tierB].Loss, now[tierA].Loss),
		)
	})
	for rank, number := range order {
		o.Groups[number].Weight = int64(len(order) - rank)
	}
}

// Memory encodes the tiers and what is remembered of the clients.
func (o *tiered) Memory() []byte { return Remember(&o.tierMemory) }

// Restore takes over what Memory returned in the run before, and lists the members of the tiers
// again. It is an error if the memory cannot be read.
func (o *tiered) Restore(memory []byte) error {
	err := Recall(memory, &o.tierMemory)
	o.listMembers()
	return err
}
