package ui_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/experiment/runtest"
	"fedpace/experiment/ui"
	"fedpace/internal/testkit/browsertest"
	"fedpace/internal/testkit/slow"
	"fedpace/study"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// runs is a folder of some short runs, which the test may change: two schedules with two seeds each.
func runs(t testing.TB) (dir string) {
	t.Helper()
	files, err := shortRuns()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shortRuns plays the runs once for all tests and returns their files.
var shortRuns = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "fedpace-ui-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, schedule := range []string{"fixed", "rounds"} {
		for seed := 1; seed <= 2; seed++ {
			c, err := config.Load("", []string{
				"task=sent140", "clients=40", "cohort=8", "stop.rounds=40", "evaluate={every: 4, clients: {every: 20}}", "schedule.window=5", "schedule.k=" + schedule,
				"privacy={delta: 1e-5, clip: 1000, noise_multiplier: 0.01, local: {clip: 100, noise_multiplier: 0.01}}",
				fmt.Sprintf("seed=%d", seed), "fleet=[{name: phone, weight: 3, watts: 3}, {name: pi, weight: 1, seconds_per_step: 0.05, watts: 2}]",
				"out=" + filepath.Join(dir, fmt.Sprintf("%s-%d", schedule, seed)),
			})
			if err != nil {
				return nil, err
			}
			if _, err := run.Run(context.Background(), c, run.Options{Version: "test"}); err != nil {
				return nil, err
			}
		}
	}
	return inMemory(os.DirFS(dir))
})

// inMemory returns the files of a folder as they are now.
func inMemory(folder fs.FS) (fs.FS, error) {
	files := fstest.MapFS{}
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, path)
		files[path] = &fstest.MapFile{Data: text, Mode: 0o666}
		return err
	})
	return files, err
}

// served is a server of the runs in a folder.
func served(t testing.TB, dir string) (*ui.Library, string) {
	t.Helper()
	library, err := ui.Open("test", dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(library.Handler())
	t.Cleanup(server.Close)
	return library, server.URL + "/"
}

// The page of a folder of runs lists what their summaries hold, draws what their rounds.csv
// hold, and opens each; the exported file shows the same.
func TestBoard(t *testing.T) {
	dir := runs(t)
	library, address := served(t, dir)
	b := browsertest.Open(t, 1600, 1200, false)
	b.Do(chromedp.Navigate(address + "#group=run"))
	check(t, b, dir)
	b.Keep("ui", true)
	for _, scheme := range []string{"dark", "light"} { // the page follows while it is open
		b.Prefer("prefers-color-scheme", scheme)
		b.Until("document.querySelector('#legend line').getBoundingClientRect().width > 0 && getComputedStyle(document.querySelector('#legend line')).stroke === (d => { document.body.append(d); d.style.color = 'var(--line-0)'; const c = getComputedStyle(d).color; d.remove(); return c; })(document.createElement('i'))")
	}

	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := library.Export(f, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	kept := browsertest.Open(t, 1024, 900, true)
	kept.Do(chromedp.Navigate(browsertest.FileURL(file) + "#group=run"))
	check(t, kept, dir)
	kept.Keep("ui-file-dark", false)
	kept.Quiet(browsertest.FileURL(file))

	b.Do(chromedp.Navigate(address + "#run=" + browsertest.JS[string](b, "document.querySelector('tr[data-run]').dataset.run")))
	b.Until("document.body.dataset.state === 'completed'")
	b.Until("document.querySelector('.scrubber input')")
	for _, fact := range []string{"local noise", "privacy", "fairness of accuracy"} { // all as the run's own page told
		b.Until("document.querySelector('.facts').innerText.includes('" + fact + "')")
	}
	b.Do(chromedp.Focus(".scrubber input"))
	b.Press(kb.Home)
	b.Until("document.querySelector('#timeline h2').innerText.startsWith('Round 1:')")
	b.Keep("ui-run", false)
	b.Quiet(address)

	phone := browsertest.Open(t, 390, 844, false)
	phone.Do(chromedp.Navigate(address))
	phone.Until("document.body.dataset.drawn === '2'")
	phone.Drawn()
	if width := browsertest.JS[float64](phone, "document.documentElement.scrollWidth"); width > 390 {
		t.Errorf("on a phone the page is %v pixels wide", width)
	}
	phone.Keep("ui-phone", false)
}

// Names that are markup stay text, in the list and in a file.
func TestBoard_NamesAreText(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Load("", []string{"task=sent140", "train=false", "stop.rounds=3", "out=" + filepath.Join(dir, "<b>bold<!--")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	library, address := served(t, dir)
	var file strings.Builder
	if _, err := library.Export(&file, nil); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(file.String(), "<b>bold") {
		t.Error("the file holds the name as markup")
	}
	b := browsertest.Open(t, 1024, 900, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.drawn === '1'")
	if got := browsertest.JS[string](b, "document.querySelector('table.runs a').innerText"); got != "<b>bold<!--" {
		t.Errorf("the run is called %q", got)
	}
	b.Quiet(address)
}

// A run that goes on grows on the page; one that was killed says how to go on.
func TestBoard_GrowingRun(t *testing.T) {
	slow.Test(t, "it waits for a page that follows a run")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := config.Load("", []string{"task=sent140", "train=false", "stop.rounds=100000000", "pace=400", "out=" + filepath.Join(dir, "long")})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := run.Run(ctx, c, run.Options{Version: "test"})
		done <- err
	}()
	for len(read(t, filepath.Join(dir, "long", folder.RoundsFile))) < 2000 {
		select {
		case err := <-done:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	_, address := served(t, dir)
	b := browsertest.Open(t, 1024, 900, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.querySelector('td.state.running')")
	rounds := "Number([...document.querySelectorAll('tr[data-run] td[data-value]')].map(e => e.dataset.value).find(v => v > 1))"
	first := browsertest.JS[float64](b, rounds)
	b.Until(fmt.Sprintf("%s > %v", rounds, first))
	// Its own page goes on, too, and keeps what is being written there.
	browsertest.JS[bool](b, "document.querySelector('tr[data-run] a').click() || true")
	b.Until("document.querySelector('.notes textarea') && document.body.dataset.round > 0")
	first = browsertest.JS[float64](b, "document.querySelector('.notes textarea').value = 'a word', Number(document.body.dataset.round)")
	b.Until(fmt.Sprintf("document.body.dataset.round > %v && document.querySelector('.notes textarea').value === 'a word'", first))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.Until("document.getElementById('status-text').textContent.startsWith('Stopped')")
	browsertest.JS[bool](b, "document.querySelector('#back a').click() || true")
	b.Until("document.querySelector('td.state.stopped')?.checkVisibility()")
	if err := os.Remove(filepath.Join(dir, "long", folder.SummaryFile)); err != nil { // as if it had been killed
		t.Fatal(err)
	}
	browsertest.JS[bool](b, "document.querySelector('tr[data-run] a').click() || true")
	b.Until("document.getElementById('notice-list').textContent.includes('fedpace resume')")
	b.Quiet(address)
}

// read is a file that may not be there yet.
func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return text
}

// check compares the page's list and curves with the files.
func check(t *testing.T, b *browsertest.Tab, dir string) {
	t.Helper()
	b.Until("document.body.dataset.drawn === '4'")
	b.Until("!document.getElementById('board-waits').hidden")
	b.Drawn()
	along := func(axis string) {
		browsertest.JS[bool](b, fmt.Sprintf("(s => { s.value = %q; s.dispatchEvent(new Event('change')); return s.value === %[1]q; })(document.getElementById('axis'))", axis))
		b.Drawn()
	}
	along("round") // all runs end in the same round, and not at the same time
	for _, name := range []string{"fixed-1", "rounds-2"} {
		s, err := folder.ReadSummary(filepath.Join(dir, name, folder.SummaryFile))
		if err != nil {
			t.Fatal(err)
		}
		cells := browsertest.JS[string](b, fmt.Sprintf("[...document.querySelectorAll('tr[data-run]')].find(r => r.cells[0].title.endsWith(%q)).innerHTML", name))
		for _, want := range []float64{*s.BestValidationAccuracy, *s.BestTrainingLoss, s.VirtualSeconds, float64(s.SGDSteps)} {
			if text := strconv.FormatFloat(want, 'f', -1, 64); !strings.Contains(cells, `data-value="`+text+`"`) {
				t.Errorf("%s: the list does not hold %s: %s", name, text, cells)
			}
		}
		rounds, err := runtest.ReadRounds(filepath.Join(dir, name, folder.RoundsFile))
		if err != nil {
			t.Fatal(err)
		}
		last := rounds[len(rounds)-1]
		// The cursor at the axis's end reads the last value of each curve.
		b.Do(chromedp.Focus("#over-validation_accuracy .plot"))
		b.Press(kb.End)
		read := browsertest.JS[string](b, "document.querySelector('#over-validation_accuracy .plot').getAttribute('aria-valuetext')")
		if want := fmt.Sprintf("%s %s", name, strconv.FormatFloat(rounded(last.Metrics[0], 4), 'g', 4, 64)); !strings.Contains(read, want) {
			t.Errorf("the cursor reads %q, want %q in it", read, want)
		}
	}
	along("virtual_seconds")
	if text := browsertest.JS[string](b, "document.getElementById('board-waits').innerText"); !strings.Contains(text, "pi slowest in ") {
		t.Errorf("of whom runs wait for it says %q", text)
	}
}

// rounded is a number with so many significant digits.
func rounded(v float64, digits int) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// A run has the name of its folder, and below it stands what else sets it apart from the others.
func TestBoard_NamesOfComparison(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	_, err := study.Run(t.Context(), study.Plan{
		Load: func(sets ...string) (config.Config, error) {
			return config.Load("", append([]string{"task=sent140", "train=false", "stop.rounds=3", "out=" + dir}, sets...))
		},
		Schedules: []string{"fixed"}, Seeds: 2,
		Grids: []study.Grid{{Key: "close", Values: []string{"all", "{rule: first, n: 7}"}}},
	}, study.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, address := served(t, dir)
	b := browsertest.Open(t, 1024, 900, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.drawn === '2'")
	folders := browsertest.JS[[]string](b, "[...document.querySelectorAll('table.runs tbody th')].filter(h => !h.title.endsWith(h.querySelector('a').innerText)).map(h => h.title)")
	if len(folders) > 0 {
		t.Errorf("%q do not have the names of their folders", folders)
	}
	names := browsertest.JS[[]string](b, "[...document.querySelectorAll('table.runs tbody small')].map(s => s.innerText)")
	slices.Sort(names)
	want := []string{"close.rule=all", "close.rule=all", "close.rule=first", "close.rule=first"} // the seed stands in the name
	if !slices.Equal(names, want) {
		t.Errorf("names are %q, want %q", names, want)
	}
}
