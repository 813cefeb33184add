package flower

import (
	"slices"
	"testing"
)

// jobs are jobs for nodes of these partitions.
func jobs(partitions ...int) (list []*job) {
	for _, p := range partitions {
		list = append(list, &job{task: &Task{Partition: p}})
	}
	return list
}

// A seat takes the newest job of a partition that it knows, else the newest, never one that a process has got.
func TestPool_Steals(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		queue  []int
		known  []int
		isSent bool
		want   int
	}{
		"the newest":               {queue: []int{2, 4, 6}, want: 6},
		"one that it knows":        {queue: []int{2, 4, 6}, known: []int{2, 4}, want: 4},
		"the first that it knows":  {queue: []int{2, 4, 6}, known: []int{2}, want: 2},
		"not one that was sent":    {queue: []int{2, 4, 6}, known: []int{2}, isSent: true, want: 6},
		"none if all were sent":    {queue: []int{2}, isSent: true, want: none},
		"none of an empty queue":   {want: none},
		"none that it knows alone": {queue: []int{2}, known: []int{8}, want: 2},
	} {
		busy := &seat{queue: jobs(c.queue...), busy: true}
		if c.isSent {
			busy.sent = busy.queue[0]
		}
		thief := &seat{known: map[int]bool{}}
		for _, p := range c.known {
			thief.known[p] = true
		}
		p := &Pool{seats: []*seat{thief, busy, {queue: jobs(9)}}}
		got := none
		if j := p.steal(thief); j != nil {
			got = j.task.Partition
		}
		left := slices.ContainsFunc(busy.queue, func(j *job) bool { return j.task.Partition == c.want })
		if got != c.want || left || c.want != none && len(busy.queue) != len(c.queue)-1 {
			t.Errorf("%s: took partition %d of %v, want %d", name, got, c.queue, c.want)
		}
	}
}
