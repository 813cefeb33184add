package selection

import "fedpace/internal/keyed"

// tries is after how many clients that are busy or away the others are listed.
const tries = 64

// Draw draws an available client for a task, with probabilities in proportion to the clients'
// weights: by trying or, where few are free, by listing them; each gives it those without a
// task. Its draws are keyed (task, try). It returns false if there is none to draw.
func Draw(from SingleOrder, seed, task uint64, available func(client int) bool, each func(func(client int))) (client int, ok bool) {
	for try := range uint64(tries) {
		if client := from.Pick(keyed.Hash(seed, keyed.Replacement, task, try)); available(client) {
			return client, true
		}
	}
	total := uint64(0)
	var free []int32
	each(func(client int) {
		if w := from.Weight(client); w > 0 && available(client) {
			free = append(free, int32(client))
			total += w
		}
	})
	if total == 0 {
		return 0, false
	}
	x := keyed.Below(keyed.Hash(seed, keyed.Replacement, task, tries), total)
	for _, c := range free {
		w := from.Weight(int(c))
		if x < w {
			return int(c), true
		}
		x -= w
	}
	panic("selection: weights that do not add up")
}
