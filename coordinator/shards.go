package coordinator

import "fedpace/bus"

// Held-out samples are measured in shards of fixed places and sizes, so the
// order in which losses are added is, too, whoever measures them.
const (
	shard  = 1024 // samples, where all are measured
	spread = 64   // samples, where some are: neighbours are alike (one writer's, one role's)
)

// shards covers all held-out samples, or so many of them (0: all) in small
// shards at even distances.
func shards(heldOut, samples int) []*bus.Shard {
	if samples == 0 || samples >= heldOut {
		list := make([]*bus.Shard, (heldOut+shard-1)/shard)
		for i := range list {
			list[i] = &bus.Shard{Index: uint32(i), From: uint64(i * shard), Count: uint64(min(shard, heldOut-i*shard))}
		}
		return list
	}
	list := make([]*bus.Shard, (samples+spread-1)/spread)
	for i := range list {
		from := int(int64(i) * int64(heldOut) / int64(len(list)))
		list[i] = &bus.Shard{Index: uint32(i), From: uint64(from), Count: uint64(min(spread, samples-i*spread))}
	}
	// Where the distance is less than a shard, samples near all of them are
	// wanted: each shard ends where the next begins.
	for i := range list[:len(list)-1] {
		list[i].Count = min(list[i].Count, list[i+1].From-list[i].From)
	}
	last := list[len(list)-1]
	last.Count = min(last.Count, uint64(heldOut)-last.From)
	return list
}
