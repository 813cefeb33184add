package selection

import (
	"cmp"
	"fmt"
	"slices"

	"fedpace/registry"
)

func init() {
	Rules.Register("last_losses", "the candidates whose last losses were highest, and new ones", LastLosses{})
}

// LastLosses draws more candidates than the cohort has places and takes those with the highest
// losses (Cho, Wang and Joshi 2020, Client Selection in Federated Learning: Convergence Analysis
// and Power-of-Choice Selection Strategies, section 5: rpow-d). Nobody is asked: the loss is
// that which a client told with its newest accepted update. One of whom no update was accepted yet goes
// before all others. The paper takes the mean over the local steps, and here a client tells that of
// the first. Of equal losses the first drawn goes before.
type LastLosses struct {
	Candidates int  `key:"candidates" range:"[1,1000000]" help:"clients drawn, of whom the cohort is chosen"`
	From       Rule `key:"from" is:"null" help:"how candidates are drawn; null: uniform; the paper draws by size"`
}

// Order knows no client's loss yet.
func (l LastLosses) Order(s Setup) (Order, error) {
	from, err := OrUniform(l.From).Order(s)
	if err != nil {
		return nil, err
	}
	return &byLastLosses{
		LastLosses: l,
		s:          s,
		from:       from,
		last:       make([]lastLoss, s.Clients),
	}, nil
}

func (l LastLosses) Needs() Needs {
	n := registry.NeedsOf(l.From)
	n.Losses = true
	n.Rounds = true
	return n
}

// Validate refuses candidates of an order that itself remembers its clients, too.
func (l LastLosses) Validate(cohort, clients int) error {
	if name := Rules.NameOf(OrUniform(l.From)); name != "uniform" && name != "size" {
		return registry.Errorf("from", "candidates are drawn by uniform or size, not by %s", name)
	}
	return checkCandidates(l.Candidates, l.From, cohort, clients)
}

func (l LastLosses) String() string {
	return fmt.Sprintf("those with the highest last losses of %d drawn %v", l.Candidates, OrUniform(l.From))
}

// lastLoss is what is remembered of a client.
type lastLoss struct {
	Loss float64
	Told int // 1: it has told one
}

// byLastLosses is the order of [LastLosses].
type byLastLosses struct {
	LastLosses
	s    Setup
	from Order

	last   []lastLoss // by client
	chosen []int      // the candidates, of whom the first are given first
}

// Start draws the candidates among the clients that are free.
func (o *byLastLosses) Start(number int, now Time) {
	o.from.Start(number, now)
	o.chosen = o.chosen[:0]
	for len(o.chosen) < o.Candidates {
		client, ok := o.from.Next()
		if !ok {
			break
		}
		if o.s.Free == nil || o.s.Free(client) {
			o.chosen = append(o.chosen, client)
		}
	}
	slices.SortStableFunc(o.chosen, func(a, b int) int {
		return cmp.Or(cmp.Compare(o.last[a].Told, o.last[b].Told), cmp.Compare(o.last[b].Loss, o.last[a].Loss))
	})
}

// Next is the next candidate, and behind them whoever else is drawn.
func (o *byLastLosses) Next() (client int, ok bool) {
	if len(o.chosen) == 0 {
		return o.from.Next()
	}
	client = o.chosen[0]
	o.chosen = o.chosen[1:]
	return client, true
}

func (*byLastLosses) Ended(int, int, Time, bool) {}
func (*byLastLosses) Closed(int, float64)        {}

func (o *byLastLosses) Trained(client int, loss float64) { o.last[client] = lastLoss{loss, 1} }

func (o *byLastLosses) Memory() []byte { return Remember(&o.last) }

func (o *byLastLosses) Restore(memory []byte) error { return Recall(memory, &o.last) }
