package selection

import (
	"fmt"
	"slices"
	"strings"

	"fedpace/policy"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register("python", "a Python subclass of fedpace.Selection", Python{})
}

// Python selects the clients that a class in Python lists for each round, in the order of the list. It
// draws no single clients, so rounds must not overlap.
type Python struct {
	policy.Python
	Reads string `key:"reads" default:"" help:"what it needs of clients: losses, samples"`
}

// Kind names the base class in Python.
func (Python) Kind() string { return "Selection" }

// Needs says what the rule must be given: rounds that do not overlap and have one cohort, and losses or
// samples if the option reads names them.
func (p Python) Needs() Needs {
	return Needs{
		Rounds:  true,
		Cohort:  true,
		Losses:  p.reads("losses"),
		Samples: p.reads("samples"),
	}
}

// reads reports whether the option reads names this word: losses or samples. The option is a list
// of words.
func (p Python) reads(word string) bool {
	return slices.Contains(p.words(), word)
}

// words splits the option reads.
func (p Python) words() []string {
	return strings.FieldsFunc(p.Reads, func(c rune) bool { return c == ',' || c == ' ' })
}

// Validate returns an error if the option reads has a word that stands for nothing that a selection
// can read. The cohort and the number of clients do not matter to it.
func (p Python) Validate(_, _ int) error {
	for _, word := range p.words() {
		if word != "losses" && word != "samples" {
			return registry.Errorf("reads", "%q is not one of losses, samples", word)
		}
	}
	return nil
}

// String completes a dry run's sentence about the cohort.
func (p Python) String() string { return fmt.Sprintf("as %v says", p.Python) }

// Order returns the order of a run, which calls the class when a round starts. Where no Python process is bound to
// the rule it is uniform: so it is on hosts, which read the configuration and select nobody.
func (p Python) Order(setup Setup) (Order, error) {
	if p.Asker() == nil {
		return Uniform{}.Order(setup)
	}
	order := &pythonOrder{policy: p, setup: setup}
	order.Past.Memory = "{}"
	order.nextMemory = order.Past.Memory
	if p.reads("samples") && setup.Samples != nil {
		order.samples = make([]int, setup.Clients)
		for client := range order.samples {
			order.samples[client] = setup.Samples(client)
		}
	}
	return order, nil
}

// pythonOrder is the order that a class in Python gives. The class has a memory, which goes out with each
// question and comes back changed with the answer. A round that is begun again, as in a run that is
// resumed, must ask with the memory that its first question had, so that is what a checkpoint holds.
type pythonOrder struct {
	policy  Python
	setup   Setup
	samples []int

	// Past is what the question of the round under way follows from: the memory and the ended tasks (Told) that it
	// has. The tasks that end after it (News) become part of the next round's question.
	Past past
	// nextMemory is the memory after that question.
	nextMemory string
	// clients are those of the round under way that have not been given yet.
	clients []int
}

// past is what an order that is [Following] remembers.
type past struct {
	// Round is the last one that was begun.
	Round int
	// Memory is the policy's, as JSON, before the question about Round.
	Memory string
	// Told are the events that are part of the question about Round, and News those since then.
	Told, News []event
}

// event is how a client's task has ended, in the form in which the class gets it.
type event struct {
	Client   int     `json:"client"`
	Steps    int     `json:"steps"`
	Seconds  float64 `json:"seconds"`
	Accepted bool    `json:"accepted"`
	// Loss is that of the first local step, nil where it is not known.
	Loss *float64 `json:"loss"`
}

// Start asks the Python class for the clients of a round, which begins at the virtual time now. The
// question has the tasks that have ended since the last round's, and the memory that the class returned
// then. If the class fails or lists a client twice, the round has no clients and the run ends.
func (o *pythonOrder) Start(round int, now Time) {
	o.clients = nil
	// A round that is started again, after a restart, is asked the same question.
	if round != o.Past.Round {
		o.Past = past{Round: round, Memory: o.nextMemory, Told: o.Past.News}
	}
	question := struct {
		Now    roundQuestion `json:"now"`
		Memory string        `json:"memory"`
	}{
		Now: roundQuestion{
			Round:   round,
			Seconds: now.Seconds(),
			Seed:    o.setup.Seed,
			Clients: o.setup.Clients,
			Cohort:  o.setup.Cohort,
			Samples: o.samples,
			Ended:   append([]event{}, o.Past.Told...),
		},
		Memory: o.Past.Memory,
	}
	var answer struct {
		Clients []int  `json:"clients"`
		Memory  string `json:"memory"`
	}
	if !o.policy.Asker().Ask("select", question, &answer) {
		return
	}
	chosen := map[int]bool{}
	// A wrong client makes the whole answer invalid.
	for _, client := range answer.Clients {
		if client < 0 || client >= o.setup.Clients || chosen[client] {
			o.policy.Asker().Fail(
				"select",
				"client %d is listed twice, or is none of 0 to %d",
				client,
				o.setup.Clients-1,
			)
			return
		}
		chosen[client] = true
	}
	o.clients = answer.Clients
	o.nextMemory = answer.Memory
}

// roundQuestion is a round as a policy is asked about it.
type roundQuestion struct {
	Round   int     `json:"round"`
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed"`
	Clients int     `json:"clients"`
	Cohort  int     `json:"cohort"`
	Samples []int   `json:"samples"`
	Ended   []event `json:"ended"`
}

// Next returns the next client of the list that the class has answered with. ok is false at the end
// of the list.
func (o *pythonOrder) Next() (client int, ok bool) {
	if len(o.clients) == 0 {
		return 0, false
	}
	client = o.clients[0]
	o.clients = o.clients[1:]
	return client, true
}

// Ended keeps how a task has ended, with its local steps and its virtual time, for the question
// about the next round.
func (o *pythonOrder) Ended(client, steps int, took Time, accepted bool) {
	o.Past.News = append(o.Past.News, event{
		Client:   client,
		Steps:    steps,
		Seconds:  took.Seconds(),
		Accepted: accepted,
	})
}

// Trained adds the loss of an accepted update to what is kept of its task: the newest one of this
// client that has no loss yet.
func (o *pythonOrder) Trained(client int, loss float64) {
	for place := len(o.Past.News) - 1; place >= 0; place-- {
		if e := &o.Past.News[place]; e.Client == client && e.Accepted && e.Loss == nil {
			e.Loss = &loss
			return
		}
	}
}

// Closed does nothing: the next question, with the number of its round, shows that this one is over.
func (o *pythonOrder) Closed(int, float64) {}

// Memory returns, encoded, what the question of the round under way was made from, and what has
// come in since, so that a restored run asks the same.
func (o *pythonOrder) Memory() []byte {
	// Next is the memory that the class returned with its last answer, for the question about the next round.
	saved := struct {
		Past past
		Next string
	}{o.Past, o.nextMemory}
	return Remember(&saved)
}

// Restore takes over what Memory returned in the run before. It is an error if the memory cannot be
// read.
func (o *pythonOrder) Restore(memory []byte) error {
	var saved struct {
		Past past
		Next string
	}
	if err := Recall(memory, &saved); err != nil {
		return err
	}
	o.Past = saved.Past
	o.nextMemory = saved.Next
	return nil
}
