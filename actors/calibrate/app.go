package calibrate

import (
	"errors"
	"slices"

	"fedpace/internal/robust"
	"fedpace/internal/tasks"
)

// AppTask is a message that a Flower app's client has served: how many local steps it took, and the seconds of
// processor time.
type AppTask struct {
	Steps   int
	Seconds float64
}

// ComputeOfApp returns the time of local steps from the messages that clients of a Flower app have served, in their
// order. The first one counts only as the first task, as it loads what the others find loaded. A line through the
// seconds of messages over their steps (Theil and Sen) gives the time of a step as its slope and the overhead of a
// message as what remains. If there is no such line, because all messages have the same number of steps, the overhead
// is 0. name and kernel are the app's and its Python's, for people. Fewer than two messages with steps are an error.
func ComputeOfApp(name, kernel string, list []AppTask) (Compute, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(t AppTask) bool { return t.Steps <= 0 || t.Seconds <= 0 })
	if len(list) < 2 {
		return Compute{}, errors.New("calibrate: the app's clients took no local steps whose number is known, in at " +
			"least two messages (set flower.steps to a formula, or raise its number of rounds)")
	}
	first := list[0]
	list = list[1:]
	var steps, seconds, ratios []float64
	c := Compute{
		Task:   tasks.Custom,
		Model:  name,
		Kernel: kernel,
		Tasks:  len(list),
		WarmUp: 1,
	}
	for _, t := range list {
		steps = append(steps, float64(t.Steps))
		seconds = append(seconds, t.Seconds)
		ratios = append(ratios, t.Seconds/float64(t.Steps))
		c.Steps = max(c.Steps, t.Steps)
		c.Seconds += t.Seconds
	}
	c.SecondsPerStep = robust.MedianOf(ratios, 0.95)
	slope, ok := robust.Slope(steps, seconds, 0.975)
	// If the interval of the slope includes 0, the times do not show what a step takes.
	if ok && slope.Low > 0 {
		c.SecondsPerStep = slope
		c.Overhead = c.messageOverhead(steps, seconds)
	}
	// A factor is the time of a message's steps over that which their number makes expected.
	var factors []float64
	for i := range steps {
		expected := c.SecondsPerStep.Value * steps[i]
		factors = append(factors, max(minFactor, (seconds[i]-c.Overhead.Value)/expected))
	}
	blocks := robust.BlocksOf(factors)
	c.Scatter = robust.Deviation(factors)
	c.Uncertainty = min(1, blocks.Next)
	c.Noisy = len(list) < minRounds || c.SecondsPerStep.RelativeHalfWidth() > MaxWidth
	c.Vary = vary(blocks.Rest)
	c.FirstTask = max(0, first.Seconds-c.Overhead.Value-c.SecondsPerStep.Value*float64(first.Steps))
	return c, nil
}

// messageOverhead returns what a message takes besides its steps, in seconds: the median over the messages of
// a message's time less the time of its steps. Message i had steps[i] steps and took seconds[i]. The overhead
// is at least 0 and less than the shortest message. Its interval follows from that of a step's time.
func (c *Compute) messageOverhead(steps, seconds []float64) robust.Estimate {
	limit := maxOverheadShare * slices.Min(seconds)
	overhead := func(secondsPerStep float64) float64 {
		var overheads []float64
		for i := range steps {
			overheads = append(overheads, seconds[i]-secondsPerStep*steps[i])
		}
		return min(max(0, robust.Median(overheads)), limit)
	}
	// The longer a step takes, the less is left for the overhead.
	s := c.SecondsPerStep
	return robust.Estimate{Value: overhead(s.Value), Low: overhead(s.High), High: overhead(s.Low)}
}
