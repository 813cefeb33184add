package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// shown is how many places a fault lists.
const shown = 5

// faults lists each limit that is passed, with the first places where it is.
func (c *legibility) faults() (found []string) {
	thousands := float64(max(c.lines, 1)) / 1000
	for _, limit := range []struct {
		kind  string
		count int
		most  float64
	}{
		{"parallel", c.parallel, maxParallelAssignments},
		{"assigning condition", c.assigningConditions, maxAssigningConditions},
		{"packed condition", c.packedConditions, maxPackedConditions},
		{"packed literal", c.packedLiterals, maxPackedLiterals},
		{"grammar name", c.grammarNames, maxGrammarNames},
	} {
		share := float64(limit.count) / thousands
		if share > limit.most {
			places := c.places[limit.kind]
			found = append(found, fmt.Sprintf("%.2f of %q in 1,000 lines, want at most %g: %s",
				share, limit.kind, limit.most, strings.Join(places[:min(len(places), shown)], ", ")))
		}
	}
	percent := float64(max(c.lines, 1)) / 100
	if share := float64(c.wide) / percent; share > maxWideLines {
		places := c.places["wide"]
		found = append(found, fmt.Sprintf("%.2f %% of lines have more than %d columns, want at most %g %%: %s",
			share, maxColumns, maxWideLines, strings.Join(places[:min(len(places), shown)], ", ")))
	}
	if share := float64(c.comments) / percent; share < minComments {
		found = append(found, fmt.Sprintf("%.1f %% of lines are comments, want at least %g %%", share, minComments))
	}
	return found
}

func position(name string, line int) string { return fmt.Sprintf("%s:%d", name, line) }

// assigns reports whether the first part of an if changes a variable that is no error.
func assigns(init ast.Stmt) bool {
	switch init := init.(type) {
	case *ast.IncDecStmt:
		return true
	case *ast.AssignStmt:
		if init.Tok == token.DEFINE {
			return false
		}
		last, isName := init.Lhs[len(init.Lhs)-1].(*ast.Ident)
		return !isName || last.Name != "err"
	}
	return false
}

func isLogical(e *ast.BinaryExpr) bool { return e.Op == token.LAND || e.Op == token.LOR }

// inOneLine reports whether an expression begins and ends in the same line.
func inOneLine(files *token.FileSet, e ast.Expr) bool {
	return files.Position(e.Pos()).Line == files.Position(e.End()).Line
}

// operands is how many facts a condition joins by && and ||.
func operands(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return operands(e.X)
	case *ast.BinaryExpr:
		if isLogical(e) {
			return operands(e.X) + operands(e.Y)
		}
	}
	return 1
}

// isPackedLiteral reports whether a literal of named fields has five and more of them in one line.
func isPackedLiteral(files *token.FileSet, literal *ast.CompositeLit) bool {
	const packed = 5
	if len(literal.Elts) < packed {
		return false
	}
	if _, isMap := literal.Type.(*ast.MapType); isMap {
		return false
	}
	_, isNamed := literal.Elts[0].(*ast.KeyValueExpr)
	first := files.Position(literal.Elts[0].Pos()).Line
	last := files.Position(literal.Elts[packed-1].Pos()).Line
	return isNamed && first == last
}
