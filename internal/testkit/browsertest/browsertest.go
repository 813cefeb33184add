package browsertest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"fedpace/internal/testkit/slow"
)

// Screenshots is where pictures of the page are left to be looked at, e.g.
//
//	go test ./metrics/live -run Screenshots -screenshots /tmp/page
var Screenshots = flag.String("screenshots", "", "folder for screenshots of the page; empty: none are kept")

// chromium starts the browser at its first call, and returns that one for all tests of the package.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, fmt.Errorf("no Chromium is here: install Debian's package chromium")
	}
	// The pages are the project's own, and not every container allows a sandbox.
	options := append(
		chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.DisableGPU,
		chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser, _ := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		cancel()
		return nil, err
	}
	stopBrowser = func() { _ = chromedp.Cancel(browser); cancel() }
	return browser, nil
})

// stopBrowser ends the browser, if it was started.
var stopBrowser = func() {}

// Main runs a package's tests, ends the browser and exits. TestMain calls it.
func Main(m *testing.M) {
	flag.Parse()
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// Tab is a page in the browser, with all that it asked for and complained of.
type Tab struct {
	context.Context
	t testing.TB

	mu       sync.Mutex
	asked    []string
	problems []string
}

// Open makes a tab with a screen as [Tab.Look] describes it, which is closed when the test ends. Without
// Chromium the test is skipped, and in CI it fails.
func Open(t testing.TB, width, height int64, dark bool) *Tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		if _, missing := exec.LookPath("chromium"); missing != nil && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // opens the tab, which lives as long as its context
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, slow.Patience(t))
	t.Cleanup(stop)
	tab := &Tab{Context: ctx, t: t}
	err = chromedp.Listen(ctx, func(event any) {
		tab.mu.Lock()
		defer tab.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			tab.asked = append(tab.asked, e.Request.URL)
		case *runtime.EventExceptionThrown:
			tab.problems = append(tab.problems, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			tab.problems = append(tab.problems, fmt.Sprintf("console.%s", e.Type))
		case *cdplog.EventEntryAdded:
			tab.problems = append(tab.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tab.Do(
		Command(network.Enable, network.EnableParams{}),
		Command(cdplog.Enable, cdp.Empty{}),
		Command(runtime.Enable, cdp.Empty{}),
	)
	tab.Look(width, height, dark)
	return tab
}

// Look gives the tab a screen of this size in CSS pixels, in a light or a dark scheme. A screen narrower
// than 600 pixels is that of a phone.
func (b *Tab) Look(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.Do(Command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width:             width,
		Height:            height,
		DeviceScaleFactor: 1,
		Mobile:            width < 600,
	}))
	b.Prefer("prefers-color-scheme", scheme)
}

// Prefer sets a media feature, such as prefers-color-scheme, to what the reader prefers.
func (b *Tab) Prefer(feature, value string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: feature, Value: value}}
	b.Do(Command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}))
}

// Command returns an action that gives the browser a command.
func Command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// Do performs the actions in the tab, one after the other. An error ends the test.
func (b *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// JS returns the value of a JavaScript expression on the page. An error ends the test.
func JS[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%v, in %s", err, expression)
	}
	return v
}

// Await returns the value with which the promise of a JavaScript expression is fulfilled. An error ends the
// test.
func Await[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%v, in %s", err, expression)
	}
	return v
}

// Until waits until a JavaScript expression on the page is true. If it does not become true in time, the
// test ends with the text of the page.
func (b *Tab) Until(expression string) {
	b.t.Helper()
	poll := chromedp.Poll[chromedp.Void](
		expression,
		chromedp.WithPollingInterval(10*time.Millisecond),
		chromedp.WithPollingTimeout(slow.Patience(b.t)),
	)
	if _, err := chromedp.Run(b, poll); err != nil {
		b.t.Fatalf("%s does not become true: %v; the page "+
			"says %q", expression, err, JS[string](b, "document.body.innerText"))
	}
}

// Drawn waits until the browser has drawn what the page has become.
func (b *Tab) Drawn() {
	b.t.Helper()
	const frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
	Await[bool](b, frames)
}

// Quiet checks that the page asked only for addresses that begin with origin, or for data URLs, and that
// the browser reported no problem.
func (b *Tab) Quiet(origin string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, address := range b.asked {
		if !strings.HasPrefix(address, origin) && !strings.HasPrefix(address, "data:") {
			b.t.Errorf("the page asks for %s", address)
		}
	}
	for _, problem := range b.problems {
		b.t.Errorf("the browser complains: %s", problem)
	}
}

// FileURL returns a file's address.
func FileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// Keep keeps a screenshot as [Tab.Picture] does, if the flag -screenshots names a folder.
func (b *Tab) Keep(name string, window bool) {
	b.t.Helper()
	if *Screenshots != "" {
		b.Picture(name, window)
	}
}

// Picture returns a screenshot of the whole page or, if window is set, of the part in the window. If the
// flag -screenshots names a folder, the screenshot is kept there as name.png.
func (b *Tab) Picture(name string, window bool) image.Image {
	b.t.Helper()
	action := chromedp.FullScreenshot(100)
	if window {
		action = chromedp.CaptureScreenshot()
	}
	file, err := chromedp.Run(b, action)
	if err != nil {
		b.t.Fatal(err)
	}
	if *Screenshots != "" {
		path := filepath.Join(*Screenshots, name+".png")
		if err := errors.Join(os.MkdirAll(*Screenshots, 0o777), os.WriteFile(path, file, 0o666)); err != nil {
			b.t.Fatal(err)
		}
		b.t.Logf("%s: %d kB", path, len(file)/1000)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		b.t.Fatal(err)
	}
	return picture
}

// Press presses a key on whatever has the focus.
func (b *Tab) Press(keys string) { b.t.Helper(); b.Do(chromedp.KeyEvent(keys)) }
