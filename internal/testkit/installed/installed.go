package installed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program returns the path of a program of a Debian package. Where it is missing the test fails in CI,
// which installs the package, and is skipped elsewhere.
func Program(t testing.TB, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(t, program+" is missing: install Debian's package "+debian)
	}
	return path
}

// Python returns a Python 3 that imports a library: the first on the path or, where that one lacks it, the
// system's, for which Debian's package python3-LIBRARY is. Where none has it the test fails in CI, which
// installs the package, and is skipped elsewhere.
func Python(t testing.TB, library string) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import "+library).Run() == nil {
			return python
		}
	}
	Missing(t, "no Python has "+library+": install Debian's package python3-"+library)
	return ""
}

// Packages fails the test in CI, which runs npm ci, and skips it elsewhere, where a folder lacks its
// packages of npm.
func Packages(t testing.TB, folder string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		Missing(t, "the packages of "+folder+" are missing: run npm ci there")
	}
}

// Missing fails a test in CI and skips it elsewhere, for something that it needs and this machine lacks. what says
// what that is, and how to install it.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}
