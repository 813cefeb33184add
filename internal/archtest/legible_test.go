package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxColumns is the widest line of code, with a tab as four columns.
const maxColumns = 120

// Shares of code that is hard to read at once. All but the last two are counts per 1,000 lines.
const (
	maxParallelAssignments = 3.0  // a, b = x, y
	maxAssigningConditions = 0.2  // if x = f(); x > 0
	maxPackedConditions    = 0.4  // four and more operands of && and || in a line
	maxPackedLiterals      = 0.2  // five and more named fields in a line
	maxGrammarNames        = 18.0 // identifiers that are a word of grammarWords
	maxWideLines           = 0.3  // percent of all lines
	minComments            = 16.0 // percent of all lines
)

// grammarWords name nothing by themselves: what has such a name is of something, from somewhere or
// left over, and only who wrote it knows of what.
const grammarWords = `
	of at own from out to is has have how why who whom what where when which told tell said says known there
	here left both one other others again anew ahead beside besides apart alone single own most least enough
	much many rest whole comes goes takes lent kept keeps holds ends thing things it them they these those
	that this with without within`

// legibility counts, over some files, what makes code hard to read at once.
type legibility struct {
	lines, wide, comments int

	parallel, assigningConditions, packedConditions, packedLiterals, grammarNames int

	places map[string][]string // by kind of fault: file:line of each
}

// The whole product stays below the limits.
func TestLegible_ProductWithinLimits(t *testing.T) {
	all := countFolder(t, filepath.Join("..", ".."))
	for _, fault := range all.faults() {
		t.Error(fault)
	}
	if all.lines < 50_000 {
		t.Errorf("%d lines were read: the product has more", all.lines)
	}
}

func TestLegible_FaultsAreCounted(t *testing.T) {
	const code = `package x

// A comment.
func f(a, b int) (of int) {
	a, b = b, a
	for i, j := 0, 1; i < j; i++ {
	}
	if a = 3; a > b {
	}
	if err := g(); err != nil {
	}
	var err error
	if _, err = h(); err != nil {
	}
	if a > 1 && b > 1 || a < 0 && b < 0 {
	}
	if a > 1 && b > 1 ||
		a < 0 && b < 0 {
	}
	_ = T{A: 1, B: 2, C: 3, D: 4, E: 5}
	_ = map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
	return of
}
`
	c := &legibility{places: map[string][]string{}}
	if err := c.count("x.go", []byte(code)); err != nil {
		t.Fatal(err)
	}
	for _, check := range []struct {
		what      string
		got, want int
	}{
		{"comments", c.comments, 1},
		{"parallel assignments", c.parallel, 2},
		{"assigning conditions", c.assigningConditions, 1},
		{"packed conditions", c.packedConditions, 1},
		{"packed literals", c.packedLiterals, 1},
		{"grammar names", c.grammarNames, 2},
	} {
		if check.got != check.want {
			t.Errorf("%s: %d, want %d", check.what, check.got, check.want)
		}
	}
}

// countFolder reads all files of the product below root.
func countFolder(t *testing.T, root string) *legibility {
	t.Helper()
	c := &legibility{places: map[string][]string{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "testdata" || name == "node_modules" || name != ".." && (name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !isProduct(name) {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return c.count(name, text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// isProduct reports whether a file is Go that people write for the product: no test, no test
// support, nothing generated.
func isProduct(name string) bool {
	switch {
	case filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".pb.go"):
		return false
	case strings.Contains(name, "kernels_"), strings.HasSuffix(name, "_vtproto.pb.go"):
		return false
	}
	return !isSupport(filepath.ToSlash(filepath.Dir(name)))
}

// count adds one file.
func (c *legibility) count(name string, text []byte) error {
	head := text[:min(len(text), 300)]
	if strings.Contains(string(head), "Code generated") {
		return nil
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	c.lines += len(lines)
	for i, line := range lines {
		columns := len(strings.ReplaceAll(line, "\t", "    "))
		if columns > maxColumns {
			c.wide++
			c.places["wide"] = append(c.places["wide"], position(name, i+1))
		}
		if strings.HasPrefix(strings.TrimSpace(line), "//") {
			c.comments++
		}
	}
	vague := strings.Fields(grammarWords)
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		place := position(name, files.Position(n.Pos()).Line)
		switch n := n.(type) {
		case *ast.IfStmt:
			if assigns(n.Init) {
				c.assigningConditions++
				c.places["assigning condition"] = append(c.places["assigning condition"], place)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) >= 2 && len(n.Lhs) == len(n.Rhs) {
				c.parallel++
				c.places["parallel"] = append(c.places["parallel"], place)
			}
		case *ast.BinaryExpr:
			if isLogical(n) && inOneLine(files, n) && operands(n) >= 4 {
				c.packedConditions++
				c.places["packed condition"] = append(c.places["packed condition"], place)
				return false
			}
		case *ast.CompositeLit:
			if isPackedLiteral(files, n) {
				c.packedLiterals++
				c.places["packed literal"] = append(c.places["packed literal"], place)
			}
		case *ast.Ident:
			if slices.Contains(vague, strings.ToLower(n.Name)) {
				c.grammarNames++
			}
		}
		return true
	})
	return nil
}
