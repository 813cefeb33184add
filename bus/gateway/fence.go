package gateway

import (
	"maps"
	"slices"
	"time"
)

// By the fencing token of its lease (package natsbus), the messages of a coordinator can be distinguished from those
// of another that had the run before. A device takes nothing with a lower token than the highest that it has heard
// from the run, and repeats that one in its messages, which the earlier coordinator then leaves unanswered. So a
// coordinator that stood still, and does not know yet that another has taken its run over, neither gives out work nor
// ends the run on the devices.

// noFence stands for the token of a message without one, which every device takes.
const noFence = 0

const (
	// fencePatience is for how long messages with lower tokens must come alone before a device takes them: the
	// coordinator with the higher one is then gone with its server, and the run goes on through a server whose clock
	// is behind. A coordinator that stood still finds out sooner that it was taken over.
	fencePatience = 30 * time.Second
	// fencePause is the longest pause between two such messages. A coordinator calls a device each second.
	fencePause = 5 * time.Second
	// maxFences is of how many runs a device keeps the tokens.
	maxFences = 64
)

// fences are the highest tokens that a device has heard, by the name of the run.
type fences map[string]fence

// fence is the highest token that a device has heard from a run.
type fence struct {
	token uint64
	// heard is when the last message with a token arrived.
	heard time.Time
	// lowerSince is since when messages with lower tokens come alone, the zero time if none do.
	lowerSince time.Time
}

// admits notes the token of a message that a run has sent, and reports whether the device may take the message, which
// arrives at the time now. It may if the message has no token (noFence), if no higher token was heard from the run, or
// if for fencePatience only tokens below the highest have come, without a pause of more than fencePause.
func (f fences) admits(run string, token uint64, now time.Time) bool {
	if token == noFence {
		return true
	}
	highest, known := f[run]
	if !known && len(f) >= maxFences {
		f.forgetOldest()
	}
	isLower := known && token < highest.token
	switch {
	case !isLower:
		highest = fence{token: token}
	// The lower tokens begin here, or begin again after a pause.
	case highest.lowerSince.IsZero() || now.Sub(highest.heard) > fencePause:
		highest.lowerSince = now
	// The coordinator with the higher token is gone, so this token becomes the highest.
	case now.Sub(highest.lowerSince) > fencePatience:
		highest = fence{token: token}
		isLower = false
	}
	highest.heard = now
	f[run] = highest
	return !isLower
}

// forgetOldest forgets the run of which nothing was heard for longest.
func (f fences) forgetOldest() {
	runs := slices.Collect(maps.Keys(f))
	delete(f, slices.MinFunc(runs, func(a, b string) int { return f[a].heard.Compare(f[b].heard) }))
}
