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
	imports  []string // of its files that are not tests; outside the module in full
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
			p = &pkg{path: folder}
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
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		if within, ok := strings.CutPrefix(name, module+"/"); ok {
			name = within
		} else if !strings.Contains(strings.Split(name, "/")[0], ".") {
			continue // the standard library
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

// matches tells whether a path is covered by one of the patterns.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
			return name == folder || strings.HasPrefix(name, folder+"/")
		}
		return name == pattern
	})
}

// violations lists what breaks the rules, one sentence each.
func violations(all []pkg, rules []rule) []string {
	imports := map[string][]string{}
	for _, p := range all {
		imports[p.path] = p.imports
	}
	var found []string
	for _, r := range rules {
		for _, p := range all {
			inside := matches(p.path, r.from)
			switch {
			case r.only != nil && inside:
				for _, i := range p.imports {
					if !matches(i, r.only) {
						found = append(found, fmt.Sprintf("%s imports %s: %s", p.path, i, r.why))
					}
				}
			case r.never != nil && inside:
				for _, way := range reach(p.path, imports) {
					end := way[len(way)-1]
					if matches(end, r.never) && !matches(end, []string{p.path}) {
						found = append(found, fmt.Sprintf("%s: %s", strings.Join(way, " imports "), r.why))
					}
				}
			case r.owner != nil && !inside:
				for _, i := range p.imports {
					if matches(i, r.owner) {
						found = append(found, fmt.Sprintf("%s imports %s: %s", p.path, i, r.why))
					}
				}
			}
		}
	}
	return found
}

// reach lists a shortest way from a package to each that it reaches, direct
// imports first.
func reach(from string, imports map[string][]string) [][]string {
	seen := map[string]bool{from: true}
	var ways [][]string
	for queue := [][]string{{from}}; len(queue) > 0; queue = queue[1:] {
		way := queue[0]
		for _, next := range imports[way[len(way)-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clone(way), next)
			ways = append(ways, longer)
			queue = append(queue, longer)
		}
	}
	return ways
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
