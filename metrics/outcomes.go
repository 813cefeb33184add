package metrics

import (
	"encoding/json"
	"fmt"
	"math"

	"fedpace/coordinator/round"
)

// Outcomes counts how the tasks of a run ended, by [round.Outcome].
type Outcomes [round.Outcomes]int64

// Add counts one round's tasks.
func (o *Outcomes) Add(r *round.Report) {
	for i, n := range r.Outcomes {
		o[i] += int64(n)
	}
}

// Latest returns a round's report, with the training loss and the validation of the one before
// where they were not measured.
func Latest(previous, r *round.Report) round.Report {
	last := *r
	if math.IsNaN(r.TrainingLoss) {
		last.TrainingLoss = previous.TrainingLoss
	}
	if !r.Evaluated {
		last.ValidationLoss, last.ValidationAccuracy = previous.ValidationLoss, previous.ValidationAccuracy
	}
	return last
}

// MarshalJSON writes an object with the outcomes' names, in their order.
func (o Outcomes) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, n := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%q:%d", round.Outcome(i), n)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes; every outcome must be there.
func (o *Outcomes) UnmarshalJSON(text []byte) error {
	var byName map[string]int64
	if err := json.Unmarshal(text, &byName); err != nil {
		return err
	}
	for i := range o {
		n, ok := byName[round.Outcome(i).String()]
		if !ok {
			return fmt.Errorf("outcomes lack %q", round.Outcome(i))
		}
		o[i] = n
	}
	if len(byName) != len(o) {
		return fmt.Errorf("outcomes hold %d names, want %d", len(byName), len(o))
	}
	return nil
}
