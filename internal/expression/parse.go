package expression

import "fmt"

// maxLength is the largest number of bytes of an expression.
const maxLength = 1000

// precedences say how closely an operator between two operands binds: the higher, the closer. Those of [Unary]
// stand between them.
var precedences = map[string]int{
	"or":  1,
	"and": 2,
	"==":  3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3,
	"+": 4, "-": 4,
	"*": 6, "/": 6,
	"**": 8,
}

const (
	// lowestPrecedence is the lowest of precedences.
	lowestPrecedence = 1
	// notPrecedence is that of not, whose operand ends before a sum, a comparison or and.
	notPrecedence = 5
	// signPrecedence is that of + and - before an operand: -x ** 2 is -(x ** 2), and -x * y is (-x) * y.
	signPrecedence = 7
)

// Parse returns the syntax tree of an expression of at most 1,000 bytes. Its error is an [Error] if a place in the
// text is wrong.
//
// As in the language of expr-lang.org, powers are right-associative, all other operators left-associative, and a
// condition is c ? a : b or if c { a } else { b }. let x = a; b is b in which x is a.
func Parse(expression string) (Node, error) {
	if len(expression) > maxLength {
		return nil, fmt.Errorf("%d characters are too many (at most %d)", len(expression), maxLength)
	}
	tokens, err := scan(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	tree := p.expression()
	if p.peek().kind != end {
		p.unexpected()
	}
	if p.err != nil {
		return nil, p.err
	}
	return tree, nil
}

// parser holds the tokens of an expression that are still to be read: the last one, of the kind end, is never
// taken. After the first error all tokens but that one are gone, so that every loop ends.
type parser struct {
	tokens []token
	err    *Error
}

// peek returns the next token and leaves it.
func (p *parser) peek() token { return p.tokens[0] }

// next takes the next token. The last one, of the kind end, stays.
func (p *parser) next() token {
	t := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return t
}

// take takes the next token, and returns true, if it is this operator or word. Otherwise it leaves the
// token.
func (p *parser) take(text string) bool {
	t := p.peek()
	isSame := (t.kind == operator || t.kind == word) && t.text == text
	if isSame {
		p.next()
	}
	return isSame
}

// expect takes the next token, which must be this operator or word.
func (p *parser) expect(text string) {
	if !p.take(text) {
		p.unexpected()
	}
}

// unexpected notes that the next token cannot stand where it does.
func (p *parser) unexpected() {
	t := p.peek()
	if t.kind == end {
		p.fail(errorAt(t.position, "unexpected end"))
		return
	}
	p.fail(errorAt(t.position, "unexpected %s", t.text))
}

// fail notes an error, unless one was noted before, and drops all tokens but the last, of the kind end, so that
// nothing more is read.
func (p *parser) fail(err *Error) {
	if p.err == nil {
		p.err = err
	}
	p.tokens = p.tokens[len(p.tokens)-1:]
}

// expression reads an expression, as far as the tokens belong to it, and returns its tree.
func (p *parser) expression() Node {
	start := place(p.peek().position)
	if p.take("let") {
		return p.let(start)
	}
	if p.take("if") {
		return p.ifElse(start)
	}
	condition := p.operands(lowestPrecedence)
	question := place(p.peek().position)
	if !p.take("?") {
		return condition
	}
	then := p.expression()
	p.expect(":")
	return &Conditional{question, condition, then, p.expression()}
}

// let reads what follows the word let, whose position is start, in "let name = value; expression", and returns the
// tree of the whole.
func (p *parser) let(start place) Node {
	name := p.next()
	if name.kind != word {
		p.fail(errorAt(name.position, "want let name = value; expression"))
	}
	p.expect("=")
	value := p.expression()
	p.expect(";")
	return &Let{start, name.text, value, p.expression()}
}

// ifElse reads what follows the word if, whose position is start: a condition and two expressions in
// braces. The second may be another if.
func (p *parser) ifElse(start place) Node {
	condition := p.expression()
	p.expect("{")
	then := p.expression()
	p.expect("}")
	p.expect("else")
	elseStart := place(p.peek().position)
	if p.take("if") {
		return &Conditional{start, condition, then, p.ifElse(elseStart)}
	}
	p.expect("{")
	otherwise := p.expression()
	p.expect("}")
	return &Conditional{start, condition, then, otherwise}
}

// operands reads operands with operators between them that bind at least as closely as minPrecedence, and
// returns their tree (precedence climbing).
func (p *parser) operands(minPrecedence int) Node {
	left := p.operand()
	for {
		next := p.peek()
		precedence := precedences[next.text]
		isOperator := next.kind == operator && precedence > 0
		if !isOperator || precedence < minPrecedence {
			return left
		}
		p.next()
		// The right operand has only operators that bind closer, as operators are left-associative; powers
		// are right-associative.
		if next.text != "**" {
			precedence++
		}
		left = &Binary{place(next.position), next.text, left, p.operands(precedence)}
	}
}

// operand reads one operand: a number, a text, a name, a call, an expression in parentheses, or an operator
// before one of these.
func (p *parser) operand() Node {
	t := p.next()
	start := place(t.position)
	switch {
	case t.kind == number:
		return &Number{start, t.value}
	case t.kind == text:
		return &Text{start, t.text}
	case t.kind == word:
		return p.wordOrCall(t)
	case t.text == "not":
		return &Unary{start, t.text, p.operands(notPrecedence)}
	case t.text == "-" || t.text == "+":
		return &Unary{start, t.text, p.operands(signPrecedence)}
	case t.text == "(":
		inner := p.expression()
		p.expect(")")
		return inner
	}
	// No operand begins with t. It is put back, as the error is about the next token.
	p.tokens = append([]token{t}, p.tokens...)
	p.unexpected()
	return nil
}

// wordOrCall reads what begins with the word t: a call, true, false, or the name of a variable.
func (p *parser) wordOrCall(t token) Node {
	start := place(t.position)
	if p.take("(") {
		return &Call{start, t.text, p.arguments()}
	}
	switch t.text {
	case "true", "false":
		return &Truth{start, t.text == "true"}
	}
	return &Name{start, t.text}
}

// arguments reads the arguments of a call, whose opening parenthesis was taken, and its closing one.
func (p *parser) arguments() (arguments []Node) {
	if p.take(")") {
		return nil
	}
	for {
		arguments = append(arguments, p.expression())
		if !p.take(",") {
			p.expect(")")
			return arguments
		}
	}
}
