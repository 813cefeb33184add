//go:build screenshots

package screenshots

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"fedpace/experiment/ui"
	"fedpace/internal/testkit/browsertest"
	"fedpace/study"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// goesOn are commands of the tutorial that end with Ctrl-C, fail, or belong to Grafana.
var goesOn = regexp.MustCompile(`fedpace ui|pace=|prometheus|dashboards|go build|k0 / time`)

func TestScreenshots(t *testing.T) {
	if *browsertest.Screenshots == "" {
		t.Skip("no folder for them is given (make screenshots)")
	}
	folder, err := filepath.Abs(*browsertest.Screenshots)
	if err != nil {
		t.Fatal(err)
	}
	*browsertest.Screenshots = folder
	page, err := os.ReadFile("../tutorial.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if said, err := exec.Command("go", "build", "-o", filepath.Join(dir, "fedpace"), "fedpace/cmd/fedpace").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	script := "set -e\n"
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if !goesOn.MatchString(m[1]) {
			script += m[1]
		}
	}
	tutorial := exec.Command("sh", "-c", script)
	tutorial.Dir, tutorial.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if said, err := tutorial.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Chdir(filepath.Join(dir, "tutorial"))

	b := browsertest.Open(t, 1100, 1000, false)
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(dir, "tutorial", "runs", "demo", "page.html"))))
	b.Until("document.body.dataset.round > 0")
	b.Drawn()
	b.Picture("watching", true)

	b.Look(1300, 1150, false)
	b.Do(chromedp.Navigate(browsertest.FileURL(filepath.Join(dir, "tutorial", "runs", "compare", study.PageFile))))
	b.Until("document.querySelector('#mean-0 canvas')")
	b.Drawn()
	b.Picture("compare", true)

	library, err := ui.Open("screenshots", "runs")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(library.Handler())
	defer server.Close()
	for _, view := range []struct {
		name   string
		height int64
		dark   bool
		runs   []string
	}{
		{"ui", 1250, false, []string{"fixed", "mine"}},
		{"stragglers", 700, true, []string{"boards", "first"}},
	} {
		b.Look(1300, view.height, view.dark)
		b.Do(chromedp.Navigate(server.URL))
		b.Until("document.querySelectorAll('table.runs tbody input').length > 4")
		choose(b, view.runs...)
		if view.name == "stragglers" {
			b.Until("document.body.innerText.includes('slowest in')")
			browsertest.JS[any](b, "document.getElementById('board-waits').scrollIntoView({block: 'end'})")
			b.Drawn()
		}
		b.Picture(view.name, true)
	}
}

// choose draws the runs of these folders and no others.
func choose(b *browsertest.Tab, folders ...string) {
	browsertest.JS[int](b, `(() => {
		const other = () => [...document.querySelectorAll('table.runs tbody tr')].find(row =>
			row.querySelector('input').checked !== ["`+strings.Join(folders, `","`)+`"].includes(row.querySelector('th').title.split('/').pop()));
		let clicks = 0;
		for (let row; (row = other()) && clicks < 100; clicks++) row.querySelector('input').click();
		return clicks;
	})()`)
	b.Until("document.body.dataset.drawn === '" + strconv.Itoa(len(folders)) + "'")
	b.Drawn()
}
