package archtest

import (
	"fmt"
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

// A test is called TestThing_Case. The thing and the case are short, and neither is a sentence.
const (
	maxWordsAlone = 2 // of a name without a case
	maxThingWords = 4
	maxCaseWords  = 5
)

// proseWords begin or join sentences. No test has one in its name.
var proseWords = strings.Fields("A An The That Which Who Whose Whom What Why How It Its Them They")

// words splits a name such as KErrorOnAWindow at its capitals: K, Error, On, A, Window. Capitals that
// belong together, such as those of FEMNIST, are one word.
func words(name string) []string {
	var all []string
	start := 0
	isUpper := func(i int) bool { return name[i] >= 'A' && name[i] <= 'Z' }
	isLower := func(i int) bool { return i < len(name) && name[i] >= 'a' && name[i] <= 'z' }
	for i := 1; i < len(name); i++ {
		endsLower := isUpper(i) && !isUpper(i-1)
		endsCapitals := isUpper(i) && isUpper(i-1) && isLower(i+1)
		if endsLower || endsCapitals {
			all = append(all, name[start:i])
			start = i
		}
	}
	return append(all, name[start:])
}

// nameFault says why a test's name is prose, or "" if it is TestThing_Case.
func nameFault(name string) string {
	thing, cases, hasCase := strings.Cut(strings.TrimPrefix(name, "Test"), "_")
	ofThing := words(thing)
	if !hasCase && len(ofThing) > maxWordsAlone {
		return fmt.Sprintf("has %d words and no case: call it TestThing_Case", len(ofThing))
	}
	if len(ofThing) > maxThingWords {
		return fmt.Sprintf("names its thing in %d words, at most %d are clear", len(ofThing), maxThingWords)
	}
	all := ofThing
	for part := range strings.SplitSeq(cases, "_") {
		ofCase := words(part)
		if len(ofCase) > maxCaseWords {
			return fmt.Sprintf("names its case in %d words, at most %d are clear", len(ofCase), maxCaseWords)
		}
		all = append(all, ofCase...)
	}
	for _, word := range all {
		if slices.Contains(proseWords, word) {
			return fmt.Sprintf("is prose: leave %q out of it", word)
		}
	}
	return ""
}

// testFault is one place in a test that is not as the house wants it.
type testFault struct {
	place, fault string
}

// faultsOfTest returns the faults of one file of tests: names that are prose, and programs that are looked for
// beside package installed, which says what to install and fails in CI.
func faultsOfTest(name string, text []byte) ([]testFault, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var faults []testFault
	add := func(n ast.Node, fault string) {
		place := position(name, files.Position(n.Pos()).Line)
		faults = append(faults, testFault{place: place, fault: fault})
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			isTest := n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") && n.Name.Name != "TestMain"
			if !isTest {
				break
			}
			if fault := nameFault(n.Name.Name); fault != "" {
				add(n, n.Name.Name+" "+fault)
			}
		case *ast.SelectorExpr:
			receiver, ok := n.X.(*ast.Ident)
			if ok && receiver.Name == "exec" && n.Sel.Name == "LookPath" {
				add(n, "exec.LookPath: let installed.Program find it, which says what to install and fails in CI")
			}
		}
		return true
	})
	return faults, nil
}

// Every test of the project is called TestThing_Case, and is skipped for no program that CI should have.
func TestTests_NamesAndPrograms(t *testing.T) {
	root := filepath.Join("..", "..")
	read := 0
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
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		faults, err := faultsOfTest(filepath.ToSlash(name), text)
		for _, f := range faults {
			t.Errorf("%s: %s", f.place, f.fault)
		}
		read++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 500 {
		t.Errorf("%d files of tests were read: the project has more", read)
	}
}

func TestTests_FaultsAreFound(t *testing.T) {
	for name, fault := range map[string]bool{
		"TestErrata":                                   false,
		"TestOpenLEAF":                                 false,
		"TestDevice_SlowDriftAttack":                   false,
		"TestKError_FollowsFormulaInEveryWindow":       false,
		"TestAModelThatLagsIsWaitedFor":                true,
		"TestOpenLEAFTwice":                            true,
		"TestALog":                                     true,
		"TestModel_ThatLags":                           true,
		"TestKError_FollowsFormulaInEveryWindowOfRuns": true,
		"TestNamesOfManyThingsHere_Case":               true,
	} {
		if got := nameFault(name); (got != "") != fault {
			t.Errorf("%s: %q, want a fault: %t", name, got, fault)
		}
	}
	const code = `package x

import "os/exec"

func TestAPrefixOfNothing(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip()
	}
}
`
	faults, err := faultsOfTest("x_test.go", []byte(code))
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) != 2 || faults[0].place != "x_test.go:5" || faults[1].place != "x_test.go:6" {
		t.Errorf("%v, want the name in line 5 and the program in line 6", faults)
	}
}
