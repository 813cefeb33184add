package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exactFunctions are the functions of package math with the same bits on every machine: their results
// are exact, or rounded once. All others are assembly on some machines and Go on others.
var exactFunctions = strings.Fields(`Abs Ceil Copysign Dim FMA Float32bits Float32frombits Float64bits
	Float64frombits Floor Frexp Ilogb Inf IsInf IsNaN Ldexp Logb Max Min Mod Modf NaN Nextafter Nextafter32
	Pow10 Remainder Round RoundToEven Signbit Sqrt Trunc`)

// inexactPlaces may use other functions of math, or gonum, which adds in the order of the machine's vector
// instructions: what they compute is rounded to fewer digits before anything follows from it.
var inexactPlaces = map[string]string{
	"algorithm/privacy/accountant.go":   "epsilon is rounded up to six digits",
	"algorithm/privacy/concentrated.go": "epsilon is rounded up to six digits",
	"algorithm/privacy/local.go":        "epsilon is rounded up to six digits",
	"algorithm/privacy/pld/pld.go":      "epsilon is rounded up to six digits",
	"data/federated/stats.go":           "entropy and divergence are rounded to nine places",
	"internal/portable/exact/exact.go":  "special cases, which math does not round",
	"internal/robust/median.go":         "a quantile that is rounded to a number of values",
	"internal/statistics/rank.go":       "intervals are rounded to ten digits",
	"internal/statistics/interval.go":   "quantiles and p-values are rounded to ten digits",
}

// inexact lists where the files of a folder use functions of math that are not exact, or gonum. root is
// the folder that names are relative to.
func inexact(root, folder string) (places []string, err error) {
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return nil, err
		}
		short, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(path, "gonum.org/v1/gonum/") {
				places = append(places, fmt.Sprintf("%s: imports %s", filepath.ToSlash(short), path))
			}
		}
		constants := []string{"E", "Pi", "Phi", "Ln2", "Ln10", "Log2E", "Log10E"}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, ok := selector.X.(*ast.Ident)
			function := selector.Sel.Name
			isConstant := slices.Contains(constants, function) || strings.HasPrefix(function, "Sqrt") && function != "Sqrt" ||
				strings.HasPrefix(function, "Max") || strings.HasPrefix(function, "Min") || strings.HasPrefix(function, "Smallest")
			if ok && of.Name == "math" && !isConstant && !slices.Contains(exactFunctions, function) {
				places = append(places, fmt.Sprintf("%s: math.%s", filepath.ToSlash(short), function))
			}
			return true
		})
	}
	return places, nil
}

// Logarithms, exponentials and the like differ between machines in the last digit, so that what a result
// follows from takes them from internal/portable.
func TestFunctions_SameBitsInResults(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", append([]string{"list", "-f", "{{.Dir}}"}, roundedPackages...)...)
	list.Dir = root
	list.Env = os.Environ()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, folder := range strings.Fields(string(out)) {
		places, err := inexact(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			name, _, _ := strings.Cut(place, ":")
			used[name] = true
			if inexactPlaces[name] == "" {
				t.Errorf("%s: its bits differ between machines (take internal/portable, or round what follows)", place)
			}
		}
	}
	for name := range inexactPlaces {
		if !used[name] {
			t.Errorf("%s needs no exception", name)
		}
	}
}
