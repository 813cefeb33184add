package fleet

import (
	"fmt"

	"fedpace/internal/keyed"
	"fedpace/registry"
)

// init registers the model under the name by which a configuration chooses it.
func init() {
	Availabilities.Register(
		"share",
		"as markov, each client with its own share of time",
		Share{},
	)
}

// Share gives each client a two-state Markov chain with its own share of the time, so that clients
// differ in how often they are available.
type Share struct {
	Share        Distribution `key:"share" help:"part of the time, drawn once, at most 1"`
	CycleSeconds float64      `key:"cycle_seconds" range:"[1e-2,1e8]" unit:"seconds" help:"mean length of a stay and an absence together"`
}

// Presence implements [Availability], and reads no file. It is an error unless all shares that can be
// drawn lie above 0 and at most at 1.
func (s Share) Presence(*Files) (Presence, error) {
	if s.Share == nil {
		return nil, registry.Errorf("share", "is not set (a number or a distribution, above 0 and at most 1)")
	}
	sampler, err := samplerOf(s.Share)
	if err == nil && (!(sampler.Min > 0) || sampler.maxDraw() > 1) {
		err = registry.Errorf(
			"",
			"%s goes from %g to %g (above 0 and at most 1: set at_least and at_most)",
			Distributions.Text(s.Share),
			sampler.Min,
			sampler.maxDraw(),
		)
	}
	return &personal{sampler, s.CycleSeconds}, registry.Below("share", err)
}

// String describes this model of availability for people: the distribution of the clients' shares of time in which
// they are available, and the mean length of a stay and an absence together, in seconds.
func (s Share) String() string {
	return fmt.Sprintf(
		"share (%s of the time, a stay and an absence in %g s)",
		Distributions.Text(s.Share),
		s.CycleSeconds,
	)
}

// personal is a Share ready for use: the distribution of the shares, and the mean cycle in seconds.
type personal struct {
	share Sampler
	cycle float64
}

// Share implements [Sharing]: it returns the part of the time, from 0 to 1, for which the client is
// available, which is drawn from the distribution.
func (p *personal) Share(seed uint64, client int) float64 {
	return p.share.Quantile(keyed.Nth(keyed.Hash(seed, keyed.Availability, uint64(client)), 0))
}

// chain returns the client's chain. canLeave is false, and there is no chain, if the client is never
// absent. The points of the chain are at least a millisecond apart in the mean: a client with a share
// so near to 0 or 1 that they would be closer has a longer cycle instead.
func (p *personal) chain(seed uint64, client int) (chain boundedPresence, canLeave bool) {
	share := p.Share(seed, client)
	if share >= 1 {
		return nil, false
	}
	// A stay lasts share·cycle in the mean, and an absence (1−share)·cycle. With these newOnOff would give a window of
	// share·(1−share)·cycle, the mean time between two points.
	window := max(1_000_000, nanoseconds(float64(p.cycle*share)*(1-share)))
	if isRare(share) {
		return newArrivals(window, share), true
	}
	return &onOff{purpose: keyed.Availability, window: window, onBelow: threshold(share)}, true
}

// Present implements [Presence]: it reports whether the client is available at time t, by its chain.
func (p *personal) Present(seed uint64, client int, t int64) bool {
	chain, canLeave := p.chain(seed, client)
	return !canLeave || chain.Present(seed, client, t)
}

// Change implements [Presence]: it returns when the client's presence next differs from that at
// time t, and Never for a client that is always present.
func (p *personal) Change(seed uint64, client int, t int64) int64 {
	chain, canLeave := p.chain(seed, client)
	if !canLeave {
		return Never
	}
	return chain.Change(seed, client, t)
}

// ChangeBy implements boundedPresence, by the client's chain.
func (p *personal) ChangeBy(seed uint64, client int, present bool, from, to int64) int64 {
	chain, canLeave := p.chain(seed, client)
	if !canLeave {
		return Never
	}
	return chain.ChangeBy(seed, client, present, from, to)
}

// Interval implements boundedPresence: it returns a time that is at most the mean one between two points
// of any client's chain that is not one of [arrivals].
func (p *personal) Interval() int64 {
	return max(1_000_000, nanoseconds(p.cycle*rareShare*(1-rareShare)))
}
