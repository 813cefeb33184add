package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"fedpace/internal/testkit/installed"
)

// The vendored files are those of uPlot's package in npm, whose version package-lock.json pins.
func TestPage_UPlotIsPublishedOne(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		text := read("uplot/" + name)
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the SHA-256 %x, want %s", name, sum, want)
		}
		published, err := os.ReadFile("node_modules/uplot/dist/" + name)
		if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
			t.Logf("%s is compared with its SHA-256 alone (npm ci in metrics/page brings the package)", name)
			continue
		}
		if err != nil || !bytes.Equal(text, published) {
			t.Errorf("%s is not what npm has: %v", name, err)
		}
	}
}

// A page that stands alone is less than a megabyte without what it shows, and names no address that a
// browser would ask.
func TestPage_AloneIsSmall(t *testing.T) {
	var file bytes.Buffer
	if err := Write(&file); err != nil || file.Len() > 1e6 {
		t.Errorf("the page has %d bytes: %v", file.Len(), err)
	}
	if asks := regexp.MustCompile(`(src|href)="(https?:)?//|url\(|@import|\bimport\(`).FindAll(file.Bytes(), -1); len(asks) > 0 {
		t.Errorf("the page asks for %q", asks)
	}
	// A text that spans lines would lose its indentation.
	for _, line := range regexp.MustCompile("(?m)^.*$").FindAll(script(), -1) {
		if bytes.Count(line, []byte("`"))%2 != 0 && !bytes.Contains(line, []byte("uPlot")) {
			t.Errorf("a text goes on behind its line: %.80s", line)
		}
	}
	if left := moduleSyntax.FindAll(file.Bytes(), -1); len(left) > 0 {
		t.Errorf("words of modules are left in the page: %q", left)
	}
}

// The modules share one scope, and no two of them have the same name at the top.
func TestPage_OneScope(t *testing.T) {
	node := installed.Program(t, "node", "nodejs")
	check := exec.Command(node, "--check", "-")
	check.Stdin = bytes.NewReader(script())
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// The scripts' own tests pass.
func TestPage_Scripts(t *testing.T) {
	node := installed.Program(t, "node", "nodejs")
	if said, err := exec.Command(node, "--test", "scripts.test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
