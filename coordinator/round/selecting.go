package round

import (
	"errors"
	"fmt"
	"sort"
)

// Select is how a round's clients are chosen among those that are available,
// and how many local steps each is asked for.
type Select interface {
	newOrder(c *Config) (order, error)
	// candidates is how many clients are asked for their loss before some of
	// them are chosen, 0 for none.
	candidates() int
	// steps is a client's K in a round of K_r = k.
	steps(c *Config, client, k int) int
	validate(c *Config) error
}

// Uniform chooses uniformly without replacement (Algorithm 1, line 3).
type Uniform struct{}

func (Uniform) newOrder(c *Config) (order, error)  { return newCohort(c.Seed, c.Clients), nil }
func (Uniform) candidates() int                    { return 0 }
func (Uniform) steps(_ *Config, client, k int) int { return k }
func (Uniform) validate(*Config) error             { return nil }

// BySize chooses without replacement with probabilities proportional to the
// clients' numbers of samples; a client without samples is never chosen.
type BySize struct {
	Samples func(client int) int // not negative; read once, when the machine is made
}

func (s BySize) newOrder(c *Config) (order, error) { return newSizes(c.Seed, c.Clients, s.Samples) }
func (BySize) candidates() int                     { return 0 }
func (BySize) steps(_ *Config, client, k int) int  { return k }
func (s BySize) validate(*Config) error {
	if s.Samples == nil {
		return errors.New("round: choosing by size needs the clients' numbers of samples")
	}
	return nil
}

// PowerOfChoice draws more candidates than the cohort has places, asks each for
// its loss on the newest model and takes those with the highest (Cho, Wang and
// Joshi 2020). The loss is that of the client's next minibatch, the paper's
// variant that saves computation (cpow-d).
//
// A candidate downloads the model and computes for as long as one local step;
// sending back a number takes no time. The round goes on when each candidate
// has answered or dropped out; a deadline counts from there. Who is chosen
// holds the model already and does not download it again. Where all candidates
// drop out the round closes with nothing accepted.
type PowerOfChoice struct {
	Candidates int    // d, at least the cohort
	From       Select // how candidates are drawn; nil: uniformly. The paper's is [BySize]
}

func (p PowerOfChoice) newOrder(c *Config) (order, error) { return selection(p.From).newOrder(c) }
func (p PowerOfChoice) candidates() int                   { return p.Candidates }
func (p PowerOfChoice) steps(c *Config, client, k int) int {
	return selection(p.From).steps(c, client, k)
}
func (p PowerOfChoice) validate(c *Config) error {
	switch {
	case !c.Train:
		return errors.New("round: power of choice decides by losses: it needs training")
	case c.Closing.overlaps():
		return errors.New("round: power of choice needs rounds that do not overlap, not buffered ones")
	case p.Candidates < c.Cohort || p.Candidates > c.Clients:
		return fmt.Errorf("round: power of choice with %d candidates, want %d (the cohort) to %d (the clients)", p.Candidates, c.Cohort, c.Clients)
	case selection(p.From).candidates() > 0:
		return errors.New("round: power of choice among candidates that were themselves chosen by it")
	}
	return selection(p.From).validate(c)
}

// Fit lowers each client's K until its expected time fits the round's deadline:
// fewer local steps from slow clients instead of none (the trade-off of Remark
// 1.4). A client that is too slow even for one step is asked for one.
type Fit struct {
	From Select // how clients are chosen; nil: uniformly
}

func (f Fit) newOrder(c *Config) (order, error) { return selection(f.From).newOrder(c) }
func (f Fit) candidates() int                   { return selection(f.From).candidates() }
func (f Fit) steps(c *Config, client, k int) int {
	k = selection(f.From).steps(c, client, k)
	if c.Devices.Count > 0 && client >= c.Clients { // nothing is expected of a device
		return k
	}
	fits := func(k int) bool { return c.Expect(client, k) <= c.Closing.deadline() }
	if fits(k) {
		return k
	}
	return max(1, sort.Search(k-1, func(below int) bool { return !fits(below + 1) }))
}
func (f Fit) validate(c *Config) error {
	switch {
	case c.Closing.deadline() == 0:
		return errors.New("round: local steps that fit a deadline need rounds that close by deadline")
	case c.Expect == nil:
		return errors.New("round: local steps that fit a deadline need the clients' expected times")
	}
	return selection(f.From).validate(c)
}

// selection is s, or the default.
func selection(s Select) Select {
	if s == nil {
		return Uniform{}
	}
	return s
}
