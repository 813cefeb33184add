package memory

import (
	"context"
	"sync"

	"fedpace/bus"
	"fedpace/internal/mailbox"
)

// planSlab is memory for the plans of one batch, with the plans of earlier batches still in it.
type planSlab struct {
	// count is how many of the plans are in use.
	count int
	plans [batchSize]bus.Plan
}

// reset makes the first count plans empty but for Task and Placement, which Host.answer sets in each. The plans keep
// the memory of their stages.
func (s *planSlab) reset(count int) {
	s.count = count
	for i := range s.plans[:count] {
		p := &s.plans[i]
		p.DownloadNs = 0
		p.ComputeNs = 0
		p.UploadNs = 0
		p.Dropout = nil
		p.Others = nil
		p.Client = 0
		p.Fence = 0
		p.StageNs = p.StageNs[:0]
	}
}

// planQueue hands the plans of hosts to the coordinator, and reuses their memory: a plan belongs to the
// coordinator until it takes the next ones.
type planQueue struct {
	box *mailbox.Mailbox[bus.ClientPlan]

	// mu guards what follows, and is held while plans are put into the box. So the slabs stand in
	// the order of their plans in the box.
	mu sync.Mutex
	// filledSlabs are the slabs whose plans are in the box, or with the coordinator.
	filledSlabs []*planSlab
	// freeSlabs are slabs that nobody uses.
	freeSlabs []*planSlab
	// takenSlabs is how many of filledSlabs, from the front, are with the coordinator.
	takenSlabs int
}

// newPlanQueue returns an empty queue for at most limit plans.
func newPlanQueue(limit int) *planQueue {
	return &planQueue{box: mailbox.New[bus.ClientPlan](limit)}
}

// slab returns memory for count empty plans, which are at most batchSize. It goes back to the queue by put.
func (q *planQueue) slab(count int) *planSlab {
	q.mu.Lock()
	var s *planSlab
	if last := len(q.freeSlabs) - 1; last >= 0 {
		s = q.freeSlabs[last]
		q.freeSlabs = q.freeSlabs[:last]
	}
	q.mu.Unlock()
	if s == nil {
		s = new(planSlab)
	}
	s.reset(count)
	return s
}

// put adds plans for the next take. They are the first s.count plans of the slab s, which becomes one of the filled
// ones: its memory is in use until the take after the next.
func (q *planQueue) put(s *planSlab, plans []bus.ClientPlan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.filledSlabs = append(q.filledSlabs, s)
	q.box.PutAll(plans)
}

// take waits for plans and returns all that are there. The memory of those that it returned before, in their
// slabs, is used again from now on, so the caller must not read them any more. buffer is as for [mailbox.Mailbox.Take],
// whose errors it returns.
func (q *planQueue) take(ctx context.Context, buffer []bus.ClientPlan) ([]bus.ClientPlan, error) {
	q.recycle()
	plans, err := q.box.Take(ctx, buffer)
	q.mu.Lock()
	defer q.mu.Unlock()
	// The box gives out the plans of whole slabs, in the order in which they were put, so the plans are those of the
	// first slabs. These are with the coordinator until the next take.
	for remaining := len(plans); remaining > 0; q.takenSlabs++ {
		remaining -= q.filledSlabs[q.takenSlabs].count
	}
	return plans, err
}

// recycle moves the slabs whose plans the coordinator got at the last take to the free ones. They are the first
// takenSlabs of filledSlabs.
func (q *planQueue) recycle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freeSlabs = append(q.freeSlabs, q.filledSlabs[:q.takenSlabs]...)
	q.filledSlabs = append(q.filledSlabs[:0], q.filledSlabs[q.takenSlabs:]...)
	q.takenSlabs = 0
}
