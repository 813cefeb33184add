package natsbus

import (
	"sync"

	"github.com/nats-io/nats.go/jetstream"
)

// sentJobs remembers which jobs the queue has confirmed: those need not be sent
// again when a connection was lost, as long as the stream is the one that took
// them. A second copy would be harmless, but a trainer's work.
type sentJobs struct {
	mu   sync.Mutex
	jobs map[uint64]*sentJob
	last uint64 // highest sequence number that the stream has given
}

type sentJob struct {
	future    jetstream.PubAckFuture
	confirmed bool
}

// maxSent is when those that are no longer open are forgotten.
const maxSent = 4096

func (s *sentJobs) add(job uint64, f jetstream.PubAckFuture, open func(uint64) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs = map[uint64]*sentJob{}
	}
	if len(s.jobs) >= maxSent {
		for n := range s.jobs {
			if !open(n) {
				delete(s.jobs, n)
			}
		}
	}
	s.jobs[job] = &sentJob{future: f}
}

// queued tells whether the stream has a job.
func (s *sentJobs) queued(job uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[job]
	return j != nil && s.confirm(j)
}

func (s *sentJobs) confirm(j *sentJob) bool {
	if j.confirmed {
		return true
	}
	select {
	case ack := <-j.future.Ok():
		j.confirmed = true
		s.last = max(s.last, ack.Sequence)
	default:
	}
	return j.confirmed
}

// among counts the confirmed jobs of a kind and returns the stream's highest
// sequence number known.
func (s *sentJobs) among(open func(uint64) bool) (list []uint64, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, j := range s.jobs {
		if s.confirm(j) && open(n) {
			list = append(list, n)
		}
	}
	return list, s.last
}

// forget is for a stream that is new.
func (s *sentJobs) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.jobs)
	s.last = 0
}
