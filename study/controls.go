package study

import (
	"fmt"
	"slices"

	"fedpace/config"
	"fedpace/coordinator/schedule"
	"fedpace/internal/keyed"
)

// The kinds of controls of a schedule whose K decays. The first takes as many local steps as the schedule,
// at a K that does not decay; the others have the schedule's values of K in another order.
const (
	constantK = "constant"
	reversedK = "reversed"
	shuffledK = "shuffled"
)

// Kinds are those of controls, in the order in which they are played.
var Kinds = []string{constantK, reversedK, shuffledK}

// maxBlocks bounds the blocks of rounds that a shuffled control puts in another order. A run of at most as
// many rounds has blocks of one round.
const maxBlocks = 4096

// Controllable returns nil if controls can be played for these cells, and otherwise an error that
// says why not: K counts epochs, of which clients with more samples do more steps.
func Controllable(cells []Cell) error {
	if slices.ContainsFunc(cells, func(c Cell) bool { return c.Config.Schedule.Unit == config.Epochs }) {
		return &config.KeyError{
			Key: "schedule.unit",
			Problem: "clients whose K counts epochs take unlike numbers of steps, so no constant K does as much " +
				"work (leave out --controls, or count steps)",
		}
	}
	return nil
}

// Controls returns the cells of the controls, which are still to be played: for each of these [Kinds], one for
// each cell whose K decays. The given cells must have been played; those that diverged get no control. The
// controls tell what makes the difference: that the schedule does less work, or that it does less work later on.
func Controls(cells []Cell, kinds ...string) (list []Cell, err error) {
	// The K of the rounds is read from the runs themselves.
	for i := range cells {
		if err := cells[i].measureRounds(); err != nil {
			return nil, err
		}
	}
	for _, kind := range kinds {
		for i := range cells {
			c := &cells[i]
			// A schedule that does not decay has nothing that a control could take away.
			if !decays(c.steps) {
				continue
			}
			control, err := c.control(kind)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", control.Name, err)
			}
			list = append(list, control)
		}
	}
	return list, nil
}

// control returns the control of this kind for a cell that has been played: the same configuration
// with another schedule of K that does as much work. kind is constantK, reversedK or, otherwise, a
// shuffle by the seed.
func (c *Cell) control(kind string) (Cell, error) {
	control := Cell{
		Name:     c.Name + " " + kind,
		Schedule: c.Schedule + "-" + kind,
		Control:  kind,
		Values:   c.Values,
		Point:    c.Point,
		Config:   c.Config,
	}
	// The control has a folder and a schedule name of its own beside those of the run that it
	// controls.
	control.Config.Out = c.Config.Out + "-" + kind
	control.Config.Schedule.Label = control.Schedule
	switch kind {
	case constantK:
		control.Config.Schedule.K = constantSchedule(c.steps)
	// The same values of K in reverse order do as much work, but most of it late.
	case reversedK:
		steps := slices.Clone(c.steps)
		slices.Reverse(steps)
		control.Config.Schedule.K = listSchedule(steps)
	// The same values of K in random order do as much work, at times that have no trend.
	default:
		control.Config.Schedule.K = listSchedule(shuffled(c.steps, c.Config.Seed))
	}
	if err := control.Config.Validate(); err != nil {
		return control, err
	}
	var err error
	control.ID, err = Identity(control.Config)
	return control, err
}

// constantSchedule returns the schedule of K whose values are the two whole numbers next to the mean of steps,
// mixed so that their sum over len(steps) rounds is the sum of steps. Each step makes a round longer by the
// same time, so that both schedules have as many rounds and as many steps in the same virtual time.
func constantSchedule(steps []int) schedule.K {
	sum := 0
	for _, k := range steps {
		sum += k
	}
	// By the end of round r, floor(r·sum/rounds) steps are to be done. K is how many more these are than by
	// the end of the round before.
	return schedule.ExpressionK{Formula: fmt.Sprintf(
		"floor(r * %[1]d / %[2]d) - floor((r - 1) * %[1]d / %[2]d)",
		sum,
		len(steps),
	)}
}

// decays reports whether the sum of K over the second half of the rounds is lower than over the first half.
// steps holds K of each round; of an odd number of rounds the middle one belongs to neither half.
func decays(steps []int) bool {
	half := len(steps) / 2
	// decrease is the sum over the first half less the sum over the second, added up pair by pair.
	decrease := 0
	for i := range half {
		decrease += steps[i] - steps[len(steps)-1-i]
	}
	return decrease > 0
}

// shuffled returns the values of steps with their blocks in an order that the seed draws. A block is one
// value or, so that there are at most [maxBlocks], several that follow each other.
func shuffled(steps []int, seed uint64) (list []int) {
	blocks := slices.Collect(slices.Chunk(steps, 1+(len(steps)-1)/maxBlocks))
	keyed.New(seed, keyed.Control).Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	return slices.Concat(blocks...)
}

// listSchedule returns the schedule in which round i+1 has K = steps[i]. Equal successive values become
// one entry.
func listSchedule(steps []int) schedule.ListK {
	var list schedule.ListK
	for i, k := range steps {
		// An entry holds until the next one begins.
		if i == 0 || k != steps[i-1] {
			list.Values = append(list.Values, schedule.StepsFrom{Value: k, From: schedule.From{Round: i + 1}})
		}
	}
	return list
}
