package ui_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fedpace/experiment/folder"
	"fedpace/internal/testkit/browsertest"
)

// What is found is what is listed, drawn and waited for; the address keeps it over a reload, with what
// is chosen, the axis and the range.
func TestBoard_Address(t *testing.T) {
	dir := runs(t)
	_, address := served(t, dir)
	b := browsertest.Open(t, 1600, 1000, false)
	b.Do(chromedp.Navigate(address + "#group=run"))
	b.Until("document.body.dataset.drawn === '4'")
	b.Do(chromedp.Focus("#filter"))
	b.Press("schedule.k=rounds best>0 -fixed")
	b.Until("document.body.dataset.drawn === '2'")
	state := `JSON.stringify([
		[...document.querySelectorAll('table.runs tbody tr')].map(l => [l.innerText, l.querySelector('input').checked]),
		[...document.querySelectorAll('#board-waits .who')].map(e => e.innerText), document.querySelector('#over-window_loss .reading').innerText,
		document.getElementById('filter').value, document.getElementById('axis').value, document.getElementById('parallel').checkVisibility()])`
	// A chart draws itself once it is seen, which may be after the board has drawn.
	read := "document.querySelector('#over-window_loss .reading').innerText !== ''"
	b.Until("document.querySelectorAll('#board-waits .who').length === 2 && " + read)
	if got := browsertest.JS[string](b, state); strings.Contains(got, "fixed-") || !strings.Contains(got, "2 curves") {
		t.Errorf("of two runs that are found the board shows %s", got)
	}
	browsertest.JS[bool](b, "document.querySelector('table.runs input').click() || true")
	b.Until("document.body.dataset.drawn === '1'")
	browsertest.JS[bool](b, "(s => { s.value = 'round'; s.dispatchEvent(new Event('change')); return true; })(document.getElementById('axis'))")
	b.Do(chromedp.Focus("#over-window_loss .plot"))
	b.Press("+")
	b.Until("location.hash.includes('zoom=')")
	want := browsertest.JS[string](b, state)
	b.Do(chromedp.Reload())
	b.Until("document.body.dataset.drawn === '1' && document.querySelectorAll('#board-waits .who').length === 1 && " + read)
	if got := browsertest.JS[string](b, state); got != want {
		t.Errorf("a reload shows %s, before it was %s", got, want)
	}
	browsertest.JS[bool](b, "document.querySelector('#board .buttons button').click() || true")
	b.Until("!location.hash.includes('zoom=')") // the zoom is reset
	b.Quiet(address)
}

// What is said of a run on its page stands in its folder, and the board finds it; its page has its
// configuration, what it sets itself first.
func TestBoard_Notes(t *testing.T) {
	dir := runs(t)
	_, address := served(t, dir)
	b := browsertest.Open(t, 1024, 900, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.drawn === '2'")
	browsertest.JS[bool](b, "document.querySelector('th[title$=\"rounds-1\"] a').click() || true")
	b.Until("document.querySelector('form.notes') && document.body.dataset.state === 'completed'")
	b.Until("document.getElementById('run-schedule').innerText.startsWith('rounds, K_0 = ')")
	settings := browsertest.JS[[]string](b, "[...document.querySelectorAll('#settings tbody tr')].map(r => r.innerText)")
	c, err := folder.Open(filepath.Join(dir, "rounds-1"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Config.Differences()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(c.Config.Settings(), func(s string) bool { return strings.HasSuffix(s, "=null") && !slices.Contains(own, s) })
	if len(settings) != len(all) || !strings.HasPrefix(settings[0], strings.SplitN(own[0], "=", 2)[0]) {
		t.Errorf("the page has %d settings, first %q; the run has %d, first %q", len(settings), settings[0], len(all), own[0])
	}
	b.Do(chromedp.Focus(".notes input"))
	b.Press("night, paper")
	b.Do(chromedp.Focus(".notes textarea"))
	b.Press("Ends <well>.")
	browsertest.JS[bool](b, "document.querySelector('.notes button').click() || true")
	b.Until("document.querySelector('.notes output').innerText.startsWith('Saved')")
	if got := c.Notes(); got.Text != "Ends <well>." || !slices.Equal(got.Tags, []string{"night", "paper"}) {
		t.Errorf("the folder holds %+v", got)
	}
	b.Do(chromedp.Navigate(address + "#q=tags=night"))
	b.Until("document.body.dataset.drawn === '1'")
	b.Quiet(address)
}

// By keys alone: the first link leads to a figure, and each figure is a key away from the one before.
func TestBoard_Keys(t *testing.T) {
	_, address := served(t, runs(t))
	b := browsertest.Open(t, 1600, 1000, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.drawn === '2'")
	b.Press(kb.Tab)
	b.Press(kb.Enter)
	b.Until("document.activeElement.closest('figure')?.id === 'over-validation_accuracy'")
	figures := browsertest.JS[[]string](b, "[...document.querySelectorAll('#board figure')].filter(f => f.checkVisibility()).map(f => f.id)")
	reached := map[string]bool{}
	for range 10 {
		reached[browsertest.JS[string](b, "document.activeElement.closest('figure')?.id ?? ''")] = true
		if !browsertest.JS[bool](b, "document.activeElement.matches(':focus-visible')") {
			t.Errorf("at %s no focus is to be seen", browsertest.JS[string](b, "document.activeElement.outerHTML.slice(0, 80)"))
		}
		b.Press(kb.Tab)
	}
	for _, id := range figures {
		if !reached[id] {
			t.Errorf("%s is not within ten tabs of the first figure: %v", id, reached)
		}
	}
	// The list is made anew, and who chose a run there stays at it.
	b.Do(chromedp.Focus("table.runs tbody tr:nth-child(2) input"))
	b.Press(" ")
	b.Until("!document.querySelector('table.runs tbody tr:nth-child(2) input').checked")
	if at := browsertest.JS[string](b, "document.activeElement.outerHTML.slice(0, 200)"); !browsertest.JS[bool](b, "document.activeElement.matches('table.runs tbody tr:nth-child(2) input')") {
		t.Errorf("the focus went to %s", at)
	}
	b.Quiet(address)
}

// Where nothing is found the page says so, and its choices are there.
func TestBoard_NothingFound(t *testing.T) {
	_, address := served(t, runs(t))
	b := browsertest.Open(t, 1024, 900, true)
	b.Do(chromedp.Navigate(address + "#q=nowhere"))
	b.Until("document.body.dataset.drawn === '0'")
	if got := browsertest.JS[string](b, "document.getElementById('constants').innerText"); !strings.HasPrefix(got, "No run is found") {
		t.Errorf("of a search that finds nothing the page says %q", got)
	}
	if got := browsertest.JS[string](b, "document.getElementById('axis').selectedOptions[0]?.innerText ?? ''"); got != "virtual time" {
		t.Errorf("the axis is %q", got)
	}
	if got := browsertest.JS[string](b, "getComputedStyle(document.getElementById('filter'), '::placeholder').color"); got != browsertest.JS[string](b, "getComputedStyle(document.getElementById('list-note')).color") {
		t.Errorf("the search's example is written in %s", got)
	}
	b.Do(chromedp.Focus("#filter"))
	browsertest.JS[bool](b, "(f => { f.value = ''; f.dispatchEvent(new Event('input')); return true; })(document.getElementById('filter'))")
	b.Until("document.body.dataset.drawn === '2' && document.getElementById('axis').options.length > 2 && document.getElementById('axis').value === 'virtual_seconds'")
	b.Quiet(address)
}
