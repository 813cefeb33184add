package plan

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"fedpace/internal/testkit/browsertest"
	"fedpace/study"
)

func TestMain(m *testing.M) { browsertest.Main(m) }

// A browser shows the parts of a plan's page, which has no script of its own.
func TestPlan_PageIsSeen(t *testing.T) {
	q := small("schedule.k=fixed", "train=false")
	q.Schedules = []string{"fixed"}
	q.Grids = []study.Grid{{Key: "cohort", Values: []string{"5", "10"}}}
	file := filepath.Join(t.TempDir(), PageFile)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := made(t, q, t.TempDir()).WriteHTML(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tab := browsertest.Open(t, 1280, 900, false)
	tab.Do(chromedp.Navigate(browsertest.FileURL(file)))
	for _, part := range []string{"h1", "main h2", "main svg", "main tbody tr"} {
		seen := browsertest.JS[bool](tab, "document.querySelector('"+part+"').checkVisibility({visibilityProperty: true})")
		if !seen {
			t.Errorf("%s is not visible", part)
		}
	}
	tab.Keep("plan", false)
	tab.Quiet(browsertest.FileURL(file))
}
