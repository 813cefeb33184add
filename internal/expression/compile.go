package expression

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"fedpace/internal/portable/exact"
)

// Function is a function that an expression may call with From to To numbers.
type Function struct {
	From, To int
	Value    func(x []float64) float64
}

// OneNumber returns a [Function] of one number.
func OneNumber(f func(x float64) float64) Function {
	return Function{1, 1, func(x []float64) float64 { return f(x[0]) }}
}

// TwoNumbers returns a [Function] of two numbers.
func TwoNumbers(f func(x, y float64) float64) Function {
	return Function{2, 2, func(x []float64) float64 { return f(x[0], x[1]) }}
}

// Program is a compiled expression, whose value is a number.
type Program struct {
	value numeric
	// Reads are the names of the variables in the expression.
	Reads map[string]bool
}

// Value returns the value of the expression with these variables, a struct of the type with which it was
// compiled.
func (p *Program) Value(variables any) float64 {
	return p.value(&frame{fields: reflect.ValueOf(variables)})
}

// frame is what an evaluation reads: the caller's struct, and the values of the let variables, by their numbers.
type frame struct {
	fields reflect.Value
	// numbers and truths have a value at the number of each let variable of their kind that was evaluated so far.
	numbers []float64
	truths  []bool
}

// storeAt stores the value of a let variable at index n of values, which it extends as needed, and returns
// values.
func storeAt[T any](values []T, n int, value T) []T {
	for len(values) <= n {
		var none T
		values = append(values, none)
	}
	values[n] = value
	return values
}

// numeric and logical evaluate a part of an expression. Each part is a function of its own, so that no product is
// rounded together with a sum (fused), on any architecture.
type (
	numeric func(*frame) float64
	logical func(*frame) bool
)

// part is a compiled part of an expression. One of its functions is set, by its type.
type part struct {
	number numeric
	truth  logical
}

// kindName is the type of a part in words.
func (p part) kindName() string {
	if p.number != nil {
		return "a number"
	}
	return "a condition"
}

// compiler holds the variables and functions that an expression may name, and what it has read so far.
type compiler struct {
	// fields and functions are what the caller lets an expression name.
	fields    map[string]reflect.StructField
	functions map[string]Function
	// variables are those of let that are in scope, by their names.
	variables map[string]part
	// lets is the number of let variables so far.
	lets int
	// reads has the names of the fields that the expression reads.
	reads map[string]bool
}

// Compile checks the types of a tree and returns its program. variables is a struct: an expression may name
// its fields with the tag expr:"name", which are float64, bool, or a func(float64) float64 that it may
// call. functions are by their names. The value of the whole expression must be a number. An error is an
// [Error].
func Compile(tree Node, variables any, functions map[string]Function) (*Program, error) {
	c := &compiler{
		fields:    map[string]reflect.StructField{},
		functions: functions,
		variables: map[string]part{},
		reads:     map[string]bool{},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(variables)) {
		if name, ok := field.Tag.Lookup("expr"); ok {
			c.fields[name] = field
		}
	}
	value, err := c.number(tree)
	if err != nil {
		return nil, err
	}
	return &Program{value, c.reads}, nil
}

// number compiles a node that must be a number, to a function that evaluates it.
func (c *compiler) number(n Node) (numeric, *Error) {
	p, err := c.part(n)
	if err == nil && p.number == nil {
		err = errorAt(n.Position(), "want a number, not a condition")
	}
	return p.number, err
}

// truth compiles a node that must be a condition, to a function that evaluates it.
func (c *compiler) truth(n Node) (logical, *Error) {
	p, err := c.part(n)
	if err == nil && p.truth == nil {
		err = errorAt(n.Position(), "want a condition, not a number")
	}
	return p.truth, err
}

// part compiles a node of any type: to a function that evaluates it, given the values of the variables
// (the frame).
func (c *compiler) part(node Node) (part, *Error) {
	switch n := node.(type) {
	case *Number:
		return part{number: func(*frame) float64 { return n.Value }}, nil
	case *Truth:
		return part{truth: func(*frame) bool { return n.Value }}, nil
	case *Name:
		return c.name(n)
	case *Unary:
		return c.unary(n)
	case *Binary:
		return c.binary(n)
	case *Conditional:
		return c.conditional(n)
	case *Let:
		return c.let(n)
	case *Call:
		return c.call(n)
	}
	return part{}, errorAt(node.Position(), "a formula has numbers, variables, operators and functions alone")
}

// name compiles the name of a variable: of one that a let binds, or of a field of the caller's struct, whose value
// an evaluation reads from the frame.
func (c *compiler) name(n *Name) (part, *Error) {
	if variable, ok := c.variables[n.Value]; ok {
		return variable, nil
	}
	field, ok := c.fields[n.Value]
	if !ok {
		return part{}, c.unknown(n.Position(), n.Value)
	}
	c.reads[n.Value] = true
	switch field.Type.Kind() {
	case reflect.Float64:
		return part{number: func(f *frame) float64 { return f.fields.FieldByIndex(field.Index).Float() }}, nil
	case reflect.Bool:
		return part{truth: func(f *frame) bool { return f.fields.FieldByIndex(field.Index).Bool() }}, nil
	}
	return part{}, errorAt(n.Position(), "%s is a function: write %s(x)", n.Value, n.Value)
}

// unknown returns the error for a name that is neither a variable nor a function. It lists the known names.
func (c *compiler) unknown(position int, name string) *Error {
	var known []string
	for name := range c.fields {
		known = append(known, name)
	}
	for name := range c.functions {
		known = append(known, name)
	}
	slices.Sort(known)
	return errorAt(position, "unknown name %s (a formula may name %s)", name, strings.Join(known, ", "))
}

// unary compiles an operator before an operand: not, + or -.
func (c *compiler) unary(n *Unary) (part, *Error) {
	if n.Operator == "not" {
		x, err := c.truth(n.Operand)
		return part{truth: func(f *frame) bool { return !x(f) }}, err
	}
	x, err := c.number(n.Operand)
	if n.Operator == "+" {
		return part{number: x}, err
	}
	return part{number: func(f *frame) float64 { return -x(f) }}, err
}

// binary compiles an operator between two operands, which must both be numbers or both be conditions.
func (c *compiler) binary(n *Binary) (part, *Error) {
	left, err := c.part(n.Left)
	if err != nil {
		return part{}, err
	}
	right, err := c.part(n.Right)
	if err != nil {
		return part{}, err
	}
	areNumbers := left.number != nil && right.number != nil
	areTruths := left.truth != nil && right.truth != nil
	var p part
	switch {
	case areNumbers:
		p = numericOperation(n.Operator, left.number, right.number)
	case areTruths:
		p = logicalOperation(n.Operator, left.truth, right.truth)
	}
	if p.number == nil && p.truth == nil {
		return part{}, errorAt(
			n.Position(),
			"invalid operation: %s between %s and %s",
			n.Operator,
			left.kindName(),
			right.kindName(),
		)
	}
	return p, nil
}

// numericOperation returns the part for an operator on two numbers. It is empty if there is no such
// operator.
func numericOperation(operator string, a, b numeric) part {
	switch operator {
	case "+":
		return part{number: func(f *frame) float64 { return a(f) + b(f) }}
	case "-":
		return part{number: func(f *frame) float64 { return a(f) - b(f) }}
	case "*":
		return part{number: func(f *frame) float64 { return a(f) * b(f) }}
	case "/":
		return part{number: func(f *frame) float64 { return a(f) / b(f) }}
	case "**":
		return part{number: func(f *frame) float64 { return exact.Pow(a(f), b(f)) }}
	case "<":
		return part{truth: func(f *frame) bool { return a(f) < b(f) }}
	case "<=":
		return part{truth: func(f *frame) bool { return a(f) <= b(f) }}
	case ">":
		return part{truth: func(f *frame) bool { return a(f) > b(f) }}
	case ">=":
		return part{truth: func(f *frame) bool { return a(f) >= b(f) }}
	case "==":
		return part{truth: func(f *frame) bool { return a(f) == b(f) }}
	case "!=":
		return part{truth: func(f *frame) bool { return a(f) != b(f) }}
	}
	return part{}
}

// logicalOperation returns the part for an operator on two conditions. It is empty if there is no such
// operator.
func logicalOperation(operator string, a, b logical) part {
	switch operator {
	case "and":
		return part{truth: func(f *frame) bool { return a(f) && b(f) }}
	case "or":
		return part{truth: func(f *frame) bool { return a(f) || b(f) }}
	case "==":
		return part{truth: func(f *frame) bool { return a(f) == b(f) }}
	case "!=":
		return part{truth: func(f *frame) bool { return a(f) != b(f) }}
	}
	return part{}
}

// conditional compiles a choice between two parts of one type.
func (c *compiler) conditional(n *Conditional) (part, *Error) {
	condition, err := c.truth(n.Condition)
	if err != nil {
		return part{}, err
	}
	then, err := c.part(n.Then)
	if err != nil {
		return part{}, err
	}
	if then.number != nil {
		otherwise, err := c.number(n.Else)
		return part{number: func(f *frame) float64 {
			if condition(f) {
				return then.number(f)
			}
			return otherwise(f)
		}}, err
	}
	otherwise, err := c.truth(n.Else)
	return part{truth: func(f *frame) bool {
		if condition(f) {
			return then.truth(f)
		}
		return otherwise(f)
	}}, err
}

// let compiles "let variable = value; body". An evaluation first stores the value in the frame, in a slot
// that is the variable's own, and then evaluates the body, which reads that slot. The variable may not have
// the name of another variable or function.
func (c *compiler) let(n *Let) (part, *Error) {
	_, isLet := c.variables[n.Variable]
	_, isField := c.fields[n.Variable]
	_, isFunction := c.functions[n.Variable]
	if isLet || isField || isFunction {
		return part{}, errorAt(n.Position(), "%s has a meaning already", n.Variable)
	}
	value, err := c.part(n.Value)
	if err != nil {
		return part{}, err
	}
	slot := c.lets
	c.lets++
	if value.number != nil {
		c.variables[n.Variable] = part{number: func(f *frame) float64 { return f.numbers[slot] }}
	} else {
		c.variables[n.Variable] = part{truth: func(f *frame) bool { return f.truths[slot] }}
	}
	body, err := c.part(n.Body)
	// The variable is known in the body alone.
	delete(c.variables, n.Variable)
	if err != nil {
		return part{}, err
	}
	return body.runAfter(func(f *frame) {
		if value.number != nil {
			f.numbers = storeAt(f.numbers, slot, value.number(f))
			return
		}
		f.truths = storeAt(f.truths, slot, value.truth(f))
	}), nil
}

// runAfter returns a part that first calls do and then evaluates p.
func (p part) runAfter(do func(*frame)) part {
	if p.number != nil {
		return part{number: func(f *frame) float64 {
			do(f)
			return p.number(f)
		}}
	}
	return part{truth: func(f *frame) bool {
		do(f)
		return p.truth(f)
	}}
}

// call compiles a call of a function, or of a field of the variables that is a function.
func (c *compiler) call(n *Call) (part, *Error) {
	function, isFunction := c.functions[n.Function]
	field, isField := c.fields[n.Function]
	switch {
	case isField && field.Type.Kind() == reflect.Func:
		c.reads[n.Function] = true
		function = Function{From: 1, To: 1}
	case isField:
		return part{}, errorAt(n.Position(), "%s is no function", n.Function)
	case !isFunction:
		return part{}, c.unknown(n.Position(), n.Function)
	}
	if len(n.Arguments) < function.From || len(n.Arguments) > function.To {
		return part{}, errorAt(n.Position(), "%s takes %s", n.Function, function.counts())
	}
	arguments := make([]numeric, len(n.Arguments))
	for i, argument := range n.Arguments {
		x, err := c.number(argument)
		if err != nil {
			return part{}, err
		}
		arguments[i] = x
	}
	if isField {
		return part{number: func(f *frame) float64 {
			call := f.fields.FieldByIndex(field.Index).Interface().(func(float64) float64)
			return call(arguments[0](f))
		}}, nil
	}
	return part{number: func(f *frame) float64 {
		values := make([]float64, len(arguments))
		for i, argument := range arguments {
			values[i] = argument(f)
		}
		return function.Value(values)
	}}, nil
}

// counts says how many numbers a function takes.
func (f Function) counts() string {
	switch {
	case f.To == math.MaxInt:
		return "one number or more"
	case f.From == 1:
		return "one number"
	}
	return "two numbers"
}
