package round

import (
	"errors"
	"fmt"
	"sort"

	"fedpace/internal/registry"
)

func init() {
	Selections.Register("fit", "each client's local steps are lowered to fit the deadline", Fit{})
}

// Fit lowers each client's K until its expected time fits the round's deadline:
// fewer local steps from slow clients instead of none (the trade-off of Remark
// 1.4). A client that is too slow even for one step is asked for one.
type Fit struct {
	From Selection `key:"from" is:"null" help:"how clients are drawn; null: uniform"`
}

// Order is From's.
func (f Fit) Order(s Setup) (Order, error) {
	if s.Expect == nil {
		return nil, errors.New("round: local steps that fit a deadline need the clients' expected times")
	}
	return selection(f.From).Order(s)
}

// Query is From's.
func (f Fit) Query() int { return query(f.From) }

// Drawing fits the steps of the clients that From draws.
func (f Fit) Drawing() Selection {
	if s, ok := f.From.(ByLosses); ok {
		f.From = s.Drawing()
	}
	return f
}

// Limit is the most steps, up to k, that are expected to fit the deadline.
func (f Fit) Limit(s *Setup, client, k int) int {
	k = limit(f.From, s, client, k)
	if s.Expect(client, k) <= s.Deadline {
		return k
	}
	return max(1, sort.Search(k-1, func(below int) bool { return s.Expect(client, below+1) > s.Deadline }))
}

func (f Fit) Needs() Needs {
	n := registry.NeedsOf(f.From)
	n.Deadline = true
	return n
}

// Validate is From's.
func (f Fit) Validate(cohort, clients int) error {
	return registry.Below("from", validateSelection(f.From, cohort, clients))
}

func (f Fit) String() string {
	return fmt.Sprintf("%v, with the local steps that fit the deadline", selection(f.From))
}
