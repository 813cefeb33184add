package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"fedpace/config"
	"fedpace/internal/testkit/slow"
	"fedpace/registry"
)

// The configurations in the documentation can be run as they stand.
func TestDocumented_Configurations(t *testing.T) {
	slow.NotUnderRace(t)
	for _, name := range []string{"stragglers.md", "local.md", "models.md", "robust.md", "privacy.md", "coming.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		if len(blocks) == 0 {
			t.Fatalf("%d configurations in %s", len(blocks), name)
		}
		for i, block := range blocks {
			t.Run(fmt.Sprintf("%s-%d", name, i+1), func(t *testing.T) { // one whose traces are missing is skipped alone
				text := regexp.MustCompile(`phone_\w+\.csv`).ReplaceAllStringFunc(block[1], func(file string) string { return phones(t, file) })
				c, err := fromText(t, text)
				if err != nil {
					t.Fatalf("%v in\n%s", err, text)
				}
				c.Out = filepath.Join(t.TempDir(), "run")
				c.Train, c.Stop.Rounds = registry.NeedsOf(c.Select).Losses, min(max(c.Stop.Rounds, 1), 5)
				mustRun(t, c, Options{})
			})
		}
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
