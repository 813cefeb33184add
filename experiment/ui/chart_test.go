package ui_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fedpace/experiment/folder"
	"fedpace/experiment/runtest"
	"fedpace/internal/testkit/browsertest"
)

// From two seeds on the board draws means, and runs can be grouped and coloured by any key. Nothing on the
// page moves while it loads.
func TestBoard_Groups(t *testing.T) {
	dir := runs(t)
	// The same run, played again elsewhere, is no further seed.
	if err := os.CopyFS(filepath.Join(dir, "again"), os.DirFS(filepath.Join(dir, "rounds-1"))); err != nil {
		t.Fatal(err)
	}
	_, address := served(t, dir)
	b := browsertest.Open(t, 1600, 1000, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.drawn === '2' && document.querySelectorAll('#board-waits .who').length === 2")
	legend := "[...document.querySelectorAll('#legend .series')].map(s => s.innerText)"
	if got := browsertest.JS[[]string](b, legend); got[0] != "rounds (2)" || got[1] != "fixed (2)" { // in the order of their folders
		t.Errorf("two schedules with two seeds each are drawn as %q", got)
	}
	b.Drawn()
	moved := browsertest.Await[float64](b, `new Promise(done => {
		let sum = 0;
		const observer = new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.value; });
		observer.observe({ type: 'layout-shift', buffered: true });
		requestAnimationFrame(() => setTimeout(() => done(sum)));
	})`)
	if moved > 0.01 {
		t.Errorf("while it loads the page moves by %v (cumulative layout shift)", moved)
	}
	// A chart becomes as wide as the page, and goes back to its place.
	width := "document.querySelector('#board .main figure .plot').clientWidth"
	before := browsertest.JS[float64](b, width)
	enlarge := "document.querySelector('#board .main figure [aria-label=Enlarge]').click() || true"
	browsertest.JS[bool](b, enlarge)
	b.Until(fmt.Sprintf("%s > 1.9 * %v && document.querySelector('#board .main figure canvas').clientHeight === 480", width, before))
	browsertest.JS[bool](b, enlarge)
	b.Until(fmt.Sprintf("%s === %v", width, before))
	choose := func(id, value string) {
		browsertest.JS[bool](b, fmt.Sprintf("(s => { s.value = %q; s.dispatchEvent(new Event('change')); return s.value === %q; })(document.getElementById(%q))", value, value, id))
	}
	choose("group", "seed")
	b.Until(legend + ".join() === 'seed=1 (3),seed=2 (2)'")
	choose("group", "run")
	choose("colour", "schedule")
	b.Until("document.body.dataset.drawn === '5' && new Set([...document.querySelectorAll('#legend line')].map(l => getComputedStyle(l).stroke)).size === 2")
	// A constant learning rate takes no chart.
	if browsertest.JS[bool](b, "!!document.getElementById('over-learning_rate')?.checkVisibility()") {
		t.Error("a constant learning rate has a chart")
	}
	if text := browsertest.JS[string](b, "document.getElementById('constants').innerText"); !strings.Contains(text, "Learning rate") {
		t.Errorf("of constant series the page says %q", text)
	}
	// Axes of the sweep vary over the runs.
	if got := browsertest.JS[[]string](b, "[...document.querySelectorAll('#scatter select')].map(s => s.value)"); got[0] == got[1] {
		t.Errorf("the scatter plot opens on %q", got)
	}
	if got := browsertest.JS[string](b, "document.getElementById('configurations').innerText"); !strings.Contains(got, "schedule.k.rule") || !strings.Contains(got, "other keys are equal") {
		t.Errorf("the difference of two configurations is shown as %q", got)
	}
	// However often somebody chooses, the curves of a run are asked for once.
	browsertest.JS[bool](b, "[...document.querySelectorAll('table.runs input'), document.getElementById('all'), document.getElementById('all')].forEach(i => document.getElementById(i.id).click()) || true")
	b.Until("document.querySelectorAll('table.runs input:checked').length === 0 || document.getElementById('all').click()")
	if again := browsertest.JS[[]string](b, "performance.getEntriesByType('resource').map(e => e.name).filter((name, i, all) => name.includes('curves.bin') && all.indexOf(name) !== i)"); len(again) > 0 {
		t.Errorf("curves were asked for again: %q", again)
	}
	// Each run that is chosen is drawn in a colour, also one that was played before.
	choose("colour", "")
	choose("group", "")
	browsertest.JS[bool](b, "document.querySelector('th[title$=\"again\"] input').click() || true")
	b.Until(legend + ".join() === 'again'")
	if stroke := browsertest.JS[string](b, "getComputedStyle(document.querySelector('#legend line')).stroke"); !strings.HasPrefix(stroke, "rgb") {
		t.Errorf("the run has the colour %q", stroke)
	}
	b.Quiet(address)
}

// A chart is saved as CSV with the numbers of the run's files, as SVG with a line for each run, and as PNG.
func TestBoard_SavesCharts(t *testing.T) {
	dir := runs(t)
	_, address := served(t, dir)
	b := browsertest.Open(t, 1600, 1000, false)
	b.Do(chromedp.Navigate(address + "#group=run"))
	b.Until("document.body.dataset.drawn === '4' && document.querySelector('#over-validation_accuracy canvas')")
	// What the page hands over to be saved is kept.
	browsertest.JS[bool](b, "(make => { window.saved = []; URL.createObjectURL = blob => { window.saved.push(blob); return make.call(URL, blob); }; return true; })(URL.createObjectURL)")
	// lines has for each button of the menu on how many lines its name is.
	const lines = `[...document.querySelectorAll('#over-validation_accuracy .menu button')].map(b => {
		const text = document.createRange();
		text.selectNodeContents(b);
		return new Set([...text.getClientRects()].map(r => r.top)).size;
	})`
	save := func(entry string) string {
		before := browsertest.JS[int](b, "window.saved.length")
		b.Do(chromedp.Focus("#over-validation_accuracy .plot"))
		b.Press("s")
		b.Until("document.activeElement.matches('.menu button')")
		if broken := browsertest.JS[int](b, lines+".filter(n => n > 1).length"); broken > 0 {
			t.Errorf("the names of %d buttons of the menu are broken over lines", broken)
		}
		browsertest.JS[bool](b, fmt.Sprintf("[...document.querySelectorAll('#over-validation_accuracy .menu button')].find(b => b.innerText === %q).click() || true", entry))
		b.Until(fmt.Sprintf("window.saved.length > %d", before))
		return browsertest.Await[string](b, "window.saved.at(-1).text()")
	}
	rows, err := csv.NewReader(strings.NewReader(save("CSV"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want, err := runtest.ReadRounds(filepath.Join(dir, "rounds-2", folder.RoundsFile))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range want {
		if !r.Evaluated {
			continue
		}
		for n < len(rows) && rows[n][0] != "rounds-2" {
			n++
		}
		if n == len(rows) {
			t.Fatal("the file ends before the run's rounds")
		}
		x, _ := strconv.ParseFloat(rows[n][1], 64)
		y, _ := strconv.ParseFloat(rows[n][2], 64)
		if x != r.End.Seconds() || y != r.Metrics[0] {
			t.Errorf("round %d has the point %q, want %v, %v", r.Round, rows[n], r.End.Seconds(), r.Metrics[0])
		}
		n++
	}
	if n == 0 {
		t.Error("the run has no evaluation")
	}
	svg := save("SVG")
	if lines := strings.Count(svg, "<polyline"); lines != 4 || !strings.Contains(svg, ">rounds-2</text>") {
		t.Errorf("the SVG has %d lines: %.300s", lines, svg)
	}
	if png := save("PNG"); !strings.Contains(png, "PNG") {
		t.Errorf("the PNG is %.40q", png)
	}
	b.Do(chromedp.Focus("#over-validation_accuracy .plot"))
	b.Press("s")
	b.Press(kb.Escape)
	b.Until("document.activeElement.matches('#over-validation_accuracy .plot')")
	b.Quiet(address)
}
