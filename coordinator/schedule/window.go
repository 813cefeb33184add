package schedule

import (
	"fmt"
	"math"
	"slices"
)

// MaxWindow bounds WindowConfig.Size.
const MaxWindow = 1_000_000

// WindowConfig says how the training loss is estimated.
type WindowConfig struct {
	Size int // s of Eq. 15, 1 to MaxWindow; the paper's is 100

	// FirstRound takes F_0 from the first round that has a loss. Otherwise
	// F_0 is the mean of the first full window, which the paper's Table 4
	// fits better; the paper does not define F_0.
	FirstRound bool
}

// Window estimates the training loss F_r of Eq. 15: the mean over the last s
// rounds of their cohorts' mean first-step loss. When round r starts these are
// the rounds r-s to r-1; the printed sum includes round r itself, which is not
// known yet.
//
// A round without a loss (nothing was accepted, or nothing is trained) counts
// as one of the s rounds, and is left out of the mean. A window of such rounds
// alone has no mean, and schedules keep K_0 and eta_0.
//
// Sums are formed anew each time, oldest round first: they do not drift, and a
// restored window goes on to the same bits.
type Window struct {
	config WindowConfig
	state  WindowState
}

// WindowState is all that a window remembers. It contains no NaN, so any
// encoding that keeps float64 exact (encoding/json among them) restores it.
type WindowState struct {
	Rounds int         // rounds observed
	Recent []RoundLoss // those of the last s that have a loss, oldest first
	F0     float64     // if HasF0
	HasF0  bool
}

// RoundLoss is a round's mean first-step loss over its cohort.
type RoundLoss struct {
	Round int // from 1
	Loss  float64
}

// NewWindow returns a window that has observed no round.
func NewWindow(c WindowConfig) (*Window, error) { return RestoreWindow(c, WindowState{}) }

// RestoreWindow returns a window that goes on from a state. It returns an error
// for a state that such a window cannot have come to.
func RestoreWindow(c WindowConfig, s WindowState) (*Window, error) {
	if c.Size < 1 || c.Size > MaxWindow {
		return nil, fmt.Errorf("schedule: a loss window of %d rounds, want 1 to %d", c.Size, MaxWindow)
	}
	bad := func(format string, args ...any) (*Window, error) {
		return nil, fmt.Errorf("schedule: loss window state: %s", fmt.Sprintf(format, args...))
	}
	if s.Rounds < 0 {
		return bad("%d rounds observed", s.Rounds)
	}
	last := max(0, s.Rounds-c.Size)
	for _, r := range s.Recent {
		if r.Round <= last || r.Round > s.Rounds {
			return bad("a loss of round %d, want an ascending one from %d to %d", r.Round, last+1, s.Rounds)
		}
		if !finite(r.Loss) {
			return bad("the loss of round %d is %v", r.Round, r.Loss)
		}
		last = r.Round
	}
	early := !c.FirstRound && s.Rounds < c.Size
	if s.HasF0 && (!finite(s.F0) || early || s.Rounds == 0) {
		return bad("F_0 is %v after %d rounds", s.F0, s.Rounds)
	}
	if !s.HasF0 && len(s.Recent) > 0 && !early {
		return bad("no F_0 after %d rounds", s.Rounds)
	}
	s.Recent = slices.Clone(s.Recent)
	return &Window{config: c, state: s}, nil
}

// State returns a copy of what the window remembers.
func (w *Window) State() WindowState {
	s := w.state
	s.Recent = slices.Clone(s.Recent)
	return s
}

// Observe adds the next round's loss; NaN stands for a round without one. It
// panics when the loss is infinite.
func (w *Window) Observe(loss float64) {
	s := &w.state
	s.Rounds++
	for len(s.Recent) > 0 && s.Recent[0].Round <= s.Rounds-w.config.Size {
		s.Recent = s.Recent[1:]
	}
	if math.IsInf(loss, 0) {
		panic("schedule: infinite loss")
	}
	if !math.IsNaN(loss) {
		s.Recent = append(s.Recent, RoundLoss{s.Rounds, loss})
	}
	if s.HasF0 || len(s.Recent) == 0 {
		return
	}
	if w.config.FirstRound || s.Rounds >= w.config.Size {
		s.F0, s.HasF0 = w.Mean()
	}
}

// Mean is F_r for the round r that comes next, over the rounds so far when
// they are fewer than s. It reports false when none of them has a loss.
func (w *Window) Mean() (loss float64, ok bool) {
	recent := w.state.Recent
	if len(recent) == 0 {
		return 0, false
	}
	for _, r := range recent {
		loss += r.Loss
	}
	return loss / float64(len(recent)), true
}

// Ratio is F_r/F_0 for the round r that comes next. It reports false, and
// schedules keep K_0 and eta_0, in the first s rounds, when no round of the
// window has a loss, and when F_0 is not positive.
func (w *Window) Ratio() (ratio float64, ok bool) {
	s := &w.state
	if s.Rounds < w.config.Size || !s.HasF0 || s.F0 <= 0 {
		return 0, false
	}
	mean, ok := w.Mean()
	return mean / s.F0, ok
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
