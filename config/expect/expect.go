package expect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"fedpace/internal/names"
)

// Limits of what is expected.
const (
	MaxCount = 100 // expectations of a run
	maxText  = 1000
)

// Expectation is a comparison of two terms of numbers, names of values, and gains.
type Expectation struct {
	Text  string
	Names []string    // of values
	Gains [][3]string // schedule, the one that it is compared with, and the name of the value

	left, right ast.Node
	op          string
}

// Interval holds a value; a value without doubt is both of its bounds.
type Interval struct{ Low, Value, High float64 }

// Exactly is an interval of one value.
func Exactly(v float64) Interval { return Interval{v, v, v} }

// Outcome is what came of an expectation.
type Outcome struct {
	Expression string   `json:"expression"`
	Cell       string   `json:"of,omitempty"` // schedule and point of a comparison
	Passed     bool     `json:"passed"`
	Value      *float64 `json:"value"` // of its left side; null: nothing was measured
	Low        *float64 `json:"low,omitempty"`
	High       *float64 `json:"high,omitempty"` // bounds of a gain's interval
}

// Parse reads an expectation. Its error names the character at which it is wrong.
func Parse(text string) (*Expectation, error) {
	e := &Expectation{Text: text}
	if len(text) > maxText {
		return nil, fmt.Errorf("%d characters are too many (at most %d)", len(text), maxText)
	}
	c := conf.CreateNew()
	clear(c.Builtins)
	tree, err := parser.ParseWithConfig(text, c)
	var wrong *file.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("character %d: %s", wrong.Column+1, wrong.Message)
	} else if err != nil {
		return nil, err
	}
	n, ok := tree.Node.(*ast.BinaryNode)
	if !ok || !slices.Contains([]string{"<", "<=", ">", ">="}, n.Operator) {
		return nil, errors.New("want a comparison by <, <=, > or >=, such as tail_accuracy >= 0.75")
	}
	e.left = n.Left
	e.right = n.Right
	e.op = n.Operator
	return e, errors.Join(e.read(e.left), e.read(e.right))
}

// read takes the names of a term, and refuses what it may not have.
func (e *Expectation) read(node ast.Node) error {
	switch n := node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return nil
	case *ast.IdentifierNode:
		e.Names = append(e.Names, n.Value)
		return nil
	case *ast.UnaryNode:
		if n.Operator == "-" || n.Operator == "+" {
			return e.read(n.Node)
		}
	case *ast.BinaryNode:
		if strings.Contains("+-*/", n.Operator) {
			return errors.Join(e.read(n.Left), e.read(n.Right))
		}
	case *ast.CallNode:
		if gain, ok := gainOf(n); ok {
			e.Gains = append(e.Gains, gain)
			return nil
		}
	}
	return fmt.Errorf(
		"character %d: want numbers, names of values, + - * / and gain('SCHEDULE', 'OTHER', 'VALUE')",
		node.Location().From+1,
	)
}

// gainOf takes the three names of a call gain("a", "b", "metric"). ok is false for any other
// call.
func gainOf(n *ast.CallNode) (gain [3]string, ok bool) {
	if f, isName := n.Callee.(*ast.IdentifierNode); !isName || f.Value != "gain" || len(n.Arguments) != len(gain) {
		return gain, false
	}
	for i, a := range n.Arguments {
		text, isText := a.(*ast.StringNode)
		if !isText {
			return gain, false
		}
		gain[i] = text.Value
	}
	return gain, true
}

// Check finds a name that no value has, or no schedule.
func (e *Expectation) Check(values, schedules []string) error {
	check := func(kind, name string, list []string) error {
		if slices.Contains(list, name) {
			return nil
		}
		list = distinct(list)
		if near := names.Nearest(name, list); near != "" {
			return fmt.Errorf("%q is no %s (did you mean %q?)", name, kind, near)
		}
		return fmt.Errorf("%q is no %s (want one of %s)", name, kind, strings.Join(list, ", "))
	}
	var all []error
	for _, n := range e.Names {
		all = append(all, check("value", n, values))
	}
	for _, g := range e.Gains {
		all = append(all, check("value", g[2], values))
		if schedules != nil {
			all = append(all, check("schedule here", g[0], schedules), check("schedule here", g[1], schedules))
		}
	}
	return errors.Join(all...)
}

// distinct returns the words of a list, each once, in their order.
func distinct(list []string) (words []string) {
	for _, word := range list {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// Hold holds values against the expectation. It passes only where it does for every value of the
// gains' intervals, and nothing passes that was not measured.
func (e *Expectation) Hold(
	cell string,
	value func(name string) float64,
	gain func(mine, baseline, name string) Interval,
) Outcome {
	l := eval(e.left, value, gain)
	r := eval(e.right, value, gain)
	o := Outcome{Expression: e.Text, Cell: cell}
	switch e.op {
	case "<":
		o.Passed = l.High < r.Low
	case "<=":
		o.Passed = l.High <= r.Low
	case ">":
		o.Passed = l.Low > r.High
	case ">=":
		o.Passed = l.Low >= r.High
	}
	if !math.IsNaN(l.Value) && !math.IsInf(l.Value, 0) {
		o.Value = &l.Value
	}
	if l.Low < l.High && !math.IsInf(l.Low, 0) && !math.IsInf(l.High, 0) {
		o.Low = &l.Low
		o.High = &l.High
	}
	return o
}

// eval is a term's interval; that of a product or quotient is between those of the bounds.
func eval(node ast.Node, value func(string) float64, gain func(mine, baseline, name string) Interval) Interval {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return Exactly(float64(n.Value))
	case *ast.FloatNode:
		return Exactly(n.Value)
	case *ast.IdentifierNode:
		return Exactly(value(n.Value))
	case *ast.CallNode:
		arguments, _ := gainOf(n)
		return gain(arguments[0], arguments[1], arguments[2])
	case *ast.UnaryNode:
		v := eval(n.Node, value, gain)
		if n.Operator == "-" {
			v = Interval{-v.High, -v.Value, -v.Low}
		}
		return v
	}
	n := node.(*ast.BinaryNode)
	a := eval(n.Left, value, gain)
	b := eval(n.Right, value, gain)
	do := func(x, y float64) float64 {
		return map[string]float64{"+": x + y, "-": x - y, "*": x * y, "/": x / y}[n.Operator]
	}
	corners := []float64{do(a.Low, b.Low), do(a.Low, b.High), do(a.High, b.Low), do(a.High, b.High)}
	i := Interval{slices.Min(corners), do(a.Value, b.Value), slices.Max(corners)}
	if n.Operator == "/" &&
		b.Low <= 0 &&
		b.High >= 0 &&
		b.Low != b.High {
		i.Low = math.Inf(-1)
		i.High = math.Inf(1)
	}
	return i
}

// String says for people what came of it.
func (o Outcome) String() string {
	text := o.Expression
	if o.Cell != "" {
		text = o.Cell + ": " + text
	}
	switch {
	case o.Value == nil:
		return text + ": it was not measured"
	case o.Low != nil:
		return fmt.Sprintf("%s: it is %.4g, and %.4g to %.4g by its interval", text, *o.Value, *o.Low, *o.High)
	}
	return fmt.Sprintf("%s: it is %.4g", text, *o.Value)
}

// Missed is an error that lists those that did not pass; nil: all did.
func Missed(outcomes []Outcome) error {
	var list []string
	for _, o := range outcomes {
		if !o.Passed {
			list = append(list, o.String())
		}
	}
	if list == nil {
		return nil
	}
	return errors.New("expected " + strings.Join(list, "; expected "))
}
