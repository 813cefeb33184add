package ui_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"fedpace/config"
	"fedpace/experiment/folder"
	"fedpace/internal/testkit/browsertest"
)

// synthetic makes folders that hold what runs of so many rounds would, with made losses.
func synthetic(t testing.TB, runs, rounds int) string {
	t.Helper()
	dir := t.TempDir()
	for n := range runs {
		at := filepath.Join(dir, fmt.Sprintf("run-%02d", n+1))
		c, err := config.Load("", []string{"task=femnist", "out=" + at, fmt.Sprintf("seed=%d", n%5+1), fmt.Sprintf("schedule.k0=%d", 10+n/5)})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		fmt.Fprintln(w, folder.RoundsHeader("accuracy"))
		steps := 0
		for i := 1; i <= rounds; i++ {
			k := max(1, int(float64(10+n/5)/math.Cbrt(float64(i))))
			steps += k
			noise := math.Mod(float64(i*7919*(n+3))*0.6180339887, 1) - 0.5
			loss := 0.3 + 2/math.Sqrt(float64(i)) + 0.1*noise
			validation := ","
			if i%25 == 0 {
				validation = fmt.Sprintf("%.17g,%.17g", loss+0.05, 0.86-1/math.Sqrt(float64(i))+0.01*noise)
			}
			fmt.Fprintf(w, "%d,%d.5,3,%d,0.3,60,60,0,0,0,0,0,%.17g,%s,%d,%d,%d,%d,0\n", i, 3*i, k, loss, validation, steps, k, k, k)
		}
		w.Flush()
		for name, text := range map[string][]byte{folder.ConfigFile: c.YAML(), folder.RoundsFile: b.Bytes()} {
			if err := os.MkdirAll(at, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, name), text, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// BenchmarkBoard opens 20 runs of 20,000 rounds over each other and moves the range from end
// to end, in a real browser:
//
//	go test ./experiment/ui -run XXX -bench Board -benchtime 3x
//
// The first reading of the files is in it: each time the library is a new one.
func BenchmarkBoard(b *testing.B) {
	dir := synthetic(b, 20, 20_000)
	tab := browsertest.Open(b, 1600, 1024, false)
	load, pan := 0.0, 0.0
	for range b.N {
		_, address := served(b, dir)
		tab.Do(chromedp.Navigate(address))
		tab.Until("document.body.dataset.drawn === '20'")
		tab.Drawn()
		load += browsertest.JS[float64](tab, "performance.now()")
		// A zoom into a fifth, then 60 frames of a tenth of that each.
		pan += browsertest.Await[float64](tab, `new Promise(done => {
			const front = document.querySelector('#over-window_loss .plot');
			front.focus();
			for (let i = 0; i < 2; i++) front.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));
			let n = 0, from = 0;
			const step = now => {
				if (n === 0) from = now;
				if (n++ === 60) { done(1000 * 60 / (now - from)); return; }
				front.dispatchEvent(new KeyboardEvent('keydown', { key: n % 40 < 20 ? 'ArrowLeft' : 'ArrowRight', shiftKey: true, bubbles: true }));
				requestAnimationFrame(step);
			};
			requestAnimationFrame(step);
		})`)
		tab.Until("location.hash.includes('zoom=')") // the address has come to rest
	}
	b.ReportMetric(load/float64(b.N), "ms/load")
	b.ReportMetric(pan/float64(b.N), "frames/s")
	b.ReportMetric(0, "ns/op")
}
