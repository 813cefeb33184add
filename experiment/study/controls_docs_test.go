package study

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"fedpace/internal/statistics"
)

// The differences that docs/paper.md has of controls follow from the runs beside it.
func TestTheControlsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/paper.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := readRows(t, "../../docs/paper/controls/sent140-users.csv")
	tails := func(schedule string) (list []tableRow) {
		for _, r := range rows {
			if r["schedule"] == schedule {
				list = append(list, r)
			}
		}
		return list
	}
	of := func(r *tableRow) float64 { return r.number("tail_validation_accuracy") }
	seed := func(r *tableRow) uint64 { return uint64(r.number("seed")) }
	for _, c := range [][2]string{{"rounds", "fixed"}, {"rounds-constant", "rounds"}, {"rounds-shuffled", "rounds"}, {"rounds-reversed", "rounds"}} {
		mine := tails(c[0])
		d := statistics.EstimateMean(Paired(mine, tails(c[1]), seed, of))
		if want := fmt.Sprintf("| %s | %.2g |", d.Digits(3), d.P()); d.N != 5 || !strings.Contains(string(page), want) {
			t.Errorf("%s against %s, %d seeds: the page has no %q", c[0], c[1], d.N, want)
		}
		if want := "| " + MeanOf(mine, of).String() + " |"; !strings.Contains(string(page), want) {
			t.Errorf("%s: the page has no %q", c[0], want)
		}
	}
}
