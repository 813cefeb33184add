package selection

import (
	"cmp"
	"math"
	"slices"

	"fedpace/internal/bitset"
	"fedpace/internal/keyed"
	"fedpace/internal/portable/exact"
)

// oortOrder is the order of [Oort].
type oortOrder struct {
	Oort
	setup Setup
	// expected is each client's expected time for its local steps of round 1.
	expected []Time
	// pacerStep is by how many seconds the pacer raises the preferred time.
	pacerStep float64

	oortMemory

	// The order of the round under way: the cohort first, then the draw of what is left of the fresh
	// clients and after them the reserve. A client may stand in several of these, so returned has the
	// clients that Next has returned in this round.
	cohort     []int32
	newClients *clientDraw
	reserve    []int32
	returned   bitset.Set
}

// oortMemory is what the order remembers between two steps of a run.
type oortMemory struct {
	Clients []oortClient
	// Rounds is the number of complete rounds.
	Rounds int64
	// Preferred is the preferred time T, in seconds.
	Preferred float64
	Epsilon   float64
	// Sums are the sums of U over the last window, and over the one under way.
	Sums [2]float64
	// Compared says that there was a last window.
	Compared bool
}

// oortClient is what the order remembers of one client.
type oortClient struct {
	// Utility is the statistical utility U.
	Utility float64
	// Took is how long the client's newest accepted task took, in seconds.
	Took float64
	// Last is L, the round of the client's newest accepted update, or noUpdate if there is none.
	Last int64
	// Picks is the number of tasks that the client had, accepted or not.
	Picks int64
}

// noUpdate is the round of the newest accepted update of a client that has none. Rounds are
// numbered from 1.
const noUpdate = 0

// clientDraw draws clients from a list by weight, without replacement. A nil clientDraw is
// one of an empty list.
type clientDraw struct {
	*weightedOrder
	list []int32
}

// weightResolution is how many steps the weights of a draw have: the greatest weight is one more.
const weightResolution = 1 << 32

// newDraw makes a draw from a list of clients with probabilities in proportion to their
// weights, which are at least 0. A weight is rounded to 2^-32 of the greatest, and one unit is
// added, so that each client of the list is drawn at last.
func (o *oortOrder) newDraw(
	list []int32,
	weight func(client int32) float64,
	purpose keyed.Purpose,
	round int,
) *clientDraw {
	if len(list) == 0 {
		return nil
	}
	greatest := 0.0
	for _, client := range list {
		greatest = max(greatest, weight(client))
	}
	weights := make([]uint64, len(list))
	for i, client := range list {
		// One unit more keeps a client of weight 0 in the draw.
		weights[i] = 1
		if greatest > 0 {
			weights[i] += uint64(weight(client) / greatest * weightResolution)
		}
	}
	return &clientDraw{
		weightedOrder: newWeightedOrder(o.setup.Seed, purpose, round, weights),
		list:          list,
	}
}

// next draws a client that was not drawn before. ok is false if all of the list have been drawn, or
// if the draw is nil.
func (d *clientDraw) next() (client int32, ok bool) {
	if d == nil {
		return 0, false
	}
	index, ok := d.weightedOrder.next()
	return d.list[index], ok
}

// take draws n clients, of whom at least n must be left to draw, and appends them to chosen.
func (d *clientDraw) take(n int, chosen []int32) []int32 {
	for range n {
		client, _ := d.next()
		chosen = append(chosen, client)
	}
	return chosen
}

// Start makes the order of a round from the clients that are free: first the cohort, of known
// clients by their utility and of new ones by their speed, then the remaining clients in reserve, in
// case some of the cohort cannot be asked.
func (o *oortOrder) Start(round int, _ Time) {
	clear(o.returned)
	familiar, fresh, tired := o.listFreeClients()
	utility := o.utilities(int64(round), familiar)
	byUtility := familiar
	slices.SortFunc(byUtility, func(a, b int32) int {
		return cmp.Or(cmp.Compare(utility[b], utility[a]), cmp.Compare(a, b))
	})

	// The cohort is divided between clients whose utility is known and new ones.
	exploited, explored := o.divideCohort(len(familiar), len(fresh))
	admitted := o.aboveCutOff(byUtility, utility, exploited)
	utilityOf := func(client int32) float64 { return utility[client] }
	o.cohort = o.newDraw(admitted, utilityOf, keyed.Cohort, round).take(exploited, o.cohort[:0])

	speedOf := func(client int32) float64 { return 1 / float64(max(1, o.expected[client])) }
	o.newClients = o.newDraw(fresh, speedOf, keyed.Explore, round)
	o.cohort = o.newClients.take(explored, o.cohort)

	// Clients that had many tasks come last of all, the least used first.
	slices.SortStableFunc(tired, func(a, b int32) int {
		return cmp.Compare(o.Clients[a].Picks, o.Clients[b].Picks)
	})
	o.reserve = slices.Concat(byUtility, tired)
}

// listFreeClients divides the clients that can be given a task now into three lists, each in the order of
// their numbers: familiar ones, of whom an update was accepted; fresh ones, of whom none was; and tired
// ones, which have had as many tasks as the option picks allows.
func (o *oortOrder) listFreeClients() (familiar, fresh, tired []int32) {
	for number := range o.Clients {
		client := &o.Clients[number]
		isTired := o.Picks > 0 && client.Picks >= int64(o.Picks)
		switch {
		case !o.setup.Free(number):
		case isTired:
			tired = append(tired, int32(number))
		case client.Last != noUpdate:
			familiar = append(familiar, int32(number))
		default:
			fresh = append(fresh, int32(number))
		}
	}
	return familiar, fresh, tired
}

// divideCohort returns how many of the cohort are exploited, that is familiar clients, and how many are
// explored, that is fresh ones. familiar and fresh are how many of each there are. The part epsilon is
// explored, and more where the familiar ones are too few. Both together are fewer than the cohort if there
// are too few clients.
func (o *oortOrder) divideCohort(familiar, fresh int) (exploited, explored int) {
	cohort := o.setup.Cohort
	explored = min(int(o.Epsilon*float64(cohort)), fresh)
	exploited = min(cohort-explored, familiar)
	return exploited, min(cohort-exploited, fresh)
}

// utilities returns the utility of each of the familiar clients in this round, by the formula at [Oort]:
// the statistical utility scaled to about 0 to 1, plus the uncertainty that grows with the time since the
// last accepted update, times the factor for slowness. A client is slow if its newest task took (Took) longer than
// the time that the pacer prefers (Preferred), both in seconds.
func (o *oortOrder) utilities(round int64, familiar []int32) map[int32]float64 {
	utility := make(map[int32]float64, len(familiar))
	if len(familiar) == 0 {
		return utility
	}
	sorted := make([]float64, 0, len(familiar))
	for _, client := range familiar {
		sorted = append(sorted, o.Clients[client].Utility)
	}
	slices.Sort(sorted)
	// Utilities above their quantile Clip count as that quantile, and are then scaled to lie from about 0 to 1.
	rank := int(math.Ceil(o.Clip*float64(len(sorted)))) - 1
	bound := sorted[max(0, rank)]
	lowest := float64(0.999 * sorted[0])
	highest := sorted[len(sorted)-1]
	extent := max(highest-lowest, 1e-4)
	logRound := exact.Log(float64(round))
	for _, client := range familiar {
		c := &o.Clients[client]
		normalized := (min(c.Utility, bound) - lowest) / extent
		// The uncertainty grows while no update of the client is accepted: Last is the round of the newest one.
		uncertainty := math.Sqrt(0.1 * logRound / float64(c.Last))
		utility[client] = (normalized + uncertainty) * o.slownessFactor(c.Took, o.Preferred)
	}
	return utility
}

// aboveCutOff returns the clients from whom n are drawn: those with at least the part CutOff of the utility
// of the n-th best. byUtility has at least n clients, those with the highest utility first.
func (o *oortOrder) aboveCutOff(byUtility []int32, utility map[int32]float64, n int) []int32 {
	if n == 0 {
		return nil
	}
	threshold := o.CutOff * utility[byUtility[n-1]]
	end := n
	for end < len(byUtility) && utility[byUtility[end]] >= threshold {
		end++
	}
	return byUtility[:end]
}

// Next returns the next client of the round's order that was not given in this round before. ok is
// false if there is none.
func (o *oortOrder) Next() (client int, ok bool) {
	next, ok := o.nextListed()
	for ok && o.returned.Has(int(next)) {
		next, ok = o.nextListed()
	}
	if ok {
		o.returned.Add(int(next))
	}
	return int(next), ok
}

// nextListed returns the next client of the cohort, then of the fresh ones, then of the
// reserve. Next may have returned that client before. ok is false after the last one.
func (o *oortOrder) nextListed() (client int32, ok bool) {
	if len(o.cohort) > 0 {
		client = o.cohort[0]
		o.cohort = o.cohort[1:]
		return client, true
	}
	client, ok = o.newClients.next()
	if ok {
		return client, true
	}
	if len(o.reserve) == 0 {
		return 0, false
	}
	client = o.reserve[0]
	o.reserve = o.reserve[1:]
	return client, true
}

// Ended notes that a task of a client has ended: it counts as one of the client's picks. took is the virtual time of
// the task, which is remembered if its update was accepted.
func (o *oortOrder) Ended(client, _ int, took Time, accepted bool) {
	c := &o.Clients[client]
	c.Picks++
	if accepted {
		c.Took = took.Seconds()
	}
}

// Trained sets the client's statistical utility U from the loss of its accepted update (see [Oort]), and
// adds it to the pacer's sum over the window of rounds that is under way.
func (o *oortOrder) Trained(client int, loss float64) {
	c := &o.Clients[client]
	samples := float64(o.setup.Samples(client))
	c.Utility = float64(samples * math.Abs(loss))
	// The round under way follows the complete ones.
	c.Last = o.Rounds + 1
	o.Sums[1] += c.Utility
}

// Closed is called after each round. It lowers epsilon, the share of new clients in a cohort. At the end of a
// window of rounds the pacer raises the preferred time of tasks, so that slower clients are chosen again, if
// the utilities of the window (Sums[1]) add up to less than those of the one before (Sums[0]).
func (o *oortOrder) Closed(int, float64) {
	o.Rounds++
	o.Epsilon = max(o.MinEpsilon, float64(o.Epsilon*o.Decay))
	windowEnds := o.Rounds%int64(o.Window) == 0
	if !windowEnds {
		return
	}
	utilityFell := o.Compared && o.Sums[0] > o.Sums[1]
	if utilityFell {
		o.Preferred += o.pacerStep
	}
	o.Sums = [2]float64{o.Sums[1], 0}
	o.Compared = true
}

// Memory encodes what the order remembers of its clients and of the pacer.
func (o *oortOrder) Memory() []byte { return Remember(&o.oortMemory) }

// Restore takes over what Memory has encoded.
func (o *oortOrder) Restore(memory []byte) error { return Recall(memory, &o.oortMemory) }
