package ui_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fedpace/config"
	"fedpace/experiment/ui"
	"fedpace/internal/testkit/browsertest"
	"fedpace/study"
)

// A comparison's page says the answer in words, and shows the differences of all schedules with their
// intervals and verdicts, also on a phone. Its curves are one mean for each schedule.
func TestComparison_Page(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "compare")
	comparison, err := study.Run(t.Context(), study.Plan{
		Load: func(sets ...string) (config.Config, error) {
			return config.Load("", append([]string{"task=sent140", "clients=30", "cohort=5", "stop.rounds=10", "evaluate={every: 2}", "schedule.window=3", "out=" + dir}, sets...))
		},
		Schedules: []string{"fixed", "rounds", "dsgd"}, Seeds: 3,
	}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	document, err := comparison.Webpage()
	if err != nil {
		t.Fatal(err)
	}
	library, err := ui.Open("test", dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "compare.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := library.Export(f, document); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var want struct {
		Headline    string
		Comparisons []struct {
			Rows []struct {
				Text, Verdict string
				Mean          *float64
			}
		}
	}
	if err := json.Unmarshal(document, &want); err != nil {
		t.Fatal(err)
	}

	phone := browsertest.Open(t, 390, 844, true)
	phone.Do(chromedp.Navigate(browsertest.FileURL(file)))
	phone.Until("document.querySelector('#mean-0 .plot canvas') || (document.querySelector('#mean-0').scrollIntoView(), false)")
	phone.Until("document.querySelectorAll('#mean-0 .legend .series').length === 3")
	if got := browsertest.JS[string](phone, "document.getElementById('answer-title').innerText"); got != want.Headline {
		t.Errorf("the page says %q, want %q", got, want.Headline)
	}
	if got := browsertest.JS[float64](phone, "document.documentElement.scrollWidth"); got > 390 {
		t.Errorf("on a phone the page is %v pixels wide", got)
	}
	type shown struct {
		Number  float64
		Verdict string
		Right   float64
	}
	rows := browsertest.JS[[]shown](phone, `[...document.querySelector('table.answer').tBodies[0].rows].map(r => ({
		Number: Number(r.cells[1].dataset.value ?? NaN) || 0, Verdict: r.cells[2].firstChild?.textContent ?? '',
		Right: Math.max(...[...r.cells].map(c => c.getBoundingClientRect().right)) }))`)
	for i, row := range want.Comparisons[0].Rows {
		number := 0.0
		if row.Mean != nil {
			number = *row.Mean
		}
		if got := rows[i]; math.Abs(got.Number-number) > 1e-15 || got.Verdict != row.Verdict || got.Right > 390 {
			t.Errorf("row %d is %+v, want %+v within 390 pixels", i, got, row)
		}
	}
	colours := browsertest.JS[[]string](phone, "[...document.querySelectorAll('#mean-0 .legend line')].map(l => getComputedStyle(l).stroke)")
	slices.Sort(colours)
	if len(slices.Compact(colours)) != 3 {
		t.Errorf("three schedules have the colours %q", colours)
	}
	// A name in the legend hides its line, and shows it again.
	for _, curves := range []int{2, 3} {
		phone.Do(chromedp.Click("#mean-0 .legend .series"))
		phone.Until(fmt.Sprintf("document.querySelector('#mean-0 .reading').innerText.startsWith('%d curves')", curves))
	}
	// The drawing of the differences is read by keys, in the colours of the page's own scheme.
	phone.Do(chromedp.Focus("#differences-0 svg"))
	phone.Press(kb.End)
	phone.Until("document.querySelector('#differences-0 .reading').innerText.startsWith('dsgd − fixed: ')")
	ink := browsertest.JS[string](phone, "getComputedStyle(document.querySelector('#differences-0 .zero')).stroke")
	if body := browsertest.JS[string](phone, "getComputedStyle(document.body).color"); ink != body {
		t.Errorf("the line at zero is %s, the page's ink %s", ink, body)
	}
	if seeds := browsertest.JS[int](phone, "document.querySelectorAll('#differences-0 .seed').length"); seeds != 6 {
		t.Errorf("%d dots are drawn, want one for each of 6 pairs", seeds)
	}
	phone.Keep("compare-phone", false)
	// Paper has all columns, and heads that do not stick.
	phone.Do(browsertest.Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"}))
	if last := browsertest.JS[string](phone, "getComputedStyle(document.querySelector('table.answer td:last-child')).display"); last != "table-cell" {
		t.Errorf("the last column is displayed as %q on paper", last)
	}
	if stuck := browsertest.JS[int](phone, "[...document.querySelectorAll('table th')].filter(h => getComputedStyle(h).position === 'sticky').length"); stuck > 0 {
		t.Errorf("%d heads of tables stick on paper", stuck)
	}
	phone.Quiet(browsertest.FileURL(file))
}
