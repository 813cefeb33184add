package docs

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The page on the design begins with ten files that make a round. They are there, and know
// nothing of what surrounds a run.
func TestDesign_FilesOfRound(t *testing.T) {
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## Where to begin\n")
	section, _, _ = strings.Cut(section, "\n## ")
	files := regexp.MustCompile("(?m)^[0-9]+\\. `([a-z/_]+\\.go)`").FindAllStringSubmatch(section, -1)
	if !found || len(files) != 10 {
		t.Fatalf("design.md begins with %d files, want 10", len(files))
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name[1]), nil, parser.ImportsOnly)
		if err != nil {
			t.Errorf("design.md: %v", err)
			continue
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, around := range []string{"cmd", "experiment", "metrics", "bench", "examples"} {
				if strings.HasPrefix(path, "fedpace/"+around) {
					t.Errorf("%s imports %s: one cannot begin with it", name[1], path)
				}
			}
		}
	}
	besides := regexp.MustCompile("`(\\w+\\.go)` beside it").FindAllStringSubmatch(section, -1)
	if len(besides) < 3 {
		t.Errorf("design.md names %d files beside them, want 3 at least", len(besides))
	}
	for _, beside := range besides {
		if found, err := filepath.Glob("../coordinator/*/" + beside[1]); err != nil || len(found) != 1 {
			t.Errorf("design.md names %s, which is at %v (%v)", beside[1], found, err)
		}
	}
}
