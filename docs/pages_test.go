package docs

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"fedpace/coordinator/round"
	"fedpace/coordinator/schedule"
)

// pages are all pages by their path from this folder.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "adr/*.md", "../*.md", "../examples/*/*.md", "../python/*.md", "../findings/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	if len(all) < 15 {
		t.Fatalf("%d pages", len(all))
	}
	return all
}

// prose blanks code, so that what stands in it is neither a link nor too long.
func prose(page string) []string {
	fenced := false
	var lines []string
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		fence := strings.HasPrefix(line, "```")
		if fenced || fence || strings.HasPrefix(line, "    ") {
			line = ""
		}
		fenced = fenced != fence
		lines = append(lines, line)
	}
	return lines
}

// Lines of prose end by column 100. Table rows, pictures and code cannot be
// wrapped.
func TestPages_ShortLines(t *testing.T) {
	for path, page := range pages(t) {
		for i, line := range prose(page) {
			if n := utf8.RuneCountInString(line); n > 100 && line[0] != '|' && !strings.Contains(line, " | ") && !strings.HasPrefix(line, "![") {
				t.Errorf("%s:%d: %d columns", path, i+1, n)
			}
		}
	}
}

// A table begins with titles and a rule. A blank line inside of one would make text of the rows below it.
func TestPages_WholeTables(t *testing.T) {
	rule := regexp.MustCompile(`^[|\s:-]+$`)
	for path, page := range pages(t) {
		lines := prose(page)
		for i := 1; i+1 < len(lines); i++ {
			cells := strings.Count(lines[i], " | ")
			begins := lines[i-1] == "" && cells > 0
			if begins && !rule.MatchString(lines[i+1]) && strings.Count(lines[i+1], " | ") == cells {
				t.Errorf("%s:%d: rows without titles: %s", path, i+1, lines[i])
			}
		}
	}
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	heading = strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	return strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, ""), " ", "-")
}

// The table of schedules has every one of them.
func TestPages_AllSchedules(t *testing.T) {
	page := pages(t)["schedules.md"]
	for _, name := range append(schedule.Ks.Names(), schedule.Etas.Names()...) {
		if !strings.Contains(page, "\n`"+name+"` | ") {
			t.Errorf("no row has %s", name)
		}
	}
}

// A link leads to a file of the project and to a heading in it.
func TestPages_Links(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	all := pages(t)
	for path, page := range all {
		for i, line := range prose(page) {
			for _, m := range links.FindAllStringSubmatch(line, -1) {
				to, heading, _ := strings.Cut(m[1], "#")
				if strings.Contains(to, "://") {
					continue
				}
				target := path
				if to != "" {
					target = strings.TrimPrefix(filepath.Join(filepath.Dir(path), to), "../docs/")
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", path, i+1, m[1])
					continue
				}
				if heading != "" && !slices.ContainsFunc(prose(all[target]), func(l string) bool {
					return strings.HasPrefix(l, "#") && anchor(l) == heading
				}) {
					t.Errorf("%s:%d: %s has no heading %q", path, i+1, target, heading)
				}
			}
		}
	}
}

// The index leads to every page.
func TestPages_WholeIndex(t *testing.T) {
	all := pages(t)
	for path := range all {
		if !strings.Contains(path, "/") && path != "README.md" && !strings.Contains(all["README.md"], "]("+path) {
			t.Errorf("README.md does not lead to %s", path)
		}
	}
}

// Each block of Go on the page about plug-ins is a file below examples/plugins, named by the
// line above the block, and the page names every such file.
func TestPages_PluginsAreCompiled(t *testing.T) {
	page, err := os.ReadFile("extending.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)([^\n]*)\n\n```go\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		name := regexp.MustCompile("`(examples/plugins/[a-z_/-]+\\.go)`").FindStringSubmatch(m[1])
		if name == nil {
			t.Errorf("a block of Go below %q names no file", m[1])
			continue
		}
		code, err := os.ReadFile(filepath.Join("..", name[1]))
		if err != nil {
			t.Fatal(err)
		}
		if m[2] != string(code) {
			t.Errorf("%s is not as on the page", name[1])
		}
	}
	files, err := filepath.Glob("../examples/plugins/*.go")
	programs, err2 := filepath.Glob("../examples/plugins/*/*.go")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, programs...) {
		if filepath.Base(file) != "doc.go" && !strings.HasSuffix(file, "_test.go") && !strings.Contains(string(page), strings.TrimPrefix(file, "../")) {
			t.Errorf("%s is not on the page", file)
		}
	}
}

// The tree of packages on the page about the design names folders that exist,
// and every folder of the top two levels that holds a package.
func TestDesign_TreeOfPackages(t *testing.T) {
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, _ := strings.Cut(string(page), "\n## Packages\n\n")
	tree, _, _ = strings.Cut(tree, "\n\n")
	named := map[string]bool{}
	var above []string
	for line := range strings.Lines(tree) {
		text := strings.TrimLeft(line, " ")
		depth := (len(line)-len(text))/2 - 2
		above = append(above[:depth], "")
		for _, folder := range regexp.MustCompile(`(?:^|, )([a-z/-]+)/`).FindAllStringSubmatch(text, -1) {
			above[depth] = folder[1]
			path := strings.Join(above, "/")
			named[path] = true
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf("design.md names %s, which does not exist", path)
			}
		}
	}
	for _, pattern := range []string{"../*/*.go", "../*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path, err := filepath.Rel("..", filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			top, _, _ := strings.Cut(path, "/")
			if small := top == "internal" || top == "deploy" || top == "examples" || top == "docs"; !named[path] && !small {
				t.Errorf("design.md does not name %s", path)
			}
		}
	}
}

// The diagram of a round has all phases of the machine.
func TestDesign_PhasesOfMachine(t *testing.T) {
	page, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	for phase := round.Idle; phase <= round.Stopped; phase++ {
		if !regexp.MustCompile(`(?mi)^     .*\b` + phase.String() + `\b`).Match(page) {
			t.Errorf("phase %v is not in the diagram", phase)
		}
	}
}

// Each test that a page names, behind its package, is there.
func TestPages_NamedTests(t *testing.T) {
	named := regexp.MustCompile("`([a-z/]+)` (Test\\w+(?:, Test\\w+)*)")
	n := 0
	for path, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(page, -1) {
			files, err := filepath.Glob(filepath.Join("..", m[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
			for _, test := range strings.Split(m[2], ", ") {
				if n++; !strings.Contains(all.String(), "\nfunc "+test+"(t *testing.T)") {
					t.Errorf("%s names %s of %s, which is not there", path, test, m[1])
				}
			}
		}
	}
	if n < 15 {
		t.Errorf("%d tests are named", n)
	}
}
