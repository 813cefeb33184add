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
		"each client's local steps and learning rate, by a Python subclass of fedpace.ClientSchedule",
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

// DrawsBy implements [ByLosses]: it returns the rule by which candidates are drawn, which is this one without their
// query. If the base rule asks candidates for their losses, the rule that draws those takes its place as the base,
// and the class still limits their local steps.
func (p ClientSchedule) DrawsBy() Rule {
	if s, ok := p.Base.(ByLosses); ok {
		p.Base = s.DrawsBy()
	}
	return p
}

// clientQuestion is what a policy is asked about: a client with up to local_steps steps.
type clientQuestion struct {
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

// questionAbout makes the question that the Python class is asked about one client: its number, its samples
// if they are known, the round's deadline in seconds if there is one, and how many seconds 1, 2, ... up to
// maxSteps local steps are expected to take it, if that is known.
func questionAbout(setup *Setup, client, maxSteps int) clientQuestion {
	question := clientQuestion{Number: client, LocalSteps: maxSteps}
	if setup.Samples != nil {
		samples := setup.Samples(client)
		question.Samples = &samples
	}
	if setup.Deadline > 0 {
		deadline := setup.Deadline.Seconds()
		question.Deadline = &deadline
	}
	if setup.Expect == nil {
		return question
	}
	for steps := range min(maxSteps, maxTimes) {
		question.Seconds = append(question.Seconds, setup.Expect(client, steps+1).Seconds())
	}
	return question
}

// maxTimes bounds the times that a policy is given.
const maxTimes = 1000

// Limit implements [Limiting]: it returns how many local steps a client takes in a round, from 0 to
// maxSteps, by the answer of the Python class. 0 leaves the client out. An answer out of range is reported
// as a failure. The client then takes as many as the rule that draws the clients allows.
func (p ClientSchedule) Limit(setup *Setup, client, maxSteps int) int {
	maxSteps = LimitOf(p.Base, setup, client, maxSteps)
	if p.Asker() == nil || maxSteps == 0 || !p.Asker().Has("local_steps") {
		return maxSteps
	}
	var steps int
	if !p.Asker().Ask("local_steps", questionAbout(setup, client, maxSteps), &steps) {
		return maxSteps
	}
	if steps < 0 || steps > maxSteps {
		p.Asker().Fail("local_steps", "%d local steps of client %d are not from 0 to %d", steps, client, maxSteps)
		return maxSteps
	}
	return steps
}

// Rate implements [Rating]: it returns the learning rate of one client's task by the answer of the Python
// class. steps are the task's local steps. rate is that of the round; it holds if the class has no such
// method or fails.
func (p ClientSchedule) Rate(setup *Setup, client, steps int, rate float64) float64 {
	if p.Asker() == nil || !p.Asker().Has("learning_rate") {
		return rate
	}
	question := questionAbout(setup, client, steps)
	question.LearningRate = &rate
	var answer float64
	if !p.Asker().Ask("learning_rate", question, &answer) {
		return rate
	}
	if !(answer >= 0) || answer > maxRate {
		p.Asker().Fail("learning_rate", "%g of client %d is not from 0 to %g", answer, client, float64(maxRate))
		return rate
	}
	return answer
}

// maxRate bounds the learning rate of a task.
const maxRate = 1e9

// Deadline returns the deadline that the base rule sets for a round with these clients, 0 if it
// sets none. steps returns the local steps of a client.
func (p ClientSchedule) Deadline(setup *Setup, clients []int32, steps func(client int) int) Time {
	if limiting := LimitingOf(p.Base); limiting != nil {
		return limiting.Deadline(setup, clients, steps)
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
