package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the table of checks has three cells and ends with its tests, and a test that is named
// stands in the file that it leads to.
func TestChecks_NameTests(t *testing.T) {
	text, err := os.ReadFile("checks.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("\\[`(Test\\w+)`\\]\\((\\S+_test\\.go)\\)")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) == 1 || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "what ") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(tests) == 0 {
			t.Errorf("%d cells and %d tests: %s", len(cells), len(tests), line)
		}
		for _, m := range tests {
			file, err := os.ReadFile(filepath.FromSlash(m[2]))
			if err != nil || !strings.Contains(string(file), "\nfunc "+m[1]+"(t *testing.T)") {
				t.Errorf("%s has no test %s (%v)", m[2], m[1], err)
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}
