package installed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/installed"
)

// outcome is a test of which one knows how it ended. Its Fatal and Skip do not end the goroutine.
type outcome struct {
	testing.TB

	failed  string
	skipped string
}

func (o *outcome) Helper()        {}
func (o *outcome) Fatal(a ...any) { o.failed = a[0].(string) }
func (o *outcome) Skip(a ...any)  { o.skipped = a[0].(string) }

// What is missing fails a test in CI, and skips it elsewhere, with the way to install it.
func TestMissing_FailsInCI(t *testing.T) {
	for _, look := range []struct {
		name   string
		what   func(t testing.TB)
		remedy string
	}{
		{"program", func(t testing.TB) { installed.Program(t, "no-such-program", "no-package") }, "no-package"},
		{"library", func(t testing.TB) { installed.Python(t, "no_such_library") }, "python3-no_such_library"},
		{"packages", func(t testing.TB) { installed.Packages(t, "nowhere") }, "npm ci"},
	} {
		t.Run(look.name, func(t *testing.T) {
			t.Setenv("CI", "true")
			o := &outcome{TB: t}
			look.what(o)
			if !strings.Contains(o.failed, look.remedy) {
				t.Errorf("in CI: %q, want a failure that says %s", o.failed, look.remedy)
			}
			t.Setenv("CI", "")
			o = &outcome{TB: t}
			look.what(o)
			if o.failed != "" || !strings.Contains(o.skipped, look.remedy) {
				t.Errorf("elsewhere: failed %q, skipped %q, want a skip that says %s", o.failed, o.skipped, look.remedy)
			}
		})
	}
}

// What is installed is found, and is a program that one can start.
func TestProgram_Found(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "here")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	o := &outcome{TB: t}
	if path := installed.Program(o, "here", "none"); path != program || o.failed+o.skipped != "" {
		t.Errorf("%q, %q, %q, want %q", path, o.failed, o.skipped, program)
	}
}
