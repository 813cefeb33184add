package schedule

import "math"

// The constants of [ChangeTest]: TestChangeTest_FalseAlarms measures how rare false alarms are with them, and
// TestChangeTest_Rises which rises are noticed.
const (
	// changeMemory is how many rounds the reference spans: a newer loss counts with 1/changeMemory.
	changeMemory = 30
	// changeLearning is from how many losses on the reference is good enough for a test.
	changeLearning = 10
	// changeAllowance is k, the rise in standard deviations that counts as none.
	changeAllowance = 1
	// changeCap is what the rise of one round counts at most, in standard deviations, so that no single
	// round gives an alarm.
	changeCap = 4
	// changeLimit is h, the sum above which losses have risen.
	changeLimit = 8
)

// ChangeTest notices in the losses of rounds that a run's data have changed: it is a one-sided CUSUM (Page,
// Continuous Inspection Schemes, Biometrika 41, 1954), which sums up by how many standard deviations, less
// an allowance, each loss is above the reference, and never falls below 0. Mean and deviation of the
// reference are estimated on the way (as in the self-starting CUSUM; Hawkins, The Statistician 36, 1987), with
// weights that forget, so that losses which fall as the model learns are no news. Single high losses are cut
// (Hawkins, Journal of Quality Technology 25, 1993). After an alarm the test begins anew.
//
// Its fields are all that it remembers, without NaN as those of [Window].
type ChangeTest struct {
	// Losses is how many losses the reference has seen.
	Losses int
	// Mean and Variance are the reference, with a weight of 1/changeMemory for the newest loss.
	Mean     float64
	Variance float64
	// Rise is the CUSUM, in standard deviations.
	Rise float64
	// Last is the newest change that was noticed.
	Last Change
}

// Change is a change of the data that was seen in the losses. The zero value is none.
type Change struct {
	// Round is the round whose loss gave the alarm, from 1.
	Round int
	// Share is the part of the run that was over then, 0 where no limit says.
	Share float64
}

// Observe takes the loss of the next round, NaN for a round without one, which changes nothing. It reports
// whether losses have risen beyond what their scatter explains. Then it forgets what it has seen, and the
// caller sets Last.
func (c *ChangeTest) Observe(loss float64) (alarm bool) {
	if math.IsNaN(loss) {
		return false
	}
	above := loss - c.Mean
	if c.Losses >= changeLearning {
		// The highest deviation that counts, in the unit of the loss.
		highest := changeCap * math.Sqrt(c.Variance)
		above = min(above, highest)
		rise := float64(changeCap)
		switch {
		case above < highest:
			rise = above / math.Sqrt(c.Variance)
		case loss == c.Mean:
			// All losses so far are equal, and so is this one.
			rise = 0
		}
		c.Rise = max(0, c.Rise+rise-changeAllowance)
		if c.Rise > changeLimit {
			*c = ChangeTest{Last: c.Last}
			return true
		}
	}
	c.Losses = min(c.Losses+1, changeMemory)
	weight := 1 / float64(c.Losses)
	step := float64(weight * above)
	c.Mean += step
	c.Variance = float64((1 - weight) * (c.Variance + float64(step*above)))
	return false
}
