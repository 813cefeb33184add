package memory

import (
	"testing"

	"pgregory.net/rapid"

	"fedpace/bus"
	_ "fedpace/internal/testkit/testseed"
)

// A plan keeps what its host wrote until the coordinator takes the next ones, in whatever order hosts put and
// the coordinator takes, and a slab that is used again holds nothing of its former plans.
func TestPlanQueue_PlansStayUntilNextTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := newPlanQueue(1 << 20)
		next := 0
		waiting := 0
		var taken []bus.ClientPlan
		check := func() {
			for _, p := range taken {
				if p.Plan.Task != uint64(p.Client) || p.Plan.DownloadNs != int64(p.Client) {
					t.Fatalf("the plan of client %d became %v", p.Client, p.Plan)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				count := rapid.IntRange(1, batchSize).Draw(t, "count")
				slab := queue.slab(count)
				var plans []bus.ClientPlan
				for i := range count {
					p := &slab.plans[i]
					if p.DownloadNs != 0 || p.Dropout != nil || len(p.StageNs) > 0 || p.Fence != 0 {
						t.Fatalf("a new plan holds %v", p)
					}
					p.Task = uint64(next)
					p.DownloadNs = int64(next)
					p.Fence = 7
					p.StageNs = append(p.StageNs, 1, 2, 3, 4)
					p.Dropout = &bus.Dropout{AfterNs: 1}
					plans = append(plans, bus.ClientPlan{Client: next, Plan: p})
					next++
				}
				queue.put(slab, plans)
				waiting += count
				check()
			},
			"take": func(t *rapid.T) {
				// A take would wait for plans.
				if waiting == 0 {
					return
				}
				check()
				var err error
				taken, err = queue.take(t.Context(), taken)
				if err != nil || len(taken) != waiting {
					t.Fatalf("took %d plans (%v), want %d", len(taken), err, waiting)
				}
				waiting = 0
				check()
			},
		})
	})
}
