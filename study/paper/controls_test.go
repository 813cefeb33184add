package paper

import (
	"slices"
	"strings"
	"testing"
)

// Controls are runs like others: in folders of their own, with their own names in cells.csv, found
// again by the same plan, and of as much work as the schedule that they control. A constant K of one's
// own is a schedule beside them.
func TestControls_AreCells(t *testing.T) {
	p := small(t)
	p.Schedules, p.Controls = []string{"rounds", "k3=3", "fixed"}, true
	var first []Curve
	for range 2 {
		cells, err := p.Cells()
		if err != nil {
			t.Fatal(err)
		}
		play(t, p, cells)
		more, err := p.Controlled(cells)
		if err != nil {
			t.Fatal(err)
		}
		if ran := play(t, p, more); len(more) != 6 || more[2].Config.Seed != 3 || more[3].Config.Seed != 4 || first == nil && ran != 6 || first != nil && ran != 0 {
			t.Fatalf("%d of %d controls ran, want six, and none again", ran, len(more))
		}
		curves, err := Curves(slices.Concat(cells, more))
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && len(first) != len(curves) {
			t.Errorf("%d curves, then %d", len(first), len(curves))
		}
		first = curves
	}
	var names []string
	steps := map[key]float64{}
	for _, c := range first {
		if !slices.Contains(names, c.Schedule) {
			names = append(names, c.Schedule)
		}
		steps[c.key()] = c.RelativeSteps
	}
	if want := []string{"fixed", "rounds", "k3", "rounds-constant", "rounds-reversed", "rounds-shuffled"}; !slices.Equal(names, want) {
		t.Errorf("the curves are of %v, want %v", names, want)
	}
	for _, c := range first {
		if of, _, is := strings.Cut(c.Schedule, "-"); is && c.RelativeSteps != steps[key{c.Task, of, c.Seed, c.Megabits}] {
			t.Errorf("%s takes %v of fixed's steps, %s %v", c.Schedule, c.RelativeSteps, of, steps[key{c.Task, of, c.Seed, c.Megabits}])
		}
	}
	if len(groups(first)) != len(names) {
		t.Errorf("%d groups of %d schedules", len(groups(first)), len(names))
	}
	p.Sets = append(p.Sets, "schedule.unit=epochs")
	if _, err := p.Cells(); err == nil || !strings.Contains(err.Error(), "schedule.unit: clients whose K counts epochs") {
		t.Errorf("controls of epochs: %v", err)
	}
}

// Runs of several folders are one evaluation. One that was played twice must have come to the same.
func TestLoad_MergesFolders(t *testing.T) {
	write := func(curves ...Curve) string {
		dir := t.TempDir()
		if err := Write(dir, curves); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	fixed, rounds := seeds("fixed", 0.5, 0.6), seeds("rounds", 0.7, 0.8)
	again := fixed[1]
	again.Points = append(slices.Clone(again.Points[:1]), Point{Round: 2, VirtualSeconds: 50, BestAccuracy: again.Points[0].BestAccuracy}, again.Points[1])
	a, b := write(rounds[1], fixed[0], fixed[1]), write(again, rounds[0])
	all, err := Load(a, b)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, c := range all {
		order = append(order, c.Schedule)
	}
	if want := []string{"fixed", "fixed", "rounds", "rounds"}; !slices.Equal(order, want) || all[2].Seed != 1 || len(all[1].Points) != 3 {
		t.Errorf("%v, %d points; want %v, the run that has more points", order, len(all[1].Points), want)
	}
	again.TailAccuracy = 0.9
	if _, err := Load(a, write(again)); err == nil || !strings.Contains(err.Error(), "came to something else") {
		t.Errorf("one run with two outcomes: %v", err)
	}
}
