package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("flanp", "the fastest clients first, twice as many each stage", Flanp{})
}

// Flanp begins with the fastest clients and doubles their number from stage to
// stage, until all take part; each stage begins with the model of the one before
// (FLANP: Reisizadeh et al. 2022, Straggler-Resilient Federated Learning). A
// client's speed is its expected time for the local steps of round 1.
//
// The paper ends a stage when the gradient is within the statistical accuracy of
// the stage's samples, which takes constants that are not known for a network. Here
// a stage ends when its rounds' training loss has reached a plateau, or after a
// number of rounds.
//
// In each stage a cohort is drawn uniformly among the stage's clients; if these
// are no more than the cohort all are asked, as in the paper.
type Flanp struct {
	Begin    int     `key:"begin" range:"[1,1000000]" help:"n_0, clients of the first cohorts"`
	Rounds   int     `key:"rounds" is:"null" range:"[1,1000000]" unit:"rounds" help:"length of a stage; null: by patience"`
	Patience int     `key:"patience" default:"5" range:"[1,1000000]" unit:"rounds" help:"rounds without better training loss that end a stage"`
	MinDelta float64 `key:"min_delta" default:"0.01" range:"[0,1]" help:"minimum relative improvement"`
}

// Order returns the order of a run: it sorts the clients by the time that they are expected to
// take, the fastest first, of equal ones the smaller number first, and begins with the first stage.
func (f Flanp) Order(s Setup) (Order, error) {
	order := &growing{Flanp: f, seed: s.Seed, fastest: make([]int32, s.Clients)}
	times := expectedTimes(&s)
	for client := range order.fastest {
		order.fastest[client] = int32(client)
	}
	slices.SortFunc(
		order.fastest,
		func(a, b int32) int { return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b)) },
	)
	order.enterStage(min(f.Begin, s.Clients))
	return order, nil
}

// Needs says what the rule must be given: rounds that do not overlap, and the clients' times and
// speeds. It needs losses if the stages do not have a fixed number of rounds.
func (f Flanp) Needs() Needs {
	return Needs{
		Rounds: true,
		Times:  true,
		Speeds: true,
		Losses: f.Rounds == 0,
	}
}

// Validate returns an error if the first stage has more clients than there are.
func (f Flanp) Validate(_, clients int) error {
	return atMost("begin", f.Begin, clients)
}

// String returns the rule in words, which complete a dry run's sentence about the cohort.
func (f Flanp) String() string {
	return fmt.Sprintf("from the fastest %d on, then twice as many", f.Begin)
}

// expectedTimes returns for each client the virtual time that a task with its local steps of round
// 1 is expected to take.
func expectedTimes(s *Setup) []Time {
	times := make([]Time, s.Clients)
	for client := range times {
		times[client] = s.Expect(client, s.Steps(client))
	}
	return times
}

// growing is the order of [Flanp].
type growing struct {
	Flanp
	seed uint64
	// fastest lists all clients, the fastest first.
	fastest []int32
	// stage is a uniform order of places among the fastest clients.
	stage Order
	flanpStage
}

// flanpStage is what is remembered of a stage.
type flanpStage struct {
	// Among is the number of fastest clients that take part.
	Among int
	// Past is the number of rounds of the stage so far or, where the stage ends at a plateau, since
	// its best loss.
	Past int
	// Best is the lowest training loss of the stage. Better says that there is one.
	Best   float64
	Better bool
}

// enterStage begins a stage in which this many of the fastest clients take part.
func (o *growing) enterStage(clients int) {
	o.stage = newCohort(o.seed, clients)
	o.flanpStage = flanpStage{Among: clients}
}

// Start begins the uniform order of the round among the clients of the stage.
func (o *growing) Start(round int, now Time) { o.stage.Start(round, now) }

// Next returns the client at the place among the fastest that the uniform order draws. ok is false when
// all clients of the stage were returned.
func (o *growing) Next() (client int, ok bool) {
	place, ok := o.stage.Next()
	return int(o.fastest[place]), ok
}

// Ended does nothing: stages follow from the rounds' losses alone.
func (o *growing) Ended(int, int, Time, bool) {}

// Trained does nothing, as Ended.
func (o *growing) Trained(int, float64) {}

// Closed counts the round, and enters the next stage if this one is over: after its number of rounds
// or, without one, when the loss has not improved for as long as the patience lasts. The last stage,
// of all clients, does not end.
func (o *growing) Closed(_ int, loss float64) {
	// Among is how many of the fastest clients take part in the stage.
	among := o.Among
	if among == len(o.fastest) {
		return
	}
	length := o.Rounds
	// Without a number of rounds, Past counts the rounds since the loss improved last.
	if length == 0 {
		length = o.Patience
		if math.IsNaN(loss) || o.improves(loss) {
			return
		}
	}
	o.Past++
	if o.Past >= length {
		o.enterStage(min(2*among, len(o.fastest)))
	}
}

// improves reports whether a loss is below the best of the stage so far by more than the part MinDelta
// of the best, or is the first. If so it becomes the best one, and the patience begins again.
func (o *growing) improves(loss float64) bool {
	threshold := o.Best - float64(o.MinDelta*math.Abs(o.Best))
	// Better says that the stage has a best loss.
	if o.Better && loss >= threshold {
		return false
	}
	o.Best = loss
	o.Better = true
	o.Past = 0
	return true
}

// Memory encodes what the order remembers of the stage.
func (o *growing) Memory() []byte { return Remember(&o.flanpStage) }

// Restore takes over what Memory returned in the run before, and enters the stage that it names. It
// is an error if the memory cannot be read.
func (o *growing) Restore(memory []byte) error {
	var stage flanpStage
	if err := Recall(memory, &stage); err != nil {
		return err
	}
	o.enterStage(stage.Among)
	// enterStage has begun the stage, and this run is in the midst of it.
	o.flanpStage = stage
	return nil
}
