package installed

import (
	"os"
	"os/exec"
	"testing"
)

// Program is the path of a program of a Debian package. Where it is missing the test fails in CI,
// which installs the package, and is skipped elsewhere.
func Program(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: .ci/run installs Debian's package %s", program, debian)
	}
	t.Skipf("%s is missing: install Debian's package %s", program, debian)
	return ""
}
