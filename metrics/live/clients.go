package live

import (
	"math"
	"slices"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// participation counts how often each client trained: how many of its updates are in a model. A task
// counts once its round has closed.
type participation struct {
	// updates holds the number of accepted updates by client. It is as long as the largest number of a
	// client that had one.
	updates []uint32
	// clients holds, by a number of updates, how many clients have had as many. The entry of 0 counts
	// only those that are in updates.
	clients []int
	// since is the first round whose tasks were counted. A run that was resumed does not report the
	// tasks of its earlier rounds again; 0: none was counted yet.
	since int
}

// add counts an accepted update of a client.
func (p *participation) add(client int) {
	for client >= len(p.updates) {
		p.updates = append(p.updates, 0)
	}
	if len(p.clients) == 0 {
		p.clients = []int{0}
	}
	n := p.updates[client]
	// A client that trains for the first time is not among those that have trained.
	if n > 0 {
		p.clients[n]--
	}
	n++
	p.updates[client] = n
	if int(n) == len(p.clients) {
		p.clients = append(p.clients, 0)
	}
	p.clients[n]++
}

// participationShown is a histogram of how often clients trained.
type participationShown struct {
	// Since is the first round that is counted; 0: none is known.
	Since int `json:"since"`
	// Bars count the clients by their number of accepted updates, from From to below To.
	Bars []bar `json:"bars"`
	// Most are the clients that trained most often, in descending order.
	Most []clientCount `json:"most"`
}

// clientCount is a client with the number of its accepted updates.
type clientCount struct {
	Client  int    `json:"client"`
	Updates uint32 `json:"updates"`
}

// shownClients bounds the clients that are named in the histogram of participation.
const shownClients = 5

// shown makes the histogram of a run's clients. Clients without an update are in its first bar.
func (p *participation) shown(run *metrics.Run) participationShown {
	result := participationShown{Since: p.since, Bars: []bar{}, Most: []clientCount{}}
	if p.since == 0 {
		return result
	}
	counts := slices.Clone(p.clients)
	if len(counts) == 0 {
		counts = []int{0}
	}
	trained := 0
	for _, n := range counts[1:] {
		trained += n
	}
	counts[0] = max(0, run.Clients+len(run.Devices)-trained)
	width := (len(counts) + maxBars - 1) / maxBars
	for from := 0; from < len(counts); from += width {
		to := min(from+width, len(counts))
		sum := 0
		for _, n := range counts[from:to] {
			sum += n
		}
		result.Bars = append(result.Bars, bar{number(from), number(from + width), uint64(sum)})
	}
	result.Most = p.top()
	return result
}

// top returns the clients that trained most often, ties in ascending order of their numbers.
func (p *participation) top() []clientCount {
	list := []clientCount{}
	for client, n := range p.updates {
		if n == 0 || len(list) == shownClients && n <= list[len(list)-1].Updates {
			continue
		}
		place, _ := slices.BinarySearchFunc(list, n, func(c clientCount, n uint32) int {
			if c.Updates >= n {
				return -1
			}
			return 1
		})
		list = slices.Insert(list, place, clientCount{Client: client, Updates: n})
		list = list[:min(len(list), shownClients)]
	}
	return list
}

// Task implements [metrics.TaskObserver]: accepted updates count for their clients once the round has
// closed. It runs in the run's goroutine, as Round does, and takes no lock.
func (h *Hub) Task(e *round.TaskReport) {
	switch {
	case e.Probe:
	case e.Revises:
		// An update that was accepted is refused after all.
		if i := slices.Index(h.accepted, e.Client); i >= 0 {
			h.accepted = slices.Delete(h.accepted, i, i+1)
		}
	case e.Outcome == round.Accepted:
		h.accepted = append(h.accepted, e.Client)
	}
}

// Participation sets how often each client trained in all rounds so far, as the run's tables say: an
// update counts for the client whose number is its index.
func (h *Hub) Participation(updates []uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.version++
	h.state.participation = participation{since: 1}
	for client, n := range updates {
		for range n {
			h.state.participation.add(client)
		}
	}
}

// histogram divides the values of a metric among bars of equal width, at most maxBars. NaN values, of
// clients that lack the metric, are left out. Values that are all alike are one bar.
func histogram(scores []metric.ClientScore, place int) []bar {
	bars := []bar{}
	lowest := math.Inf(1)
	highest := math.Inf(-1)
	for i := range scores {
		v := scores[i].Metrics[place]
		if !math.IsNaN(v) {
			lowest = min(lowest, v)
			highest = max(highest, v)
		}
	}
	if lowest > highest {
		return bars
	}
	n := accuracyBars
	if lowest == highest {
		n = 1
	}
	width := (highest - lowest) / float64(n)
	for i := range n {
		bars = append(bars, bar{number(lowest + float64(i)*width), number(lowest + float64(i+1)*width), 0})
	}
	for i := range scores {
		v := scores[i].Metrics[place]
		if !math.IsNaN(v) {
			// The highest value belongs to the last bar, and where all are alike the width is zero.
			at := n - 1
			if v < highest {
				at = min(n-1, int((v-lowest)/width))
			}
			bars[at].Count++
		}
	}
	return bars
}

// accuracyBars is the number of bars of a metric over clients.
const accuracyBars = 20
