package selection

import (
	"cmp"
	"math"
	"slices"

	"fedpace/coordinator/schedule"
	"fedpace/internal/bitset"
	"fedpace/internal/keyed"
)

// guided is the order of [Oort].
type guided struct {
	Oort
	s        Setup
	expected []Time
	step     float64 // seconds by which the pacer raises the preferred time

	oortMemory

	// The order of the round: chosen, then what is left of the new ones, of the known
	// ones by their utility, and those asked too often.
	chosen []int32
	fresh  *drawing
	rest   []int32
	picked bitset.Set
}

// oortMemory is what is remembered between two steps.
type oortMemory struct {
	Clients   []guidedClient
	Rounds    int64   // complete ones
	Preferred float64 // T, in seconds
	Epsilon   float64
	Sums      [2]float64 // sums of U over the last window, and over the one under way
	Compared  bool       // whether there was a last window
}

// guidedClient is what is remembered of one client.
type guidedClient struct {
	Utility float64 // U
	Took    float64 // seconds of its newest accepted task
	Last    int64   // L; 0: no update of it was accepted
	Picks   int64   // tasks that it had
}

// drawing draws from a list of clients by weight, without replacement.
type drawing struct {
	*sizes
	list []int32
}

// resolution of weights: the greatest is one more.
const resolution = 1 << 32

// draw makes a drawing with probabilities in proportion to weights, to 2^-32 of the
// greatest, and greater than 0.
func (o *guided) draw(round int, purpose keyed.Purpose, list []int32, weight func(client int32) float64) *drawing {
	most := 0.0
	for _, client := range list {
		most = max(most, weight(client))
	}
	if len(list) == 0 {
		return nil
	}
	s := newSizes(o.s.Seed, len(list), func(i int) int {
		if most == 0 {
			return 1
		}
		return 1 + int(weight(list[i])/most*resolution)
	})
	s.purpose = purpose
	s.Start(round, 0)
	return &drawing{s, list}
}

// next is the next of the list; false: there is none left.
func (d *drawing) next() (client int32, ok bool) {
	if d == nil {
		return 0, false
	}
	i, ok := d.sizes.Next()
	return d.list[i], ok
}

// Start chooses the cohort among the clients that are free.
func (o *guided) Start(round int, _ Time) {
	clear(o.picked)
	var known, fresh, tired []int32
	for i := range o.Clients {
		c := &o.Clients[i]
		switch {
		case !o.s.Free(i):
		case o.Picks > 0 && c.Picks >= int64(o.Picks):
			tired = append(tired, int32(i))
		case c.Last > 0:
			known = append(known, int32(i))
		default:
			fresh = append(fresh, int32(i))
		}
	}
	utility := o.utilities(int64(round), known)
	byUtility := slices.Clone(known)
	slices.SortFunc(
		byUtility,
		func(a, b int32) int { return cmp.Or(cmp.Compare(utility[b], utility[a]), cmp.Compare(a, b)) },
	)
	old, tried := o.shares(len(known), len(fresh))
	o.chosen = o.chosen[:0]
	take := func(d *drawing, n int) {
		for range n {
			client, _ := d.next()
			o.chosen = append(o.chosen, client)
		}
	}
	take(
		o.draw(
			round,
			keyed.Cohort,
			o.admitted(byUtility, utility, old),
			func(client int32) float64 { return utility[client] },
		),
		old,
	)
	o.fresh = o.draw(
		round,
		keyed.Explore,
		fresh,
		func(client int32) float64 { return 1 / float64(max(1, o.expected[client])) },
	)
	take(o.fresh, tried)
	slices.SortStableFunc(tired, func(a, b int32) int { return cmp.Compare(o.Clients[a].Picks, o.Clients[b].Picks) })
	o.rest = append(byUtility, tired...)
}

// shares is how many of a cohort are known, and how many are new.
func (o *guided) shares(known, fresh int) (old, tried int) {
	tried = min(int(o.Epsilon*float64(o.s.Cohort)), fresh)
	old = min(o.s.Cohort-tried, known)
	return old, min(o.s.Cohort-old, fresh)
}

// utilities are those of the known clients.
func (o *guided) utilities(round int64, known []int32) map[int32]float64 {
	values := make([]float64, 0, len(known))
	for _, client := range known {
		values = append(values, o.Clients[client].Utility)
	}
	utility := make(map[int32]float64, len(known))
	logRound := schedule.Log(float64(round))
	if len(known) == 0 {
		return utility
	}
	slices.Sort(values)
	bound := values[max(0, int(math.Ceil(o.Clip*float64(len(values))))-1)]
	least := float64(0.999 * values[0])
	extent := max(values[len(values)-1]-least, 1e-4)
	for _, client := range known {
		c := &o.Clients[client]
		uncertainty := math.Sqrt(0.1 * logRound / float64(c.Last)) // grows while no update is accepted
		utility[client] = ((min(c.Utility, bound)-least)/extent + uncertainty) * o.system(c.Took, o.Preferred)
	}
	return utility
}

// admitted are those with at least a part of the utility of the n-th.
func (o *guided) admitted(byUtility []int32, utility map[int32]float64, n int) []int32 {
	if n == 0 {
		return nil
	}
	least := o.CutOff * utility[byUtility[n-1]]
	end := n
	for end < len(byUtility) && utility[byUtility[end]] >= least {
		end++
	}
	return byUtility[:end]
}

func (o *guided) Next() (client int, ok bool) {
	next, ok := o.next()
	for ok && o.picked.Has(int(next)) {
		next, ok = o.next()
	}
	if ok {
		o.picked.Add(int(next))
	}
	return int(next), ok
}

// next is a client that may have been given before.
func (o *guided) next() (client int32, ok bool) {
	if len(o.chosen) > 0 {
		client = o.chosen[0]
		o.chosen = o.chosen[1:]
		return client, true
	}
	client, ok = o.fresh.next()
	if ok {
		return client, true
	}
	if len(o.rest) == 0 {
		return 0, false
	}
	client = o.rest[0]
	o.rest = o.rest[1:]
	return client, true
}

// Ended counts the task and, if its update was accepted, keeps its time.
func (o *guided) Ended(client, _ int, took Time, accepted bool) {
	c := &o.Clients[client]
	c.Picks++
	if accepted {
		c.Took = took.Seconds()
	}
}

func (o *guided) Trained(client int, loss float64) {
	c := &o.Clients[client]
	c.Utility = float64(float64(o.s.Samples(client)) * math.Abs(loss))
	c.Last = o.Rounds + 1
	o.Sums[1] += c.Utility
}

// Closed lowers epsilon and asks the pacer.
func (o *guided) Closed(int, float64) {
	o.Rounds++
	o.Epsilon = max(o.Least, float64(o.Epsilon*o.Decay))
	if o.Rounds%int64(o.Window) != 0 {
		return
	}
	if o.Compared && o.Sums[0] > o.Sums[1] {
		o.Preferred += o.step
	}
	o.Sums = [2]float64{o.Sums[1]}
	o.Compared = true
}

func (o *guided) Memory() []byte { return Remember(&o.oortMemory) }

func (o *guided) Restore(memory []byte) error { return Recall(memory, &o.oortMemory) }
