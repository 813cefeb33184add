package live_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
)

// screenshots is where pictures of the page are left to be looked at, e.g.
//
//	go test ./metrics/live -run Screenshots -screenshots /tmp/page
var screenshots = flag.String("screenshots", "", "folder for screenshots of the page; empty: none are kept")

// chromium is one browser for all tests.
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
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	browser, _ := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		cancel()
		return nil, err
	}
	stopBrowser = func() { _ = chromedp.Cancel(browser); cancel() }
	return browser, nil
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// tab is a page in the browser, with all that it asked for and complained of.
type tab struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	asked    []string
	problems []string
}

// open makes a tab of a size; a phone's has touch and no mouse.
func open(t *testing.T, width, height int64, dark bool) *tab {
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
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	t.Cleanup(stop)
	b := &tab{Context: ctx, t: t}
	err = chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked = append(b.asked, e.Request.URL)
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.problems = append(b.problems, fmt.Sprintf("console.%s", e.Type))
		case *cdplog.EventEntryAdded:
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(
		command(network.Enable, network.EnableParams{}),
		command(cdplog.Enable, cdp.Empty{}),
		command(runtime.Enable, cdp.Empty{}),
	)
	b.look(width, height, dark)
	return b
}

// look makes the tab another screen, in a light or a dark scheme.
func (b *tab) look(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do(command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600}))
	b.prefer("prefers-color-scheme", scheme)
}

// prefer sets what the reader prefers.
func (b *tab) prefer(feature, value string) {
	b.t.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: feature, Value: value}}}))
}

// command is an action that gives the browser a command.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// js is the value of an expression on the page.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%v, in %s", err, expression)
	}
	return v
}

// until waits for an expression to be true.
func (b *tab) until(expression string) {
	b.t.Helper()
	poll := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(10*time.Millisecond), chromedp.WithPollingTimeout(20*time.Second))
	if _, err := chromedp.Run(b, poll); err != nil {
		b.t.Fatalf("%s does not become true: %v; the page says %q", expression, err, js[string](b, "document.body.innerText"))
	}
}

// drawn waits until the browser has drawn what the page has become.
func (b *tab) drawn() {
	b.t.Helper()
	const frames = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"
	if _, err := chromedp.Run(b, chromedp.Evaluate[bool](frames, chromedp.EvalAwaitPromise)); err != nil {
		b.t.Fatal(err)
	}
}

// quiet checks that the page asked for nothing but its own, and complained of
// nothing.
func (b *tab) quiet(origin string) {
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

// fileURL is a file's address.
func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// shows checks that what the page shows is what a summary.json holds: to the
// bit in its attributes, and to four decimals in its texts.
func (b *tab) shows(path string) {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		b.t.Fatal(err)
	}
	compared := 0
	for _, name := range []string{"rounds", "virtual_seconds", "sgd_steps", "training_loss", "validation_loss", "validation_accuracy"} {
		want, ok := s[name].(float64)
		if !ok { // of a run that trains nothing
			continue
		}
		compared++
		got, err := strconv.ParseFloat(js[string](b, fmt.Sprintf("document.getElementById('value-%s').dataset.value", name)), 64)
		if err != nil || got != want {
			b.t.Errorf("%s is shown as %v, summary.json has %v (%v)", name, got, want, err)
		}
		shown := js[string](b, fmt.Sprintf("document.getElementById('value-%s').innerText", name))
		switch name {
		case "rounds", "sgd_steps":
			if strings.ReplaceAll(shown, ",", "") != strconv.FormatFloat(want, 'f', -1, 64) {
				b.t.Errorf("%s reads %q, want %v", name, shown, want)
			}
		case "virtual_seconds":
		default:
			if number, err := strconv.ParseFloat(shown, 64); err != nil || math.Abs(number-want) > 0.00005001 {
				b.t.Errorf("%s reads %q, want %v", name, shown, want)
			}
		}
	}
	for name, want := range s["outcomes"].(map[string]any) {
		compared++
		if got := js[string](b, fmt.Sprintf("document.getElementById('outcome-%s').dataset.value", name)); got != strconv.FormatFloat(want.(float64), 'f', -1, 64) {
			b.t.Errorf("%s tasks are shown as %s, summary.json has %v", name, got, want)
		}
	}
	for _, name := range []string{"fingerprint", "model", "kernel"} {
		key := map[string]string{"model": "model_sha256"}[name]
		if key == "" {
			key = name
		}
		if want, ok := s[key].(string); ok && want != "" {
			compared++
			if got := js[string](b, fmt.Sprintf("document.getElementById('run-%s').innerText", name)); got != want {
				b.t.Errorf("%s is shown as %s, summary.json has %s", name, got, want)
			}
		}
	}
	if compared < 10 {
		b.t.Errorf("only %d numbers were compared", compared)
	}
}

// picture is a screenshot of the whole page, or of what is in the window. It is
// kept if that is asked for.
func (b *tab) picture(name string, window bool) image.Image {
	b.t.Helper()
	action := chromedp.FullScreenshot(100)
	if window {
		action = chromedp.CaptureScreenshot()
	}
	file, err := chromedp.Run(b, action)
	if err != nil {
		b.t.Fatal(err)
	}
	if *screenshots != "" {
		path := filepath.Join(*screenshots, name+".png")
		if err := errors.Join(os.MkdirAll(*screenshots, 0o777), os.WriteFile(path, file, 0o666)); err != nil {
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

// press presses a key on whatever has the focus.
func (b *tab) press(keys string) { b.t.Helper(); b.do(chromedp.KeyEvent(keys)) }
