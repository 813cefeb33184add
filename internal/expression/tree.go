package expression

import "fmt"

// Node is a node of a syntax tree: one of the types below.
type Node interface {
	// Position returns the number of bytes that stand before the node's operator, name or value in the text.
	Position() int
}

// place is where a node stands in the text. Node types embed it.
type place int

// Position implements [Node].
func (p place) Position() int { return int(p) }

type (
	// Number is a real number.
	Number struct {
		place
		Value float64
	}
	// Truth is true or false.
	Truth struct {
		place
		Value bool
	}
	// Text is a text in quotes. [Compile] refuses it: it is for callers that read the tree themselves.
	Text struct {
		place
		Value string
	}
	// Name is that of a variable.
	Name struct {
		place
		Value string
	}
	// Unary is an operator before an operand: + - or not.
	Unary struct {
		place
		Operator string
		Operand  Node
	}
	// Binary is an operator between two operands: + - * / ** < <= > >= == != and or.
	Binary struct {
		place
		Operator    string
		Left, Right Node
	}
	// Conditional is Then where Condition is true, Else otherwise.
	Conditional struct {
		place
		Condition, Then, Else Node
	}
	// Let is Body, in which Variable has the value of Value.
	Let struct {
		place
		Variable    string
		Value, Body Node
	}
	// Call is a call of a function.
	Call struct {
		place
		Function  string
		Arguments []Node
	}
)

// Error is what is wrong with an expression, and how many bytes of the text stand before it.
type Error struct {
	Position int
	Message  string
}

// Error implements error. It counts characters from 1.
func (e *Error) Error() string { return fmt.Sprintf("character %d: %s", e.Position+1, e.Message) }

// errorAt returns an [Error] at a place.
func errorAt(position int, format string, arguments ...any) *Error {
	return &Error{position, fmt.Sprintf(format, arguments...)}
}
