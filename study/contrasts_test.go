package study

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/statistics"
)

// A contrast is a pair of settings that a study's protocol compares in tail accuracy, seed by seed.
type contrast struct{ runs, than docRun }

// holm are the p-values of contrasts, adjusted together.
func (s studies) holm(list []contrast) []float64 {
	s.t.Helper()
	var p []float64
	for _, c := range list {
		p = append(p, s.above(c.runs, c.than).P())
	}
	return statistics.Holm(p)
}

// estimate is the mean of a quantity over the seeds of runs, times a factor.
func (s studies) estimate(runs docRun, quantity string, factor float64) statistics.Estimated {
	s.t.Helper()
	bySeed := runs.values(s.t, quantity)
	var values []float64
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		values = append(values, factor*bySeed[seed])
	}
	return statistics.EstimateMean(values)
}

// firstForty is the closing rule of the study of stragglers with controls that does not wait for all.
const firstForty = "{rule: first, n: 40}"

// uneven are the runs of that study under a closing rule.
func uneven(rule, schedule string) docRun { return docRun{"study/uneven-runs.csv", rule, schedule} }

// unevenConstants are its constants of 1, 3, 5, 10 and 60.
var unevenConstants = []string{"k1", "k3", "k5", "k10", "fixed"}

// unevenContrasts are decay's leads over each constant, first those where all are waited for.
func unevenContrasts() (list []contrast) {
	for _, rule := range []string{"all", firstForty} {
		for _, constant := range unevenConstants {
			list = append(list, contrast{uneven(rule, "rounds"), uneven(rule, constant)})
		}
	}
	return list
}

// unevenCells are the columns of a schedule under one closing rule, with decay's lead over it.
func (s studies) unevenCells(runs docRun, lead string) []string {
	s.t.Helper()
	tail := s.estimate(runs, tailColumn, 100)
	seconds := s.estimate(runs, "seconds_to_level", 1)
	return []string{
		fmt.Sprintf("%.2f ± %.2f", tail.Mean, tail.Half),
		lead,
		fmt.Sprintf("%.0f ± %.0f", seconds.Mean, seconds.Half),
	}
}

// The table of stragglers with controls is what the committed runs give.
func TestDocs_UnevenTable(t *testing.T) {
	s := studies{t}
	list := unevenContrasts()
	p := s.holm(list)
	lead := func(i int) string {
		d := s.above(list[i].runs, list[i].than)
		return fmt.Sprintf("%+.2f ± %.2f (%.2g)", d.Mean, d.Half, p[i])
	}
	decay := slices.Concat(s.unevenCells(uneven("all", "rounds"), "-"), s.unevenCells(uneven(firstForty, "rounds"), "-"))
	text := "\n|`rounds`|" + strings.Join(decay, "|") + "|"
	for i, label := range []string{"1", "3", "5", "10", "60"} {
		j := i + len(unevenConstants)
		cells := slices.Concat(s.unevenCells(list[i].than, lead(i)), s.unevenCells(list[j].than, lead(j)))
		text += "\n|K = " + label + "|" + strings.Join(cells, "|") + "|"
	}
	page, err := os.ReadFile(filepath.Join(docs, "study.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), text) {
		t.Errorf("docs/study.md does not have the table%s", text)
	}
}

// Which constants decay is decided to be above, by closing rule, and which match it by the margin of 0.5
// points, as docs/study.md says.
func TestDocs_UnevenVerdicts(t *testing.T) {
	s := studies{t}
	list := unevenContrasts()
	above := []bool{true, true, false, true, true, true, true, false, false, true}
	matches := []bool{false, true, true, false, false, true, true, true, true, false}
	for i, p := range s.holm(list) {
		if (p <= 0.05) != above[i] {
			t.Errorf("%v: Holm's p is %v", list[i], p)
		}
		d := s.above(list[i].runs, list[i].than)
		if (d.Mean+d.Half < 0.5) != matches[i] {
			t.Errorf("%v: the difference is %v points", list[i], d)
		}
	}
}
