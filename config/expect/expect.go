package expect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"fedpace/internal/expression"
	"fedpace/internal/names"
)

// MaxCount is how many expectations a run may have.
const MaxCount = 100

// Expectation is a condition on the results of a run: a comparison, by <, <=, > or >=, of two terms
// of numbers, values such as tail_accuracy, and gains of one schedule over another.
type Expectation struct {
	Text string
	// Names are the values that the two terms use.
	Names []string
	// Gains are the gains that the terms use.
	Gains []Gain

	left, right expression.Node
	op          string
}

// Gain names the difference of two schedules in a value, as gain('SCHEDULE', 'BASELINE', 'VALUE') does.
type Gain struct {
	// Schedule is the schedule that is compared, and Baseline the one that it is compared with.
	Schedule, Baseline string
	// Value is the name of the value that both are measured by.
	Value string
}

// Interval is a value with the bounds between which it lies with some confidence. Both bounds of a
// value without uncertainty equal the value.
type Interval struct{ Low, Value, High float64 }

// Exactly returns the interval of a value without uncertainty, both of whose bounds are v itself.
func Exactly(v float64) Interval { return Interval{v, v, v} }

// Outcome says whether an expectation was met, and by which value of its left term. It is written
// to the summary of a run as JSON.
type Outcome struct {
	Expression string `json:"expression"`
	// Cell is the schedule and the point of a comparison that the outcome belongs to. It is empty
	// for a single run.
	Cell   string `json:"of,omitempty"`
	Passed bool   `json:"passed"`
	// Value is that of the left term. It is nil if nothing was measured.
	Value *float64 `json:"value"`
	// Low and High bound the left term's interval. They are nil for a value without uncertainty.
	Low *float64 `json:"low,omitempty"`
	// High is the upper bound.
	High *float64 `json:"high,omitempty"`
}

// Parse reads an expectation such as "tail_accuracy >= 0.75". Its error names the character at
// which the text is wrong. Whether the names exist is left to [Expectation.Check].
func Parse(text string) (*Expectation, error) {
	e := &Expectation{Text: text}
	tree, err := expression.Parse(text)
	if err != nil {
		return nil, err
	}
	// The outermost operation must be the only comparison; read refuses any within the terms.
	n, ok := tree.(*expression.Binary)
	if !ok || !slices.Contains([]string{"<", "<=", ">", ">="}, n.Operator) {
		return nil, errors.New("want a comparison by <, <=, > or >=, such as tail_accuracy >= 0.75")
	}
	e.left = n.Left
	e.right = n.Right
	e.op = n.Operator
	return e, errors.Join(e.read(e.left), e.read(e.right))
}

// read collects the names and gains that the term node uses into e.Names and e.Gains. It refuses
// everything but numbers, names of values, the four operations of arithmetic, signs and calls of
// gain, and its error tells at which character.
func (e *Expectation) read(node expression.Node) error {
	switch n := node.(type) {
	case *expression.Number:
		return nil
	case *expression.Name:
		e.Names = append(e.Names, n.Value)
		return nil
	// Signs, operations and gains of another form fall through to the error below.
	case *expression.Unary:
		if n.Operator == "-" || n.Operator == "+" {
			return e.read(n.Operand)
		}
	case *expression.Binary:
		if strings.Contains("+-*/", n.Operator) {
			return errors.Join(e.read(n.Left), e.read(n.Right))
		}
	case *expression.Call:
		if gain, ok := gainOf(n); ok {
			e.Gains = append(e.Gains, gain)
			return nil
		}
	}
	return fmt.Errorf(
		"character %d: want numbers, names of values, + - * / and gain('SCHEDULE', 'OTHER', 'VALUE')",
		node.Position()+1,
	)
}

// gainOf returns the gain that a call gain('SCHEDULE', 'OTHER', 'VALUE') means: two schedules and
// the value by which they are compared. ok is false for any other call.
func gainOf(n *expression.Call) (gain Gain, ok bool) {
	if n.Function != "gain" || len(n.Arguments) != 3 {
		return gain, false
	}
	// All arguments must be texts, not names or numbers.
	var texts []string
	for _, a := range n.Arguments {
		text, isText := a.(*expression.Text)
		if !isText {
			return gain, false
		}
		texts = append(texts, text.Value)
	}
	return Gain{Schedule: texts[0], Baseline: texts[1], Value: texts[2]}, true
}

// Check returns an error for each name in the expectation that is no value, and for each schedule
// of a gain that is none, joined to one. values and schedules are the known names; where schedules
// is nil, they are not known yet and are not checked.
func (e *Expectation) Check(values, schedules []string) error {
	// check returns an error if list lacks name, and proposes the nearest name of the list. kind
	// says in the message what the name should be.
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
	var problems []error
	for _, n := range e.Names {
		problems = append(problems, check("value", n, values))
	}
	for _, g := range e.Gains {
		problems = append(problems, check("value", g.Value, values))
		if schedules != nil {
			problems = append(
				problems,
				check("schedule here", g.Schedule, schedules),
				check("schedule here", g.Baseline, schedules),
			)
		}
	}
	return errors.Join(problems...)
}

// distinct returns the words of a list in their order, each once: the same value may be known from
// several places.
func distinct(list []string) (words []string) {
	for _, word := range list {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// Hold says whether the expectation holds. value returns the measured value of a name, NaN if it was not
// measured. gain returns by how much the value called name is higher for the schedule mine than for the
// schedule baseline. The outcome has the value and the interval of the left term, and cell.
//
// The expectation passes only if the comparison is true for all values of the intervals of both terms. It
// does not pass if a value was not measured.
func (e *Expectation) Hold(
	cell string,
	value func(name string) float64,
	gain func(mine, baseline, name string) Interval,
) Outcome {
	// Both terms are intervals, whose bounds are equal where a value has no uncertainty.
	left := eval(e.left, value, gain)
	right := eval(e.right, value, gain)
	outcome := Outcome{Expression: e.Text, Cell: cell}
	// The bounds that are nearest to each other decide. Comparisons with NaN are false.
	switch e.op {
	case "<":
		outcome.Passed = left.High < right.Low
	case "<=":
		outcome.Passed = left.High <= right.Low
	case ">":
		outcome.Passed = left.Low > right.High
	case ">=":
		outcome.Passed = left.Low >= right.High
	}
	// JSON has no NaN and no infinities, so such values are left out.
	if !math.IsNaN(left.Value) && !math.IsInf(left.Value, 0) {
		outcome.Value = &left.Value
	}
	if left.Low < left.High && !math.IsInf(left.Low, 0) && !math.IsInf(left.High, 0) {
		outcome.Low = &left.Low
		outcome.High = &left.High
	}
	return outcome
}

// eval returns the interval in which the term node lies. value returns the measured value of a name, NaN if it was
// not measured, and gain by how much the value called name is higher for the schedule mine than for baseline. The
// bounds of a sum, product or quotient are the extremes over the bounds of its two terms, since
// these operations are monotonic in each term. The interval's Value is NaN if a value in the term was not measured.
func eval(node expression.Node, value func(string) float64, gain func(mine, baseline, name string) Interval) Interval {
	switch n := node.(type) {
	case *expression.Number:
		return Exactly(n.Value)
	case *expression.Name:
		return Exactly(value(n.Value))
	case *expression.Call:
		// Parse has made sure that the only calls are gains.
		g, _ := gainOf(n)
		return gain(g.Schedule, g.Baseline, g.Value)
	case *expression.Unary:
		v := eval(n.Operand, value, gain)
		// A negative sign exchanges the two bounds.
		if n.Operator == "-" {
			v = Interval{-v.High, -v.Value, -v.Low}
		}
		return v
	}
	// Parse has let through nothing else: this is one of the four operations.
	n := node.(*expression.Binary)
	left := eval(n.Left, value, gain)
	right := eval(n.Right, value, gain)
	apply := func(x, y float64) float64 {
		return map[string]float64{"+": x + y, "-": x - y, "*": x * y, "/": x / y}[n.Operator]
	}
	// The extremes lie where each term is at one of its bounds.
	corners := []float64{
		apply(left.Low, right.Low),
		apply(left.Low, right.High),
		apply(left.High, right.Low),
		apply(left.High, right.High),
	}
	result := Interval{slices.Min(corners), apply(left.Value, right.Value), slices.Max(corners)}
	// A divisor whose interval contains zero makes the quotient unbounded.
	mayBeZero := right.Low <= 0 && right.High >= 0 && right.Low != right.High
	if n.Operator == "/" && mayBeZero {
		result.Low = math.Inf(-1)
		result.High = math.Inf(1)
	}
	return result
}

// String describes the outcome in a sentence for people: the expectation, the value of its left
// term, and the bounds of that value if it is uncertain. It does not say whether the expectation
// passed.
func (o Outcome) String() string {
	text := o.Expression
	if o.Cell != "" {
		text = o.Cell + ": " + text
	}
	switch {
	case o.Value == nil:
		return text + ": it was not measured"
	// The bounds tell how certain the value is.
	case o.Low != nil:
		return fmt.Sprintf("%s: it is %.4g, and %.4g to %.4g by its interval", text, *o.Value, *o.Low, *o.High)
	}
	return fmt.Sprintf("%s: it is %.4g", text, *o.Value)
}

// Missed returns an error that lists the outcomes which did not pass, each with what was measured,
// or nil if all passed.
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
