package runtest

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"fedpace/config"
	"fedpace/experiment/folder"
)

// MustRun plays a run that has to succeed, with the options o. play is run.Run, which this package
// cannot import: tests of what it stands on use this package, too.
func MustRun[Options any](
	t testing.TB,
	play func(context.Context, config.Config, Options) (folder.Summary, error),
	c config.Config,
	o Options,
) folder.Summary {
	t.Helper()
	s, err := play(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Files returns what the files of a folder hold, by name.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// WriteFile writes a text file.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}
