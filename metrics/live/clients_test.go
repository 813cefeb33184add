package live

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedpace/coordinator/round"
	"fedpace/learn/metric"
	"fedpace/metrics"
)

// Of five clients, 0 trained twice, 3 once, and the others never; an update that is refused after all does
// not count, nor a task whose round is still open.
func TestParticipation_ByNumberOfUpdates(t *testing.T) {
	h := New(&metrics.Run{Clients: 5})
	task := func(client int, outcome round.Outcome) *round.TaskReport {
		return &round.TaskReport{Client: client, Outcome: outcome}
	}
	closeRound := func(number int) {
		if err := h.Round(&metrics.Round{Report: round.Report{Round: number}, Usage: &metrics.Usage{}}); err != nil {
			t.Fatal(err)
		}
	}
	h.Task(task(0, round.Accepted))
	h.Task(task(1, round.Late))
	h.Task(&round.TaskReport{Client: 2, Outcome: round.Accepted, Probe: true})
	h.Task(task(4, round.Accepted))
	h.Task(&round.TaskReport{Client: 4, Outcome: round.Refused, Revises: true})
	closeRound(1)
	h.Task(task(0, round.Accepted))
	h.Task(task(3, round.Accepted))
	closeRound(2)
	h.Task(task(1, round.Accepted))

	got := h.state.participation.histogram(&h.run)
	want := []bar{{0, 1, 3}, {1, 2, 1}, {2, 3, 1}}
	if got.Since != 1 || !slices.Equal(got.Bars, want) {
		t.Errorf("the histogram since round %d is %v, want %v since round 1", got.Since, got.Bars, want)
	}
	if most := []clientCount{{Client: 0, Updates: 2}, {Client: 3, Updates: 1}}; !slices.Equal(got.Most, most) {
		t.Errorf("clients trained most often: %v, want %v", got.Most, most)
	}
	named := h.run
	named.Clients = 3
	named.Devices = []string{"pi"}
	named.Client = func(client int) string { return fmt.Sprintf("site %d", client) }
	most := h.state.participation.histogram(&named).Most
	if want := []clientCount{{0, "site 0", 2}, {3, "pi", 1}}; !slices.Equal(most, want) {
		t.Errorf("with names, clients trained most often: %v, want %v", most, want)
	}
	// The tables of a run say the same at once.
	h.Participation([]uint32{2, 0, 0, 1})
	if again := h.state.participation.histogram(&h.run); !slices.Equal(again.Bars, want) {
		t.Errorf("from a table the histogram is %v, want %v", again.Bars, want)
	}
}

// Many different numbers of updates share bars of equal width, which hold all clients.
func TestParticipation_ManyUpdates(t *testing.T) {
	var p participation
	p.since = 1
	for client := range 100 {
		for range client {
			p.add(client)
		}
	}
	shown := p.histogram(&metrics.Run{Clients: 100})
	sum := uint64(0)
	for _, b := range shown.Bars {
		sum += b.Count
		// 100 numbers from 0 to 99 in at most 32 bars take four each.
		if b.To-b.From != 4 || b.Count != 4 {
			t.Errorf("a bar from %v to %v has %d clients, want 4 in a bar of 4", b.From, b.To, b.Count)
		}
	}
	if len(shown.Bars) != 25 || sum != 100 {
		t.Errorf("%d bars have %d clients, want 25 with 100", len(shown.Bars), sum)
	}
}

// The highest value is in the last bar, a client without the metric in none.
func TestHistogram_OfMetric(t *testing.T) {
	scores := func(values ...float64) (list []metric.ClientScore) {
		for _, v := range values {
			list = append(list, metric.ClientScore{Metrics: []float64{v}})
		}
		return list
	}
	bars := histogram(scores(0, 0.04, 0.06, 1, 1, math.NaN()), 0)
	if len(bars) != accuracyBars || bars[0].Count != 2 || bars[1].Count != 1 || bars[19].Count != 2 {
		t.Errorf("the bars are %v", bars)
	}
	if bars := histogram(scores(0.5, 0.5), 0); len(bars) != 1 || bars[0].Count != 2 {
		t.Errorf("values that are all alike have the bars %v", bars)
	}
	if bars := histogram(scores(math.NaN()), 0); len(bars) != 0 {
		t.Errorf("no value has the bars %v", bars)
	}
}
