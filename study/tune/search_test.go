package tune

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/study"
	"fedpace/study/choice"
)

// At the end the settings of a schedule are played with more seeds until they are told apart or the bound is
// reached, and then with fresh seeds, whose qualities are read here from rounds.csv.
func TestTune_FreshSeedsConfirm(t *testing.T) {
	t.Parallel()
	p := small(t.TempDir())
	p.Grids[0].Values = []string{"7", "8"}
	p.Grids[1].Values = []string{"0.3"}
	r, err := Make(t.Context(), p, choice.Limits{Seeds: 2, MaxSeeds: 3, Fresh: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	winner := r.Settings[0]
	if !winner.Winner || len(winner.Fresh) != 2 || len(r.Searches) != 1 {
		t.Fatalf("%d searches, the best setting has %d fresh seeds", len(r.Searches), len(winner.Fresh))
	}
	standing := r.Searches[0].Chosen()
	if r.Searches[0].Settings[standing.Setting] != winner {
		t.Error("the best setting is not the one that the search chose")
	}
	// The seeds of the configuration are 1, 2 and at most 3 for the search, and 4 and 5 to confirm.
	for n, tail := range winner.Fresh {
		cell := &winner.furtherCells[1+n]
		if want := uint64(4 + n); cell.Config.Seed != want {
			t.Errorf("fresh seed %d is %d, want %d", n, cell.Config.Seed, want)
		}
		rounds, err := runtest.ReadRounds(cell.Run().Path(folder.RoundsFile))
		if err != nil {
			t.Fatal(err)
		}
		var sum, count float64
		for _, report := range rounds {
			if report.Evaluated && report.End.Seconds() >= 0.9*cell.Summary.VirtualSeconds {
				sum += report.Metrics[0]
				count++
			}
		}
		if want := sum / count; math.Abs(tail-want) > 1e-12 {
			t.Errorf("fresh seed %d ends with %v, rounds.csv with %v", n, tail, want)
		}
	}
	if text := r.verdict("\n"); !strings.Contains(text, "with 2 fresh seeds, by which it was not chosen") {
		t.Errorf("the verdict is silent on fresh seeds: %s", text)
	}
	// A comparison must use none of the five seeds of the search.
	if err := r.Save(p.Folder); err != nil {
		t.Fatal(err)
	}
	read, err := Read(p.Folder)
	if err != nil {
		t.Fatal(err)
	}
	compared := small(t.TempDir())
	compared.Grids, compared.Schedules = nil, []string{"fixed"}
	read.Sets["fixed"] = r.sets(winner)
	if err := read.Apply(&compared); err != nil {
		t.Fatal(err)
	}
	c, err := compared.Load()
	if err != nil {
		t.Fatal(err)
	}
	if c.Seed != 6 {
		t.Errorf("the comparison starts with seed %d, want 6", c.Seed)
	}
	again, err := Make(t.Context(), p, choice.Limits{Seeds: 2, MaxSeeds: 3, Fresh: 2}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Settings[0].Fresh, winner.Fresh) || textOf(t, again) != textOf(t, r) {
		t.Error("the same tuning again has another result")
	}
}
