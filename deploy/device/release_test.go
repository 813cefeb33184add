//go:build unix

package device

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"fedpace/internal/testkit/slow"
)

// One commit makes one set of bits, whatever the folder is in which it is built and the
// time. It takes minutes.
func TestRelease_SameBitsTwice(t *testing.T) {
	slow.Test(t, "it builds a release twice")
	first, from := "", "../.."
	for _, name := range []string{"here", "in/another/place"} {
		dir := filepath.Join(t.TempDir(), name)
		for _, args := range [][]string{{"git", "clone", "--quiet", from, dir}, {"make", "--quiet", "-C", dir, "dist", "PLATFORMS=linux-amd64"}} {
			if said, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, said)
			}
		}
		sums, err := os.ReadFile(filepath.Join(dir, "dist", "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first, from = string(sums), dir // of the same commit, whatever is committed meanwhile
		}
		if string(sums) != first {
			t.Errorf("first\n%sthen\n%s", first, sums)
		}
	}
	for _, want := range []string{"  fedpace-linux-amd64\n", "  fedpace-linux-amd64.cdx.json\n", "  fedpace-device-linux-amd64.cdx.json\n", "-linux-amd64.tar.gz\n", "  man/fedpace.1\n"} {
		if !strings.Contains(first, want) {
			t.Errorf("the sums have no %q:\n%s", want, first)
		}
	}
}
