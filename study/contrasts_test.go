package study

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedpace/internal/human"
	"fedpace/internal/statistics"
)

// A contrast is a pair of settings that a study's protocol compares in tail accuracy, seed by seed.
type contrast struct{ runs, than docRun }

// holm are the p-values of contrasts, adjusted together with further tests of the protocol that are not
// played yet. Each of those counts as p = 1, so that no adjusted value can grow when they are played.
func (s studies) holm(list []contrast, notPlayed int) []float64 {
	s.t.Helper()
	var p []float64
	for _, c := range list {
		p = append(p, s.above(c.runs, c.than).P())
	}
	for range notPlayed {
		p = append(p, 1)
	}
	return statistics.Holm(p)[:len(list)]
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

// uneven are the runs of the study of stragglers with controls.
func uneven(schedule string) docRun { return docRun{"study/uneven-runs.csv", "all", schedule} }

// unevenContrasts are decay's leads over the constants of 1, 3, 5, 10 and 60.
func unevenContrasts() (list []contrast) {
	for _, constant := range []string{"k1", "k3", "k5", "k10", "fixed"} {
		list = append(list, contrast{uneven("rounds"), uneven(constant)})
	}
	return list
}

// firstFortyTests is how many tests the protocol of stragglers with controls has for the rule that was
// not played to the end, the first 40 of 50.
const firstFortyTests = 5

// unevenRow is a row of the table of stragglers with controls, with decay's lead over its schedule.
func (s studies) unevenRow(label string, runs docRun, lead string) []string {
	s.t.Helper()
	tail := s.estimate(runs, tailColumn, 100)
	seconds := s.estimate(runs, "seconds_to_level", 1)
	return []string{
		label,
		human.Thousands(int64(s.mean(runs, "client_sgd_steps") / 1000)),
		fmt.Sprintf("%.2f ± %.2f", tail.Mean, tail.Half),
		lead,
		fmt.Sprintf("%.0f ± %.0f", seconds.Mean, seconds.Half),
	}
}

// The table of stragglers with controls is what the committed runs give.
func TestDocs_UnevenTable(t *testing.T) {
	s := studies{t}
	list := unevenContrasts()
	p := s.holm(list, firstFortyTests)
	rows := [][]string{s.unevenRow("`rounds`", uneven("rounds"), "-")}
	for i, label := range []string{"1", "3", "5", "10", "60"} {
		d := s.above(list[i].runs, list[i].than)
		lead := fmt.Sprintf("%+.2f ± %.2f (%.2g)", d.Mean, d.Half, p[i])
		rows = append(rows, s.unevenRow("K = "+label, list[i].than, lead))
	}
	text := ""
	for _, row := range rows {
		text += "\n|" + strings.Join(row, "|") + "|"
	}
	page, err := os.ReadFile(filepath.Join(docs, "study.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), text) {
		t.Errorf("docs/study.md does not have the table%s", text)
	}
}

// Where rounds wait for all, decay is decided to be above constants of 1, 10 and 60 alone, and those of 3
// and 5 match it, as docs/study.md says.
func TestDocs_UnevenVerdicts(t *testing.T) {
	s := studies{t}
	list := unevenContrasts()
	want := []bool{true, false, false, true, true}
	for i, p := range s.holm(list, firstFortyTests) {
		if (p <= 0.05) != want[i] {
			t.Errorf("%v: Holm's p is %v", list[i], p)
		}
		d := s.above(list[i].runs, list[i].than)
		if matches := d.Mean+d.Half < 0.5; matches != !want[i] {
			t.Errorf("%v: the difference is %v points", list[i], d)
		}
	}
}
