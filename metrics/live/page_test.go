package live_test

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/experiment/run"
	"fedpace/internal/testkit/browsertest"
	"fedpace/internal/testkit/slow"
	"fedpace/internal/testkit/testport"
	"fedpace/metrics"
	"fedpace/metrics/live"
)

// configuration is a run of a second or two in which something is late and somebody
// drops out.
func configuration(t testing.TB, sets ...string) config.Config {
	t.Helper()
	sets = append([]string{
		"task=femnist", "clients=200", "cohort=10", "schedule.k0=8", "stop.rounds=30", "evaluate.every=3", "schedule.window=5",
		"compute.std=5.1e-4", "slowdown.every_seconds=100", "slowdown.for_seconds=30", "slowdown.factor=6", "dropout.probability=0.05",
		"close.rule=deadline", "close.seconds=2.1", "http=127.0.0.1:0", "out=" + filepath.Join(t.TempDir(), "run"),
	}, sets...)
	c, err := config.Load("", sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// running is a run under way, at an address.
type running struct {
	address string
	done    chan struct{}
	summary folder.Summary
	err     error
}

var addressIn = regexp.MustCompile(`http://[^/ ]+/`)

// start starts a run and waits for its page.
func start(ctx context.Context, t testing.TB, c config.Config) *running {
	t.Helper()
	r := &running{done: make(chan struct{})}
	address := make(chan string, 10)
	go func() {
		defer close(r.done)
		r.summary, r.err = run.Run(ctx, c, run.Options{Version: "test", Callbacks: run.Callbacks{Notice: func(line string) {
			if found := addressIn.FindString(line); found != "" {
				address <- found
			}
		}}})
	}()
	select {
	case r.address = <-address:
	case <-r.done:
		t.Fatalf("the run ended before its page was there: %v", r.err)
	}
	return r
}

func init() {
	metrics.Sinks.Register("turnstile", "holds a run until a test lets it go on", turnstile{})
}

// turnstile is an output that holds a run at the end of its third round until held is
// closed.
type turnstile struct{}

var held chan struct{} // of the test under way

func (turnstile) Files() []string                             { return nil }
func (t turnstile) Open(*metrics.Run) (metrics.Output, error) { return t, nil }

func (turnstile) Round(r *metrics.Round) error {
	if r.Round == 3 {
		<-held
	}
	return nil
}

// The page of a run that goes on, from its first round to its end, and the one
// that it leaves behind, show the numbers of summary.json.
func TestPage_ShowsRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	c := configuration(t, "stop.rounds=31", "evaluate.clients={every: 10, samples: 10}", "evaluate.measures=[majority_share, auroc]") // no round to evaluate is the last
	c.Outputs = append(c.Outputs, turnstile{})
	held = make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	run := start(t.Context(), t, c)
	b.Do(chromedp.Navigate(run.address))
	b.Until("document.body.dataset.state === 'running' && document.body.dataset.round > 0")
	b.Until("/about .+ left( \\(90 %: .+ to .+\\))?/.test(document.getElementById('progress-text').textContent)")
	if got := js[string](b, "document.getElementById('status').innerText.trim()"); got != "Live" {
		t.Errorf("the status of a run that goes on is %q", got)
	}
	release()
	b.Until("document.body.dataset.state === 'completed'")
	<-run.done
	if run.err != nil {
		t.Fatal(run.err)
	}
	shows(t, b, filepath.Join(c.Out, folder.SummaryFile))
	if got := js[string](b, "document.getElementById('status').innerText.trim()"); got != "Completed" {
		t.Errorf("the status of a run that has ended is %q", got)
	}
	// All clients are alike. A tenth faster, a round is a part of 1 - 1/1.1 = 9.09 % shorter, but less if a task is
	// late all the same.
	if got := js[string](b, "document.getElementById('waits').innerText"); !strings.Contains(got, "10 % faster, rounds are up to 7.56 % shorter") {
		t.Errorf("who makes the run wait: %q", got)
	}
	b.Quiet(run.address)

	kept := browsertest.Open(t, 1280, 900, false)
	file := browsertest.FileURL(filepath.Join(c.Out, live.File))
	kept.Do(chromedp.Navigate(file))
	kept.Until("document.body.dataset.state === 'completed'")
	shows(t, kept, filepath.Join(c.Out, folder.SummaryFile))
	kept.Quiet(file)
	if got := js[string](kept, "document.getElementById('run-fairness-of-accuracy').textContent"); !strings.Contains(got, "in the worst tenth") || !strings.Contains(got, "after round 31") {
		t.Errorf("on the clients' own samples: %q", got)
	}
	// What has no value for one client, or one value alone, takes no room.
	if facts := js[string](kept, "document.getElementById('run').innerText"); strings.Contains(facts, "fairness of auroc") {
		t.Errorf("a measure that no client has is among the facts: %q", facts)
	}
	if titles := js[string](kept, "[...document.querySelectorAll('figure h2')].map(h => h.innerText).join()"); strings.Contains(titles, "majority") || !strings.Contains(titles, "Validation AUROC") {
		t.Errorf("the charts are %q", titles)
	}
	// What was drawn last on the live page is what is drawn here.
	for _, id := range []string{"loss", "accuracy", "local_steps", "times", "round_seconds", "participation", "clients-accuracy", "timeline"} {
		drawing := fmt.Sprintf("(f => (f.scrollIntoView(), new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(f.querySelector('canvas')?.toDataURL() ?? f.querySelector('.rows > svg').innerHTML))))))(document.getElementById('%s'))", id)
		live, file := browsertest.Await[string](b, drawing), browsertest.Await[string](kept, drawing)
		if live == "" || live != file {
			t.Errorf("%s: %d bytes are drawn live, %d in the file, and they differ", id, len(live), len(file))
		}
	}
	if info, err := os.Stat(filepath.Join(c.Out, live.File)); err != nil || info.Size() > 300_000 {
		t.Errorf("page.html: %v, %v", info, err)
	}
}

// A run that is stopped leaves its page as well, and says so.
func TestPage_StoppedRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := configuration(t, "stop.rounds=100000")
	run := start(ctx, t, c)
	b.Do(chromedp.Navigate(run.address))
	b.Until("document.body.dataset.round > 3") // it has been evaluated
	cancel()
	since := time.Now()
	<-run.done
	t.Logf("the run ends %v after it was stopped", time.Since(since))
	if !errors.Is(run.err, context.Canceled) {
		t.Fatal(run.err)
	}
	b.Until("document.body.dataset.state === 'stopped'")
	shows(t, b, filepath.Join(c.Out, folder.SummaryFile))
	kept := browsertest.Open(t, 1280, 900, true)
	kept.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(c.Out, live.File))))
	kept.Until("document.body.dataset.state === 'stopped'")
	shows(t, kept, filepath.Join(c.Out, folder.SummaryFile))
	for _, name := range []string{"validation_loss", "validation_accuracy"} { // which summary.json has not
		if got := js[string](kept, "document.getElementById('value-"+name+"').innerText"); !regexp.MustCompile(`^\d+\.\d{4}$`).MatchString(got) {
			t.Errorf("the last %s is shown as %q", name, got)
		}
	}
	if got := js[string](kept, "document.getElementById('status').innerText"); !strings.Contains(got, "Stopped") {
		t.Errorf("the status is %q", got)
	}
	if got := js[string](kept, "document.getElementById('notice-list').textContent"); !strings.Contains(got, "interrupted") || !strings.Contains(got, "fedpace resume") {
		t.Errorf("of its end it says %q", got)
	}
}

// A run that goes on shows all of its rounds, not only those since.
func TestPage_ContinuedRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	c := configuration(t, "train=false", "stop.rounds=5000", "pace=20000", "checkpoint.seconds=0.1", "http=")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := run.Run(ctx, c, run.Options{Version: "test", Callbacks: run.Callbacks{Progress: func(p run.Progress) {
		if p.Round > 1000 {
			cancel()
		}
	}}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again, err := run.Resume(t.Context(), c.Out, run.Options{Version: "test"})
	if err != nil || !again.Summary.Completed {
		t.Fatal(again.Summary.Completed, err)
	}
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(c.Out, live.File))))
	b.Until("document.body.dataset.state === 'completed'")
	shows(t, b, filepath.Join(c.Out, folder.SummaryFile))
	shown := js[struct {
		Curves struct {
			Each  int
			Round []int
		}
		Round_Times struct{ Count int }
	}](b, "JSON.parse(document.getElementById('snapshot').textContent)")
	if n := len(shown.Curves.Round); shown.Curves.Each != 8 || n != 625 || shown.Curves.Round[0] != 8 || shown.Curves.Round[n-1] != 5000 || shown.Round_Times.Count != 5000 {
		t.Errorf("%d points of %d rounds each, %d times of rounds, want 625 of 8 and 5000", n, shown.Curves.Each, shown.Round_Times.Count)
	}
}

// A run that trains nothing has no losses to show.
func TestPage_TimingOnlyRun(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	c := configuration(t, "train=false", "stop.rounds=3000", "http=")
	summary, err := run.Run(t.Context(), c, run.Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(c.Out, live.File))))
	b.Until("document.body.dataset.state === 'completed'")
	for id, want := range map[string]bool{"loss": false, "accuracy": false, "local_steps": true, "times": true, "timeline": true} {
		if got := js[bool](b, fmt.Sprintf("document.getElementById('%s').checkVisibility()", id)); got != want {
			t.Errorf("%s is shown: %v, want %v", id, got, want)
		}
	}
	if got := js[string](b, "document.getElementById('value-rounds').dataset.value"); got != fmt.Sprint(summary.Rounds) {
		t.Errorf("%s rounds, want %d", got, summary.Rounds)
	}
}

// The charts of one round, which has one value of each and one length, are not empty, nor are those out of sight on
// paper.
func TestPage_OfOneRound(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 200, false)
	c := configuration(t, "train=false", "stop.rounds=1", "http=")
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(c.Out, live.File))))
	b.Until("document.body.dataset.state === 'completed'")
	b.Drawn()
	js[bool](b, "dispatchEvent(new Event('beforeprint'))")
	for _, id := range []string{"round_seconds", "local_steps", "times"} {
		if n := js[int](b, `((canvas = document.querySelector('#`+id+` canvas')) => {
			const p = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
			let coloured = 0;
			for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 100 && Math.max(p[i], p[i + 1], p[i + 2]) - Math.min(p[i], p[i + 1], p[i + 2]) > 50) coloured++;
			return coloured;
		})()`); n < 8 {
			t.Errorf("%s: %d pixels have a colour", id, n)
		}
	}
}

// A run whose models have another metric shows that one, and nothing by the name of
// accuracy.
func TestPage_OfRegression(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	rows := "owner,a,y\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d,%g\n", i%6, i%7, 0.5*float64(i%7)+1)
	}
	table := filepath.Join(t.TempDir(), "own.csv")
	if err := os.WriteFile(table, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	c := configuration(t, "task=custom", "data={path: "+table+", client: owner, features: a, target: y}", "model=[dense]", "clients=all", "schedule.k0=4", "schedule.eta0=0.01",
		"compute.seconds_per_step=0.1", "compute.std=0", "network.download_mbps=20", "network.upload_mbps=5", "cohort=3", "stop.rounds=6", "http=")
	if _, err := run.Run(t.Context(), c, run.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(c.Out, live.File))))
	b.Until("document.body.dataset.state === 'completed'")
	shows(t, b, filepath.Join(c.Out, folder.SummaryFile))
	for _, id := range []string{"metric-mean_absolute_error", "value-validation_mean_absolute_error"} {
		if !js[bool](b, fmt.Sprintf("document.getElementById('%s')?.checkVisibility() === true", id)) {
			t.Errorf("%s is not shown", id)
		}
	}
	if text := js[string](b, "document.body.innerText"); strings.Contains(strings.ToLower(text), "accuracy") {
		t.Errorf("the page speaks of an accuracy:\n%s", text)
	}
}

// A run may be called anything, and say anything: it is text.
func TestPage_TakesTextForText(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	evil := `<img src=x onerror=document.title='owned'></script><script>document.body.dataset.owned=1</script>&amp;"'`
	hub, address := serveHub(t, evil)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.round > 0")
	path := filepath.Join(t.TempDir(), "page.html")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(hub.WritePage(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	kept := browsertest.Open(t, 1280, 900, false)
	kept.Do(chromedp.Navigate(browsertest.FileURL(path)))
	kept.Until("document.body.dataset.round > 0")
	for where, b := range map[string]*tab{"live": b, "in the file": kept} {
		if js[bool](b, "document.images.length > 0 || 'owned' in document.body.dataset || document.title === 'owned'") {
			t.Errorf("%s: a name is more than a text", where)
		}
		schedule := js[string](b, "document.getElementById('name').textContent.split(': ').at(-1)")
		heading := js[string](b, "document.getElementById('name').textContent")
		if heading != evil+": "+schedule || !strings.HasSuffix(schedule, ", seed=18446744073709551615") {
			t.Errorf("%s: the heading reads %q", where, heading)
		}
		if got := js[string](b, "document.getElementById('run-seed').textContent"); got != "18446744073709551615" {
			t.Errorf("%s: the seed reads %s", where, got) // JavaScript's numbers end before it
		}
		for _, id := range []string{"about", "notice-list", "run", "foot"} {
			if got := js[string](b, fmt.Sprintf("document.getElementById('%s').textContent", id)); !strings.Contains(got, evil) {
				t.Errorf("%s: #%s reads %q", where, id, got)
			}
		}
	}
	b.Quiet(address)
	kept.Quiet(browsertest.FileURL(path))
}

// When the server is gone the page says so, and when it is back the page goes
// on by itself.
func TestPage_ComesBack(t *testing.T) {
	slow.Test(t, "it waits for a page that tries again")
	slow.NotUnderRace(t)
	t.Parallel()
	b := browsertest.Open(t, 1280, 900, false)
	address := testport.Held(t)
	stop := serveAt(t, address, demoHub("first", 20))
	b.Do(chromedp.Navigate("http://" + address + "/"))
	b.Until("document.body.dataset.round === '20'")
	stop()
	b.Until("document.getElementById('status').dataset.state === 'lost'")
	if got := js[string](b, "document.getElementById('value-rounds').textContent"); got != "20" {
		t.Errorf("while the connection is lost the page shows %q rounds, want the last that it knew", got)
	}
	second := demoHub("second", 35)
	stop = serveAt(t, address, second)
	b.Until("document.body.dataset.round === '35' && document.getElementById('status').dataset.state === 'running'")
	if got := js[string](b, "document.getElementById('name').textContent"); got != "second" {
		t.Errorf("the run is called %q", got)
	}
	// After the end another run may follow, as those of a comparison do.
	end(t, second, metrics.End{Completed: true})
	b.Until("document.getElementById('status').dataset.state === 'completed'")
	stop()
	stop = serveAt(t, address, demoHub("third", 10))
	defer stop()
	b.Until("document.body.dataset.round === '10' && document.getElementById('status').dataset.state === 'running'")
	if n := js[int](b, "document.querySelectorAll('#local_steps table tr').length"); n != 0 {
		t.Errorf("a table that nobody opened has %d rows", n)
	}
}

// All can be reached and read by keys alone.
func TestPage_ByKeys(t *testing.T) {
	slow.NotUnderRace(t)
	b := browsertest.Open(t, 1280, 900, false)
	_, address := serveHub(t, "demo")
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.round > 0")
	focus := "(e => (e.closest('figure') ? e.closest('figure').id + ' ' : '') + ((e.className.baseVal ?? e.className) || e.tagName.toLowerCase()) + (e.role ? ' ' + e.role : ''))(document.activeElement)"
	var walk []string
	for range 40 {
		b.Press(kb.Tab)
		walk = append(walk, js[string](b, focus))
		if visible := js[bool](b, "document.activeElement === document.body || document.activeElement.matches(':focus-visible')"); !visible {
			t.Errorf("at %s no focus is to be seen", walk[len(walk)-1])
		}
	}
	t.Log(walk)
	if walk[0] != "skip" {
		t.Errorf("first comes %q, want the link that skips the head", walk[0])
	}
	want := []string{"loss", "accuracy", "local_steps", "times", "round_seconds", "timeline"}
	for _, id := range want {
		if !strings.Contains(strings.Join(walk, "|"), id+" ") {
			t.Errorf("%s cannot be reached", id)
		}
	}
	b.Do(chromedp.Focus(chromedp.CSS("#local_steps .plot")))
	b.Press(kb.End)
	value := "document.querySelector('#local_steps .plot').getAttribute('aria-valuetext')"
	last := js[string](b, value)
	b.Press(kb.Home)
	first := js[string](b, value)
	b.Press(kb.ArrowRight)
	second := js[string](b, value)
	if !strings.Contains(first, "round 1,") || !strings.Contains(second, "round 2,") || !strings.Contains(last, "round 60,") {
		t.Errorf("the keys read %q, %q, %q", first, second, last)
	}
	if got := js[string](b, "document.querySelector('#local_steps .tip').innerText"); !strings.Contains(got, "round 2,") {
		t.Errorf("below the drawing stands %q", got)
	}
	// A table of the same, opened by a key.
	b.Do(chromedp.Focus(chromedp.CSS("#local_steps > details > summary")))
	b.Press(kb.Enter)
	b.Until("document.querySelectorAll('#local_steps tbody tr').length > 10")
	if got := js[string](b, "document.querySelector('#local_steps tbody tr').innerText"); !strings.HasPrefix(got, "1\t") {
		t.Errorf("the table begins with %q", got)
	}
	// The link over the head leads to the figures.
	b.Do(chromedp.Focus(chromedp.CSS(".skip")))
	b.Press(kb.Enter)
	b.Until("document.activeElement.closest('figure')?.id === 'loss'")
	// What has no name cannot be spoken of.
	if unnamed := js[[]string](b, `[...document.querySelectorAll('[role=slider], [role=region], [role=progressbar], section')]
		.filter(e => !e.getAttribute('aria-label') && !document.getElementById(e.getAttribute('aria-labelledby'))?.textContent).map(e => e.outerHTML.slice(0, 80))`); len(unnamed) > 0 {
		t.Errorf("without a name: %v", unnamed)
	}
	b.Quiet(address)
}

// A pointer over a drawing reads what is below it, also on what has just been
// drawn anew.
func TestPage_ByPointer(t *testing.T) {
	slow.NotUnderRace(t)
	b := browsertest.Open(t, 1280, 900, false)
	hub, address := serveHub(t, "demo")
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.round > 0")
	for id, want := range map[string]string{"loss": "mean of", "times": "rounds", "timeline": "download"} {
		js[any](b, fmt.Sprintf("document.getElementById('%s').scrollIntoView({block: 'center'})", id))
		reading := fmt.Sprintf("(f => (f.querySelector('.tip:not([hidden])') ?? f.querySelector('.reading')).innerText)(document.getElementById('%s'))", id)
		// The page may have moved since the place was asked for.
		for tries := 0; tries == 0 || !js[bool](b, fmt.Sprintf("%s.includes('%s')", reading, want)); tries++ {
			if tries > 500 {
				t.Fatalf("%s reads nothing below the pointer", id)
			}
			box := js[[]float64](b, fmt.Sprintf("(r => [r.left, r.top, r.width, r.height])(document.querySelector('#%s :is(.plot, .rows > svg)').getBoundingClientRect())", id))
			b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box[0]+box[2]/2+float64(tries%2), box[1]+box[3]/2), chromedp.Sleep(20*time.Millisecond))
		}
		before := js[string](b, reading)
		hub.Notice("something new on " + id)
		b.Until(fmt.Sprintf("document.getElementById('notice-list').textContent.includes('something new on %s')", id))
		if after := js[string](b, reading); after != before {
			t.Errorf("%s reads %q, after a frame %q", id, before, after)
		}
		b.Do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
		b.Until(fmt.Sprintf("%s !== %q", reading, before))
	}
	b.Quiet(address)
}

// On a phone nothing is wider than the screen, in whatever state.
func TestPage_FitsScreens(t *testing.T) {
	slow.Test(t, "it draws the page in every size")
	slow.NotUnderRace(t)
	t.Parallel()
	_, address := serveHub(t, strings.Repeat("averylongnamewithoutanyspace", 6))
	b := browsertest.Open(t, 1280, 800, false)
	for _, width := range []int64{320, 390, 768, 1280} {
		b.Look(width, 800, false)
		b.Do(chromedp.Navigate(address))
		b.Until("document.body.dataset.round > 0")
		js[any](b, "document.querySelectorAll('details').forEach(d => d.open = true)")
		b.Drawn()
		if got := js[int](b, "document.documentElement.scrollWidth"); got > int(width) {
			t.Errorf("on a screen %d wide the page takes %d", width, got)
		}
		// No text of a drawing leaves it.
		if out := js[[]string](b, `[...document.querySelectorAll('.rows > svg')].filter(s => s.checkVisibility()).flatMap(s => {
			const box = s.getBoundingClientRect();
			return [...s.querySelectorAll('text')].filter(x => { const r = x.getBoundingClientRect(); return r.left < box.left - 1 || r.right > box.right + 1; })
				.map(x => s.closest('figure').id + ': ' + x.textContent);
		})`); len(out) > 0 {
			t.Errorf("at %d: beyond the drawing: %v", width, out)
		}
	}
}

// Text stands out from what is behind it by 4.5 to 1 (WCAG 2.2, 1.4.3), in both
// schemes.
func TestPage_Contrast(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	_, address := serveHub(t, "demo")
	b := browsertest.Open(t, 1280, 900, false)
	for _, dark := range []bool{false, true} {
		b.Look(1280, 900, dark)
		b.Do(chromedp.Navigate(address))
		b.Until("document.body.dataset.round > 0")
		weak := js[[]string](b, `(() => {
			const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
			const light = ([r, g, b]) => { const f = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
			const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length && (c.length < 4 || c[3] > 0)) return c; } return [255, 255, 255]; };
			const out = [];
			const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
			while (walker.nextNode()) {
				const e = walker.currentNode.parentElement;
				if (!walker.currentNode.textContent.trim() || !e.checkVisibility() || e.closest('noscript, script, style')) continue;
				const style = getComputedStyle(e);
				const a = light(parse(e instanceof SVGElement ? style.fill : style.color)), b = light(behind(e));
				const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
				if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + walker.currentNode.textContent.trim().slice(0, 30));
			}
			return [...new Set(out)];
		})()`)
		if len(weak) > 0 {
			t.Errorf("dark %v: weak: %v", dark, weak)
		}
	}
}

// For who asks for less motion nothing moves by itself.
func TestPage_KeepsStill(t *testing.T) {
	slow.NotUnderRace(t)
	t.Parallel()
	_, address := serveHub(t, "demo")
	b := browsertest.Open(t, 1280, 900, false)
	b.Do(chromedp.Navigate(address))
	b.Until("document.body.dataset.round > 0")
	for _, still := range []bool{false, true} {
		if still {
			b.Prefer("prefers-reduced-motion", "reduce")
		}
		if moves := js[bool](b, "getComputedStyle(document.querySelector('.dot')).animationName !== 'none'"); moves == still {
			t.Errorf("less motion is asked for: %v; something moves: %v", still, moves)
		}
	}
}

// The page is drawn on a phone and a desktop, light and dark. With the flag
// screenshots it is a real run's, and the pictures are kept to be looked at.
func TestPage_Screenshots(t *testing.T) {
	slow.Test(t, "it draws the page in every size and colour")
	slow.NotUnderRace(t)
	t.Parallel()
	_, address := serveHub(t, "demo")
	if *browsertest.Screenshots != "" {
		c := configuration(t, "name=demo", "clients=300", "cohort=20", "schedule.k0=20", "stop.rounds=150", "evaluate.every=5", "schedule.window=10", "http=")
		if _, err := run.Run(t.Context(), c, run.Options{Version: "development"}); err != nil {
			t.Fatal(err)
		}
		address = browsertest.FileURL(filepath.Join(c.Out, live.File))
	}
	b := browsertest.Open(t, 1280, 900, false)
	for _, view := range []struct {
		name          string
		width, height int64
		dark          bool
	}{
		{"desktop", 1280, 900, false}, {"desktop-dark", 1280, 900, true},
		{"phone", 390, 844, false}, {"phone-dark", 390, 844, true},
	} {
		b.Look(view.width, view.height, view.dark)
		b.Do(chromedp.Navigate(address))
		b.Until("document.body.dataset.round > 0")
		b.Drawn()
		picture := b.Picture(view.name, false)
		size := picture.Bounds()
		if size.Dx() != int(view.width) || size.Dy() < 1500 {
			t.Errorf("%s: %v", view.name, size)
		}
		colours := map[color.Color]bool{}
		for y := 0; y < size.Dy(); y += 3 {
			for x := 0; x < size.Dx(); x += 3 {
				colours[picture.At(x, y)] = true
			}
		}
		r, _, _, _ := picture.At(1, size.Dy()-1).RGBA()
		if dark := r < 0x4000; len(colours) < 40 || dark != view.dark {
			t.Errorf("%s: %d colours, dark %v", view.name, len(colours), dark)
		}
	}
}
