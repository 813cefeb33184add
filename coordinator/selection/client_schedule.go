package selection

import (
	"fmt"

	"fedpace/policy"
	"fedpace/registry"
)

// init registers the rule under the name by which a configuration chooses it. The text is its line
// in the list of selections.
func init() {
	Rules.Register(
		"client_schedule",
		"each client's local steps and learning rate, by a class in Python, of the base class fedpace.ClientSchedule",
		ClientSchedule{},
	)
}

// ClientSchedule lowers each client's K to what a class in Python says, and sets its learning rate.
// Another rule draws the clients.
type ClientSchedule struct {
	policy.Python
	Base Rule `key:"from" is:"null" help:"how clients are drawn; null: uniform"`
}

// Kind names the base class in Python.
func (ClientSchedule) Kind() string { return "ClientSchedule" }

// Order returns the order of the rule that draws the clients.
func (p ClientSchedule) Order(s Setup) (Order, error) { return OrUniform(p.Base).Order(s) }

// Query returns the number of candidates of the rule that draws the clients.
func (p ClientSchedule) Query() int { return QueryOf(p.Base) }

// DrawsBy implements [ByLosses]: the candidates are drawn by the rule by which the base rule draws
// them, and this rule limits their steps.
func (p ClientSchedule) DrawsBy() Rule {
	if s, ok := p.Base.(ByLosses); ok {
		p.Base = s.DrawsBy()
	}
	return p
}

// client is what a policy is asked about: a client with up to local_steps steps.
type client struct {
	Number     int  `json:"number"`
	Samples    *int `json:"samples"`
	LocalSteps int  `json:"local_steps"`
	// Seconds are the times that 1, 2, 3, ... local steps are expected to take, at most maxTimes of them;
	// nil: they are not known.
	Seconds []float64 `json:"seconds"`
	// Deadline is that of the round in seconds, nil if it has none.
	Deadline *float64 `json:"deadline"`
	// LearningRate is the round's. It is nil in a question about local steps.
	LearningRate *float64 `json:"learning_rate"`
}

// about makes the question about one client that the Python class is asked: its number, its samples
// if known, the round's deadline in seconds if there is one, and how many seconds 1, 2, ... up to k
// local steps are expected to take it.
func about(s *Setup, number, k int) client {
	question := client{Number: number, LocalSteps: k}
	if s.Samples != nil {
		samples := s.Samples(number)
		question.Samples = &samples
	}
	if s.Deadline > 0 {
		deadline := s.Deadline.Seconds()
		question.Deadline = &deadline
	}
	if s.Expect == nil {
		return question
	}
	for steps := range min(k, maxTimes) {
		question.Seconds = append(question.Seconds, s.Expect(number, steps+1).Seconds())
	}
	return question
}

// maxTimes bounds the times that a policy is given.
const maxTimes = 1000

// Limit returns how many local steps a client takes in a round, from 0 to k, by the answer of the
// Python class. 0 leaves the client out. An answer out of range is reported as a failure, and the
// client takes k.
func (p ClientSchedule) Limit(s *Setup, number, k int) int {
	k = LimitOf(p.Base, s, number, k)
	if p.Asker() == nil || k == 0 || !p.Asker().Has("local_steps") {
		return k
	}
	var steps int
	if !p.Asker().Ask("local_steps", about(s, number, k), &steps) {
		return k
	}
	if steps < 0 || steps > k {
		p.Asker().Fail("local_steps", "%d local steps of client %d are not from 0 to %d", steps, number, k)
		return k
	}
	return steps
}

// Rate returns the learning rate of one client's task, by the answer of the Python class. k is the
// task's local steps, and rate that of the round, which counts if the class says nothing or fails.
func (p ClientSchedule) Rate(s *Setup, number, k int, rate float64) float64 {
	if p.Asker() == nil || !p.Asker().Has("learning_rate") {
		return rate
	}
	question := about(s, number, k)
	question.LearningRate = &rate
	var answer float64
	if !p.Asker().Ask("learning_rate", question, &answer) {
		return rate
	}
	if !(answer >= 0) || answer > maxRate {
		p.Asker().Fail("learning_rate", "%g of client %d is not from 0 to %g", answer, number, float64(maxRate))
		return rate
	}
	return answer
}

// maxRate bounds the learning rate of a task.
const maxRate = 1e9

// Deadline returns the deadline that the base rule sets for a round with these clients, 0 if it
// sets none. steps returns the local steps of a client.
func (p ClientSchedule) Deadline(s *Setup, clients []int32, steps func(client int) int) Time {
	if l := LimitingOf(p.Base); l != nil {
		return l.Deadline(s, clients, steps)
	}
	return 0
}

// Needs returns the needs of the rule that draws the clients, with expected times and rounds that do not
// overlap.
func (p ClientSchedule) Needs() Needs {
	return timedRounds(p.Base)
}

// Validate returns an error if the rule that draws the clients has a wrong option.
func (p ClientSchedule) Validate(cohort, clients int) error {
	return registry.Below("from", Validate(p.Base, cohort, clients))
}

// String completes a dry run's sentence about the cohort.
func (p ClientSchedule) String() string {
	return fmt.Sprintf("%v, with local steps as %v says", OrUniform(p.Base), p.Python)
}
