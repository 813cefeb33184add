package selection

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"fedpace/internal/keyed"
	"fedpace/internal/registry"
)

func init() {
	Rules.Register("tifl", "from one tier of equally fast clients at a time, those with high losses more often", Tifl{})
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
// makes nobody fast. Tiers are made anew after every Interval rounds.
//
// If a tier has fewer free clients than the cohort, the next one that is drawn gives
// the others, and pays nothing.
type Tifl struct {
	Tiers    int `key:"tiers" default:"5" range:"[1,1000]" help:"groups of clients with similar response times"`
	Interval int `key:"interval" default:"20" range:"[1,1000000]" unit:"rounds" help:"I, rounds after which probabilities and tiers are made anew"`
	Credits  int `key:"credits" is:"null" range:"[1,1000000000]" unit:"rounds" help:"rounds for which a tier can be drawn until all others have been drawn as often; null: any number"`
}

// Order makes the first tiers.
func (t Tifl) Order(s Setup) (Order, error) {
	if s.Expect == nil {
		return nil, errors.New("selection: tiers need the clients' expected times")
	}
	t.Tiers = min(t.Tiers, s.Clients)
	o := &tiered{Tifl: t, s: s, expected: expectedTimes(&s), clients: make([]tieredClient, s.Clients), tiers: make([]tier, t.Tiers)}
	for i := range o.tiers {
		o.tiers[i].credits, o.tiers[i].weight = int64(t.Credits), 1
	}
	o.sort()
	return o, nil
}

func (Tifl) Needs() Needs { return Needs{Rounds: true, Times: true, Losses: true} }

// Validate refuses more tiers than clients.
func (t Tifl) Validate(_, clients int) error {
	if clients > 0 && t.Tiers > clients {
		return registry.Errorf("tiers", "%d is more than there are clients (at most %d)", t.Tiers, clients)
	}
	return nil
}

func (t Tifl) String() string {
	return fmt.Sprintf("from one of %d tiers of equally fast clients", t.Tiers)
}

// tieredClient is what is remembered of one client.
type tieredClient struct {
	tier   int32
	tasks  int32   // accepted tasks
	ratio  float64 // sum over these of the time taken in proportion to the one expected
	loss   float64 // newest
	losses int32   // 1: there is one
}

// tier is what is remembered of one tier.
type tier struct {
	credits, weight int64
	loss            float64 // Interval rounds before, or highest
	known           int64   // 1: there was one

	members []int32 // ascending
}

// tiered is the order of a round of [Tifl].
type tiered struct {
	Tifl
	s        Setup
	expected []Time

	clients []tieredClient
	tiers   []tier
	current int  // tier that was drawn last
	before  bool // the tiers' losses of Interval rounds before are known

	round uint64
	drawn []int   // tiers, in the order of this round
	queue []int32 // clients of the first of them that are left
	draws uint64
}

// sort makes tiers of equal size.
func (o *tiered) sort() {
	list, times := make([]int32, len(o.clients)), make([]float64, len(o.clients))
	for i := range list {
		list[i], times[i] = int32(i), float64(o.expected[i])
		if c := &o.clients[i]; c.tasks > 0 {
			times[i] *= c.ratio / float64(c.tasks)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b)) })
	for place, client := range list {
		o.clients[client].tier = int32(place * len(o.tiers) / len(list))
	}
	o.collect()
}

// collect lists the members of each tier.
func (o *tiered) collect() {
	for i := range o.tiers {
		o.tiers[i].members = o.tiers[i].members[:0]
	}
	for client := range o.clients {
		t := &o.tiers[o.clients[client].tier]
		t.members = append(t.members, int32(client))
	}
}

// Start draws the order of the tiers: those with credits by their weights, without
// replacement, then the others. The first with a client that is free is the round's.
func (o *tiered) Start(round int, _ Time) {
	o.round, o.draws, o.queue, o.drawn = uint64(round), 0, nil, o.drawn[:0]
	var left, spent []int
	total := uint64(0)
	for i := range o.tiers {
		if t := &o.tiers[i]; o.Credits > 0 && t.credits == 0 {
			spent = append(spent, i)
		} else {
			left = append(left, i)
			total += uint64(t.weight)
		}
	}
	for len(left) > 0 {
		x := keyed.Below(keyed.Hash(o.s.Seed, keyed.Tier, o.round, uint64(len(o.drawn))), total)
		i := 0
		for ; x >= uint64(o.tiers[left[i]].weight); i++ {
			x -= uint64(o.tiers[left[i]].weight)
		}
		total -= uint64(o.tiers[left[i]].weight)
		o.drawn = append(o.drawn, left[i])
		left = slices.Delete(left, i, i+1)
	}
	o.drawn = append(o.drawn, spent...)
	i := slices.IndexFunc(o.drawn, func(i int) bool {
		return slices.ContainsFunc(o.tiers[i].members, func(client int32) bool { return o.s.Free(int(client)) })
	})
	o.drawn = o.drawn[max(i, 0):]
	o.current = o.drawn[0]
}

// Next draws uniformly from what is left of the tier.
func (o *tiered) Next() (client int, ok bool) {
	for len(o.queue) == 0 {
		if len(o.drawn) == 0 {
			return 0, false
		}
		o.queue, o.drawn = slices.Clone(o.tiers[o.drawn[0]].members), o.drawn[1:]
	}
	i := keyed.Below(keyed.Hash(o.s.Seed, keyed.Cohort, o.round, o.draws), uint64(len(o.queue)))
	o.draws++
	chosen, last := o.queue[i], len(o.queue)-1
	o.queue[i] = o.queue[last]
	o.queue = o.queue[:last]
	return int(chosen), true
}

// Ended measures the client's response time.
func (o *tiered) Ended(client, steps int, took Time, accepted bool) {
	if expected := o.s.Expect(client, steps); accepted && expected > 0 {
		c := &o.clients[client]
		c.ratio += float64(took) / float64(expected)
		c.tasks++
	}
}

// Trained keeps the client's loss.
func (o *tiered) Trained(client int, loss float64) {
	o.clients[client].loss, o.clients[client].losses = loss, 1
}

// Closed pays for the round, and adapts the probabilities and the tiers when it is time.
func (o *tiered) Closed(round int, _ float64) {
	if o.Credits > 0 {
		o.pay()
	}
	if round%o.Interval != 0 {
		return
	}
	if now, t := o.losses(), &o.tiers[o.current]; o.before && (t.known == 0 || now[o.current].known == 0 || now[o.current].loss >= t.loss) {
		o.weigh(now)
	}
	o.sort()
	for i, t := range o.losses() {
		o.tiers[i].loss, o.tiers[i].known = t.loss, t.known
	}
	o.before = true
}

// pay takes a credit from the round's tier.
func (o *tiered) pay() {
	if t := &o.tiers[o.current]; t.credits > 0 {
		t.credits--
	}
	if !slices.ContainsFunc(o.tiers, func(t tier) bool { return t.credits > 0 }) {
		for i := range o.tiers {
			o.tiers[i].credits = int64(o.Credits)
		}
	}
}

// losses are the means of the tiers' newest losses.
func (o *tiered) losses() []tier {
	list := make([]tier, len(o.tiers))
	for i := range o.tiers {
		n := 0
		for _, client := range o.tiers[i].members {
			if c := &o.clients[client]; c.losses > 0 {
				list[i].loss += c.loss
				n++
			}
		}
		if n > 0 {
			list[i].loss, list[i].known = list[i].loss/float64(n), 1
		}
	}
	return list
}

// weigh gives the tier with the highest loss the greatest weight.
func (o *tiered) weigh(now []tier) {
	order := make([]int, len(now))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(now[i].known, now[j].known), cmp.Compare(now[j].loss, now[i].loss))
	})
	for rank, i := range order {
		o.tiers[i].weight = int64(len(order) - rank)
	}
}

const (
	tieredCounts = 3 // counts of each client, and of each tier
	tieredValues = 2 // values of each client; each tier has one
)

// Memory lists the clients, the tiers, then the rest.
func (o *tiered) Memory() (m Memory) {
	for i := range o.clients {
		c := &o.clients[i]
		m.Counts = append(m.Counts, int64(c.tier), int64(c.tasks), int64(c.losses))
		m.Values = append(m.Values, c.ratio, c.loss)
	}
	for i := range o.tiers {
		t := &o.tiers[i]
		m.Counts = append(m.Counts, t.credits, t.weight, t.known)
		m.Values = append(m.Values, t.loss)
	}
	before := int64(0)
	if o.before {
		before = 1
	}
	m.Counts = append(m.Counts, int64(o.current), before)
	return m
}

func (o *tiered) Restore(m Memory) error {
	clients, tiers := len(o.clients), len(o.tiers)
	if len(m.Counts) != tieredCounts*(clients+tiers)+2 || len(m.Values) != tieredValues*clients+tiers {
		return fmt.Errorf("not that of %d clients in %d tiers", clients, tiers)
	}
	if slices.ContainsFunc(m.Counts, func(n int64) bool { return n < 0 || n > MaxRounds }) {
		return errors.New("a count that is out of range")
	}
	for i := range o.clients {
		n, v := m.Counts[tieredCounts*i:], m.Values[tieredValues*i:]
		if n[0] >= int64(tiers) || n[2] > 1 || v[0] < 0 {
			return fmt.Errorf("client %d cannot be in tier %d with %d losses", i, n[0], n[2])
		}
		o.clients[i] = tieredClient{tier: int32(n[0]), tasks: int32(n[1]), losses: int32(n[2]), ratio: v[0], loss: v[1]}
	}
	for i := range o.tiers {
		n := m.Counts[tieredCounts*(clients+i):]
		if n[1] < 1 || n[1] > int64(tiers) || n[0] > int64(o.Credits) {
			return fmt.Errorf("tier %d with weight %d and %d credits", i, n[1], n[0])
		}
		o.tiers[i].credits, o.tiers[i].weight, o.tiers[i].known, o.tiers[i].loss = n[0], n[1], n[2], m.Values[tieredValues*clients+i]
	}
	rest := m.Counts[tieredCounts*(clients+tiers):]
	if rest[0] >= int64(tiers) || rest[1] > 1 {
		return errors.New("no such tier")
	}
	o.current, o.before = int(rest[0]), rest[1] == 1
	o.collect()
	return nil
}
