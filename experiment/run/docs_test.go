package run

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedpace/experiment/config"
	"fedpace/internal/registry"
	"fedpace/internal/testkit/slow"
)

// The configurations in the documentation can be run as they stand.
func TestDocumentedConfigurations(t *testing.T) {
	slow.NotUnderRace(t)
	var blocks [][]string
	var traces []string // their names on the page, and where they are
	for _, name := range []string{"phone_availability.csv", "phone_links.csv", "phone_training_latency.csv"} {
		traces = append(traces, name, phones(t, name))
	}
	for _, name := range []string{"stragglers.md", "local.md", "models.md", "robust.md", "privacy.md", "coming.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(strings.NewReplacer(traces...).Replace(string(page)), -1)
		if len(found) < 2 {
			t.Fatalf("%d configurations in %s", len(found), name)
		}
		blocks = append(blocks, found...)
	}
	if len(blocks) < 6 {
		t.Fatalf("%d configurations in the pages", len(blocks))
	}
	for _, block := range blocks {
		c, err := fromText(t, block[1])
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
			continue
		}
		c.Out = filepath.Join(t.TempDir(), "run")
		c.Train, c.Stop.Rounds = registry.NeedsOf(c.Select).Losses, min(max(c.Stop.Rounds, 1), 5)
		mustRun(t, c, Options{})
	}
}

// fromText loads a configuration from the text of a file.
func fromText(t *testing.T, text string, sets ...string) (config.Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return config.Load("config.yaml", sets)
}
