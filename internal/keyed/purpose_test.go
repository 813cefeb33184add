package keyed

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// No two purposes have one number: their draws would be the same.
func TestPurposes_Distinct(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "purpose.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{} // by number
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		number, name := spec.Values[0].(*ast.BasicLit).Value, spec.Names[0].Name
		if other := names[number]; other != "" {
			t.Errorf("%s and %s are both %s", other, name, number)
		}
		names[number] = name
		return true
	})
	if len(names) < 30 {
		t.Errorf("%d purposes were found", len(names))
	}
}
