package gateway

import "time"

// Stats are what a gateway knows of all its devices.
type Stats struct {
	Present    int       // joined and not given up
	Silent     int       // were heard of, and are given up or heard no more
	Heartbeats int64     // received
	Refused    int64     // messages that did not count
	Oldest     time.Time // when the most silent of those present was last heard of; zero: none is
}

// Stats may be asked for at any time, also after Close.
func (g *Gateway) Stats() Stats {
	var v Stats
	for _, x := range g.devices {
		v.Heartbeats += x.beats.Load()
		heard := x.lastHeard()
		x.mu.Lock()
		joined := x.joined
		for _, n := range x.refused {
			v.Refused += int64(n)
		}
		x.mu.Unlock()
		switch {
		case joined:
			v.Present++
			if v.Oldest.IsZero() || heard.Before(v.Oldest) {
				v.Oldest = heard
			}
		case !heard.IsZero():
			v.Silent++
		}
	}
	return v
}
