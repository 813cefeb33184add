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
	// updates[i] is the number of accepted updates of client i. The list ends at the last client that
	// had one.
	updates []uint32
	// since is the first round whose tasks were counted. A run that was resumed does not report the
	// tasks of its earlier rounds again; 0: none was counted yet.
	since int
}

// add counts one accepted update of the client with this number. It is called for every accepted update of
// a run. The client's count is mostly not in the processor's cache, so add must not look at the count, as in a
// comparison: the processor would then wait for the memory, while it can increment the count later.
func (p *participation) add(client int) {
	// The slice reaches only to the largest number seen, not to the whole population.
	for client >= len(p.updates) {
		p.updates = append(p.updates, 0)
	}
	p.updates[client]++
}

// clientsByUpdates returns how many clients have each number of accepted updates: entry n counts the clients with n.
// Entry 0 counts only those clients whose numbers are below that of some client with an update, because p.updates
// reaches no further.
func (p *participation) clientsByUpdates() []int {
	counts := []int{0}
	for _, n := range p.updates {
		for int(n) >= len(counts) {
			counts = append(counts, 0)
		}
		counts[n]++
	}
	return counts
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

// clientCount is a client with the number of its accepted updates, as the page lists it.
type clientCount struct {
	// Client is the number of the client in the run, counted from 0.
	Client int `json:"client"`
	// Name is the name of a real device, or of a simulated client in its data; empty: none.
	Name string `json:"name,omitempty"`
	// Updates is how many of its updates are in a model.
	Updates uint32 `json:"updates"`
}

// shownClients bounds the clients that are named in the histogram of participation.
const shownClients = 5

// histogram returns the histogram for the page: the number of clients by how often they trained. run says
// how many clients there are, simulated and real. Clients without an accepted update are in the first
// bar. The histogram is empty while no task was counted (since is 0).
func (p *participation) histogram(run *metrics.Run) participationShown {
	result := participationShown{Since: p.since, Bars: []bar{}, Most: []clientCount{}}
	if p.since == 0 {
		return result
	}
	counts := p.clientsByUpdates()
	trained := 0
	for _, n := range counts[1:] {
		trained += n
	}
	// All clients that have not trained are without an update, also those beyond the end of p.updates.
	counts[0] = max(0, run.Clients+len(run.Devices)-trained)
	// Each bar covers equally many numbers of updates, so that at most maxBars bars result.
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
	for i, c := range result.Most {
		result.Most[i].Name = run.ClientName(c.Client)
	}
	return result
}

// top returns the clients that trained most often, at most shownClients of them, in descending
// order of their updates, ties in ascending order of their numbers. Clients without an update are
// not listed.
func (p *participation) top() []clientCount {
	list := []clientCount{}
	for client, n := range p.updates {
		// The list is full and this client does not exceed its last one.
		isBelowList := len(list) == shownClients && n <= list[len(list)-1].Updates
		if n == 0 || isBelowList {
			continue
		}
		// The client goes behind all that have as many updates or more, which keeps ties in
		// ascending order.
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

// Task implements [metrics.TaskObserver]: it notes the client of each accepted update in h.accepted, whose clients are
// counted when the round closes. It runs in the run's goroutine, as Round does, and takes no lock.
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

// Participation sets how often each client trained in all rounds so far, as the tables in the folder of
// a run say: updates[i] is the number of accepted updates of client i. It replaces what was counted
// before.
func (h *Hub) Participation(updates []uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.version++
	// The tables have counted from the first round on.
	h.state.participation = participation{since: 1}
	for client, n := range updates {
		for range n {
			h.state.participation.add(client)
		}
	}
}

// histogram divides the values of one metric among bars of equal width, at most accuracyBars.
// scores holds one evaluation for each client, and metricIndex is the index of the metric in it. NaN
// values, of clients that lack the metric, are left out. Values that are all alike are one bar;
// without any value there is none.
func histogram(scores []metric.ClientScore, metricIndex int) []bar {
	bars := []bar{}
	lowest := math.Inf(1)
	highest := math.Inf(-1)
	for i := range scores {
		v := scores[i].Metrics[metricIndex]
		if !math.IsNaN(v) {
			lowest = min(lowest, v)
			highest = max(highest, v)
		}
	}
	// No client has a value.
	if lowest > highest {
		return bars
	}
	n := accuracyBars
	if lowest == highest {
		n = 1
	}
	width := (highest - lowest) / float64(n)
	for i := range n {
		// All bars exist before a value is counted.
		bars = append(bars, bar{number(lowest + float64(i)*width), number(lowest + float64(i+1)*width), 0})
	}
	for i := range scores {
		v := scores[i].Metrics[metricIndex]
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
