package schedule

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"fedpace/internal/portable/exact"
	"fedpace/registry"
)

// formula is an expression over numbers, in the language of expr-lang. It is compiled and checked
// when a configuration is read. Of the language it has numbers, variables, arithmetic, comparisons,
// conditions, let, and the functions below: no text, list, loop, clock or randomness. So each of
// its parts is evaluated at most once, and equal values give equal results on every architecture.
type formula struct {
	program *vm.Program
	// reads are the names of the variables in the formula.
	reads map[string]bool
}

// environment holds the values of the variables and the functions of a formula, by their names in
// it. All numbers are real.
type environment struct {
	Round          float64 `expr:"r"`
	Seconds        float64 `expr:"t"`
	Loss           float64 `expr:"F"`
	F0             float64 `expr:"F0"`
	Accuracy       float64 `expr:"accuracy"`
	Converged      bool    `expr:"converged"`
	StragglerShare float64 `expr:"straggler_share"`
	K0             float64 `expr:"k0"`
	Eta0           float64 `expr:"eta0"`
	K              float64 `expr:"k"`
	Eta            float64 `expr:"eta"`
	Pi             float64 `expr:"pi"`

	Functions
}

// Functions are the functions that a formula may call, besides those of the language itself. They round
// alike on every architecture, and their results are NaN where an argument is.
type Functions struct {
	Sqrt func(x float64) float64    `expr:"sqrt"`
	Cbrt func(x float64) float64    `expr:"cbrt"`
	Exp  func(x float64) float64    `expr:"exp"`
	Log  func(x float64) float64    `expr:"log"`
	Cos  func(x float64) float64    `expr:"cos"`
	Pow  func(x, y float64) float64 `expr:"pow"`

	Max func(x float64, more ...float64) float64 `expr:"max"`
	Min func(x float64, more ...float64) float64 `expr:"min"`
}

const (
	// maxFormula is the longest text of a formula, in bytes.
	maxFormula = 1000
	// maxNodes is the largest number of nodes in the syntax tree of a formula.
	maxNodes = 200
)

// operators are those of the language that a formula may have; ** and ^ become pow.
const operators = " + - * / ** ^ < <= > >= == != && || and or ! not "

// library are the language's own functions that a formula may call, which do not
// round. Its max(1, x) would be 1 where x is not a number.
var library = []string{"abs", "ceil", "floor", "round"}

// PortableFunctions are the values of [Functions].
var PortableFunctions = Functions{
	Sqrt: math.Sqrt,
	Cbrt: exact.Cbrt,
	Exp:  exact.Exp,
	Log:  exact.Log,
	Cos:  exact.Cos,
	Pow:  exact.Pow,
	Max: func(x float64, more ...float64) float64 {
		for _, y := range more {
			x = max(x, y)
		}
		return x
	},
	Min: func(x float64, more ...float64) float64 {
		for _, y := range more {
			x = min(x, y)
		}
		return x
	},
}

// compile reads a formula of a schedule. An error is a *[registry.OptionError] that names the character
// at which it is wrong.
func compile(text string) (*formula, error) {
	p, err := Compile(text, environment{})
	if err != nil {
		return nil, registry.Errorf("formula", "%v", err)
	}
	return &formula{p.program, p.Reads}, nil
}

// Program is a compiled formula over the variables of a component.
type Program struct {
	program *vm.Program
	// Reads are the names of the variables in the formula.
	Reads map[string]bool
}

// Value returns the value of the formula with these variables, a struct of the type with which it was
// compiled.
func (p *Program) Value(variables any) float64 {
	result, err := expr.Run(p.program, variables)
	if err != nil {
		// A formula that was checked fails only by a mistake of this program.
		panic(fmt.Sprintf("schedule: a formula that was checked: %v", err))
	}
	return result.(float64)
}

// Compile reads a formula whose variables and functions are the fields of a struct with tags expr, which
// embeds [Functions]. An error says at which character the formula is wrong.
func Compile(text string, variables any) (*Program, error) {
	bad := func(position int, format string, args ...any) (*Program, error) {
		return nil, fmt.Errorf("character %d: %s", position+1, fmt.Sprintf(format, args...))
	}
	if len(text) > maxFormula {
		return nil, fmt.Errorf("%d characters are too many (at most %d)", len(text), maxFormula)
	}
	// Two slashes begin a comment in this language, where a user may mean Python's division.
	if position := strings.Index(text, "//"); position >= 0 {
		return bad(position, "// is no operator of a formula (floor(a / b) rounds down)")
	}
	g := &grammar{reads: map[string]bool{}}
	program, err := g.compile(text, variables)
	var wrong *file.Error
	switch {
	case g.problem != "":
		return bad(g.position, "%s", g.problem)
	case errors.As(err, &wrong) && strings.HasPrefix(wrong.Message, "unknown name"):
		return bad(wrong.Column, "%s (a formula may name %s)", wrong.Message, names(variables))
	case errors.As(err, &wrong):
		return bad(wrong.Column, "%s", wrong.Message)
	case err != nil:
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return &Program{program, g.reads}, nil
}

// names returns the variables and functions that a formula over these variables may name, for a message.
func names(variables any) string {
	all := slices.Clone(library)
	for _, f := range reflect.VisibleFields(reflect.TypeOf(variables)) {
		if !f.Anonymous {
			all = append(all, f.Tag.Get("expr"))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// grammar holds a formula to the part of the language that it may have, and writes
// whole numbers as real ones and powers as calls.
type grammar struct {
	reads map[string]bool
	// problem is the first thing that the formula may not have, and position where it stands.
	problem  string
	position int
}

// compile parses a text, holds it to the grammar, and only then has its types checked:
// a second check would not look into the arguments of calls again.
func (g *grammar) compile(text string, variables any) (*vm.Program, error) {
	c := conf.CreateNew()
	options := []expr.Option{
		expr.Env(variables),
		expr.AsFloat64(),
		expr.WarnOnAny(),
		expr.MaxNodes(maxNodes),
		expr.DisableAllBuiltins(),
	}
	for _, name := range library {
		options = append(options, expr.EnableBuiltin(name))
	}
	for _, set := range options {
		set(c)
	}
	// A name that is disabled must not be found as a builtin either.
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	tree, err := parser.ParseWithConfig(text, c)
	if err != nil {
		return nil, err
	}
	if ast.Walk(&tree.Node, g); g.problem != "" {
		return nil, errors.New(g.problem)
	}
	if _, err := checker.Check(tree, c); err != nil {
		return nil, err
	}
	return compiler.Compile(tree, c)
}

// Visit checks one node of the tree, notes the variables, and replaces whole numbers and powers.
// Only the first problem is noted.
func (g *grammar) Visit(node *ast.Node) {
	refuse := func(format string, args ...any) {
		if g.problem == "" {
			g.problem = fmt.Sprintf(format, args...)
			g.position = (*node).Location().From
		}
	}
	switch n := (*node).(type) {
	case *ast.FloatNode, *ast.BoolNode, *ast.ConditionalNode, *ast.VariableDeclaratorNode, *ast.BuiltinNode, *ast.CallNode:
	case *ast.IntegerNode:
		replace(node, &ast.FloatNode{Value: float64(n.Value)})
	case *ast.IdentifierNode:
		g.reads[n.Value] = true
		// A dollar stands for all variables together.
		if n.Value[0] == '$' {
			refuse("%s is no variable of a formula", n.Value)
		}
	case *ast.UnaryNode:
		if !strings.Contains(operators, " "+n.Operator+" ") {
			refuse("%s is no operator of a formula (%s)", n.Operator, strings.TrimSpace(operators))
		}
	case *ast.BinaryNode:
		switch {
		case !strings.Contains(operators, " "+n.Operator+" "):
			refuse("%s is no operator of a formula (%s)", n.Operator, strings.TrimSpace(operators))
		case n.Operator == "**" || n.Operator == "^":
			replace(
				node,
				&ast.CallNode{Callee: &ast.IdentifierNode{Value: "pow"}, Arguments: []ast.Node{n.Left, n.Right}},
			)
		}
	default:
		refuse("a formula has numbers, variables, operators and functions alone")
	}
}

// replace puts another node in the place of one. The new node has no type yet, so it will be
// checked as if it had been written.
func replace(node *ast.Node, replacement ast.Node) {
	replacement.SetLocation((*node).Location())
	*node = replacement
}

// formulas are the formulas compiled so far, by their text, since a schedule asks once a round.
var formulas sync.Map

// compiled returns the compiled formula of a text. Formulas are kept, so each text is compiled
// once. A text that is no formula gives the same error each time.
func compiled(text string) (*formula, error) {
	if f, ok := formulas.Load(text); ok {
		return f.(*formula), nil
	}
	f, err := compile(text)
	if err == nil {
		formulas.Store(text, f)
	}
	return f, err
}

// valid returns the formula of a text that Validate has checked before, or nil if the text is none.
func valid(text string) *formula {
	f, _ := compiled(text)
	return f
}

// needs returns what the variables of the formula need from the run. A nil formula needs nothing.
func (f *formula) needs() Needs {
	if f == nil {
		return Needs{}
	}
	return Needs{
		Losses:     f.reads["F"] || f.reads["F0"],
		Validation: f.reads["accuracy"] || f.reads["converged"],
		Accuracy:   f.reads["accuracy"],
		Stragglers: f.reads["straggler_share"],
	}
}

// value returns the value of the formula in the round of p. ok is false as long as a variable that the
// formula reads is not known: the window has no loss, the model was not evaluated, no round had a
// straggler share, or there was no round before that had a K. Where the run counts epochs, K is in
// epochs.
func (f *formula) value(p *Progress) (x float64, ok bool) {
	reads := f.reads
	if (reads["F"] || reads["F0"]) && !p.HasLoss ||
		reads["accuracy"] && !p.HasAccuracy ||
		reads["straggler_share"] && p.StragglerShare != p.StragglerShare ||
		reads["k"] && p.Previous.LocalSteps == 0 {
		return 0, false
	}
	scale := float64(p.scale())
	now := environment{Functions: PortableFunctions}
	now.Round = float64(p.Round)
	now.Seconds = p.Seconds
	now.Loss = p.Loss
	now.F0 = p.F0
	now.Accuracy = p.Accuracy
	now.Converged = p.Converged
	now.K0 = float64(p.K0) / scale
	now.Eta0 = p.Eta0
	now.K = float64(p.Previous.LocalSteps) / scale
	now.Eta = p.LearningRate
	now.StragglerShare = p.StragglerShare
	now.Pi = math.Pi
	result, err := expr.Run(f.program, now)
	if err != nil {
		// A formula that was checked fails only by a mistake of this program.
		panic(fmt.Sprintf("schedule: a formula that was checked: %v", err))
	}
	return result.(float64), true
}
