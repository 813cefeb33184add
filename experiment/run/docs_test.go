package run

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"fedpace/experiment/config"
)

// The configurations in the documentation can be run as they stand.
func TestDocumentedConfigurations(t *testing.T) {
	page, err := os.ReadFile("../../docs/stragglers.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("%d configurations in the page", len(blocks))
	}
	for _, block := range blocks {
		c, err := fromText(t, block[1])
		if err != nil {
			t.Errorf("%v in\n%s", err, block[1])
			continue
		}
		c.Out = filepath.Join(t.TempDir(), "run")
		c.Train, c.Stop.Rounds = false, min(c.Stop.Rounds, 5)
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
