package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pkg is a folder with Go files. Paths within the module are relative to it.
type pkg struct {
	path     string
	tests    bool     // it has no files but tests
	imports  []string // of its files that are not tests; without the standard library's that stay in the process
	comments []string // names of the files, tests included, that have a package comment
}

// load reads all packages below the module's root.
func load(root string) ([]pkg, error) {
	module, err := moduleName(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	byPath := map[string]*pkg{}
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != root && (name == "testdata" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" || name[0] == '.' || name[0] == '_' {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		p := byPath[folder]
		if p == nil {
			p = &pkg{path: folder, tests: true}
			byPath[folder] = p
		}
		return p.read(module, file)
	})
	if err != nil {
		return nil, err
	}
	var all []pkg
	for _, folder := range slices.Sorted(maps.Keys(byPath)) {
		p := byPath[folder]
		slices.Sort(p.imports)
		p.imports = slices.Compact(p.imports)
		all = append(all, *p)
	}
	return all, nil
}

// read adds one file to its package. A file that no build of the package
// includes (a generator) counts for neither imports nor comments.
func (p *pkg) read(module, file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	if ignored(f) {
		return nil
	}
	if f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" {
		p.comments = append(p.comments, filepath.Base(file))
	}
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	p.tests = p.tests && filepath.Base(file) == "doc.go"
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if within, ok := strings.CutPrefix(name, module+"/"); ok {
			name = within
		} else if !strings.Contains(strings.Split(name, "/")[0], ".") && !slices.ContainsFunc(outside, func(o string) bool { return matches(name, o) }) {
			continue // the standard library within the process
		}
		p.imports = append(p.imports, name)
	}
	return nil
}

// ignored tells whether a file is marked "//go:build ignore".
func ignored(f *ast.File) bool {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if c.Pos() < f.Package && strings.TrimSpace(c.Text) == "//go:build ignore" {
				return true
			}
		}
	}
	return false
}

func moduleName(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("%s names no module", file)
}

// matches tells whether a path is covered by a pattern.
func matches(name, pattern string) bool {
	folder, below := strings.CutSuffix(pattern, "/...")
	return name == folder || below && strings.HasPrefix(name, folder+"/")
}

// line is one of the table's.
type line struct {
	pattern string
	imports []string
}

func parse(table string) (lines []line) {
	for text := range strings.Lines(table) {
		fields := strings.Fields(text)
		switch {
		case len(fields) == 0 || fields[0] == "#":
		case text[0] == '\t':
			last := &lines[len(lines)-1]
			last.imports = append(last.imports, fields...)
		default:
			lines = append(lines, line{strings.TrimSuffix(fields[0], ":"), fields[1:]})
		}
	}
	return lines
}

// lineOf finds the line of a package: its own, else that of the closest folder.
// -1: there is none.
func lineOf(name string, lines []line) int {
	best := -1
	for i, l := range lines {
		if matches(name, l.pattern) && (best < 0 || l.pattern == name || lines[best].pattern != name && len(l.pattern) > len(lines[best].pattern)) {
			best = i
		}
	}
	return best
}

// violations lists what breaks the table and what of the table is not used, one
// sentence each.
func violations(all []pkg, table string) (found []string) {
	lines := parse(table)
	used := map[int]map[string]bool{}
	for _, p := range all {
		if p.tests {
			continue
		}
		at := lineOf(p.path, lines)
		if at < 0 {
			found = append(found, p.path+" has no line in the table")
			continue
		}
		if used[at] == nil {
			used[at] = map[string]bool{}
		}
		for _, i := range p.imports {
			allowed := false
			for _, pattern := range lines[at].imports {
				if matches(i, pattern) {
					allowed, used[at][pattern] = true, true
				}
			}
			to := lineOf(i, lines) // of ours, where there is one
			switch {
			case to == at && matches(i, lines[at].pattern):
			case !allowed:
				found = append(found, fmt.Sprintf("%s imports %s, which the line of %s does not allow", p.path, i, lines[at].pattern))
			case to > at:
				found = append(found, fmt.Sprintf("%s imports %s, whose line is below its own", p.path, i))
			}
		}
	}
	for i, l := range lines {
		if used[i] == nil {
			found = append(found, fmt.Sprintf("the table has a line for %s, which holds no package", l.pattern))
			continue
		}
		for _, pattern := range l.imports {
			if !used[i][pattern] {
				found = append(found, fmt.Sprintf("the line of %s allows %s, which nothing there imports", l.pattern, pattern))
			}
		}
	}
	return found
}

// reachable lists what a package imports of the module, at any depth.
func reachable(all []pkg, from string) []string {
	byPath := map[string]pkg{}
	for _, p := range all {
		byPath[p.path] = p
	}
	reached := map[string]bool{}
	open := []string{from}
	for len(open) > 0 {
		p := byPath[open[0]]
		open = open[1:]
		for _, imported := range p.imports {
			if _, ours := byPath[imported]; ours && !reached[imported] {
				reached[imported] = true
				open = append(open, imported)
			}
		}
	}
	return slices.Sorted(maps.Keys(reached))
}

// undescribed lists packages whose comment is missing, repeated or elsewhere
// than in doc.go.
func undescribed(all []pkg) []string {
	var found []string
	for _, p := range all {
		switch {
		case len(p.comments) == 0:
			found = append(found, fmt.Sprintf("%s has no package comment: write what it promises in %s", p.path, path.Join(p.path, "doc.go")))
		case len(p.comments) > 1:
			found = append(found, fmt.Sprintf("%s has package comments in %s: keep that of doc.go", p.path, strings.Join(p.comments, ", ")))
		case p.comments[0] != "doc.go":
			found = append(found, fmt.Sprintf("%s has its package comment in %s: move it to doc.go", p.path, p.comments[0]))
		}
	}
	return found
}
