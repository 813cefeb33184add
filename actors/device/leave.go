package device

// Leaves is when a client that begins a task at time at drops out because it is
// not available any longer, however long the task takes; false for one that
// does not, or not for as long as one looks ahead.
func (f *Fleet) Leaves(client int, at int64) (int64, bool) {
	k, _ := f.class(client)
	if !k.dropout.absence || k.presence == nil {
		return 0, false
	}
	const looks = 64 // a stay mostly ends with its first change
	for range looks {
		if !k.presence.At(f.seed, client, at) {
			return at, true
		}
		if at = k.presence.Change(f.seed, client, at); at == Never {
			break
		}
	}
	return 0, false
}
