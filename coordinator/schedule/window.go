package schedule

import (
	"math"
	"slices"
)

// WindowConfig says how the training loss is estimated.
type WindowConfig struct {
	// Size is s of Eq. 15, the number of rounds in the mean, at least 1. The paper's is 100.
	Size int

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
// Sums are calculated from the list each time, oldest round first: they do not drift, and a
// restored window continues with the same bits. Its fields are all that it remembers.
// They hold no NaN, so any encoding that keeps float64 exact (encoding/json among
// them) keeps a window for [RestoreWindow].
type Window struct {
	// Rounds is how many rounds were observed.
	Rounds int
	// Recent are those of the last s rounds that have a loss, oldest first.
	Recent []RoundLoss
	// F0 is the loss that later ones are measured against. It is known only if HasF0.
	F0    float64
	HasF0 bool

	config WindowConfig
}

// RoundLoss is a round's mean first-step loss over its cohort.
type RoundLoss struct {
	// Round is the number of the round, from 1.
	Round int
	Loss  float64
}

// NewWindow returns a window that has observed no round.
func NewWindow(c WindowConfig) Window { return RestoreWindow(c, Window{}) }

// RestoreWindow returns a copy of a window, as a checkpoint holds it, that follows the configuration from
// here on.
func RestoreWindow(config WindowConfig, window Window) Window {
	window.Recent = slices.Clone(window.Recent)
	window.config = config
	return window
}

// Observe takes the loss of the next round, NaN for a round without one. The window then spans the
// last Size rounds. The initial loss F_0 is set once, when the window is full, or after the first
// loss if the configuration says so.
func (w *Window) Observe(loss float64) {
	w.Rounds++
	for len(w.Recent) > 0 && w.Recent[0].Round <= w.Rounds-w.config.Size {
		w.Recent = w.Recent[1:]
	}
	// A round without a loss takes its place in the window, and adds nothing to the mean.
	if !math.IsNaN(loss) {
		w.Recent = append(w.Recent, RoundLoss{w.Rounds, loss})
	}
	hasLoss := len(w.Recent) > 0
	isFull := w.Rounds >= w.config.Size
	if !w.HasF0 && hasLoss && (isFull || w.config.FirstRound) {
		w.F0 = w.Mean()
		w.HasF0 = true
	}
}

// Mean returns F_r for the round r that comes next: the mean loss of the last s rounds, or of all
// rounds while they are fewer. It is NaN if none of them has a loss.
func (w *Window) Mean() (loss float64) {
	for _, round := range w.Recent {
		loss += round.Loss
	}
	return loss / float64(len(w.Recent))
}

// Ratio returns F_r/F_0 for the round r that comes next. ok is false, and
// schedules keep K_0 and eta_0, in the first s rounds, when no round of the
// window has a loss, and when F_0 is not positive.
func (w *Window) Ratio() (ratio float64, ok bool) {
	isFull := w.Rounds >= w.config.Size
	hasLoss := len(w.Recent) > 0
	hasBase := w.HasF0 && w.F0 > 0
	if !isFull || !hasLoss || !hasBase {
		return 0, false
	}
	return w.Mean() / w.F0, true
}

// Loss says which loss of a round F_r is made of. The zero value is the mean
// first-step loss of the round's clients (Eq. 15's inner mean).
type Loss struct {
	// Validation takes the newest validation loss, which the run measures every few rounds.
	Validation bool
	// Trim takes the trimmed mean of the clients' losses, where it is above 0: the share that is
	// left out at each end, below 1/2 (see [TrimmedMean]).
	Trim float64
}

// TrimmedMean returns the mean of the values without the lowest and the highest ones: at each end the part
// trimmedShare of them, from 0 to less than 1/2, is left out, rounded down to a whole number of values (Yin
// et al., ICML 2018, Definition 2). A few clients with absurd losses therefore do not move it. It does not
// depend on the order of the values, and is NaN if there are none.
func TrimmedMean(values []float64, trimmedShare float64) (mean float64) {
	sorted := slices.Sorted(slices.Values(values))
	cut := int(math.Floor(trimmedShare * float64(len(values))))
	sorted = sorted[cut : len(sorted)-cut]
	for _, value := range sorted {
		mean += value
	}
	return mean / float64(len(sorted))
}
