package fairshare

import "math"

// Link is a server's bandwidth in both directions. A direction that is nil is not shared:
// transfers that way do not touch each other.
type Link struct{ Down, Up *FairLink }

// NewLink returns a link on which a transfer needs so much each way, nothing where that way
// is not shared; nil: neither is.
func NewLink(down, up Work, now int64) *Link {
	if down.IsZero() && up.IsZero() {
		return nil
	}
	l := &Link{}
	if !down.IsZero() {
		l.Down = New(down, now)
	}
	if !up.IsZero() {
		l.Up = New(up, now)
	}
	return l
}

// Due is the time at which the next transfer is complete; false: none is under way.
func (l *Link) Due() (at int64, ok bool) {
	for _, way := range [...]*FairLink{l.Down, l.Up} {
		if way == nil {
			continue
		}
		if next, due := way.Due(); due && (!ok || next < at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// Take takes one transfer off the link that is complete by now, those down before those
// up. way is where it was; nil: none is.
func (l *Link) Take(now int64) (id uint64, way *FairLink) {
	for _, way := range [...]*FairLink{l.Down, l.Up} {
		if way == nil {
			continue
		}
		if id, ok := way.Take(now); ok {
			return id, way
		}
	}
	return 0, nil
}

// Stretched is how long a transfer takes at the pace that left a part of it undone after
// so long, at most most; own is its time by itself.
func Stretched(after, own int64, left float64, most int64) int64 {
	switch {
	case left <= 0:
		return after
	case left >= 1 || after == 0:
		return max(own, after+1)
	}
	whole := math.Round(float64(after) / (1 - left))
	return int64(min(max(whole, float64(after+1)), float64(most)))
}
