package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each line of the page on other frameworks names a script and a test that exist.
func TestDifferences_ScriptsAndTestsExist(t *testing.T) {
	page, err := os.ReadFile("differences.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	row := regexp.MustCompile("^[^|]*\\(\\.\\./findings/([a-z0-9-]+\\.sh)\\).* \\| `(Test\\w+)`$")
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		named := row.FindStringSubmatch(line)
		if named == nil {
			if strings.Contains(line, "findings/") && strings.Contains(line, " | ") {
				t.Errorf("a line without a script and a test: %s", line)
			}
			continue
		}
		rows++
		if _, err := os.Stat(filepath.Join("..", "findings", named[1])); err != nil {
			t.Error(err)
		}
		if !tests[named[2]] {
			t.Errorf("no test is called %s", named[2])
		}
	}
	const played = 9
	if rows != played {
		t.Errorf("%d lines, want %d", rows, played)
	}
}

// testNames are the names of all tests in Go.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllStringSubmatch(string(source), -1) {
			names[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
