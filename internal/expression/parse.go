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
	tree := p.whole()
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

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if len(p.tokens) > 1 {
		p.tokens = p.tokens[1:]
	}
	return t
}

// take takes the next token if it is this operator or word.
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
		p.fail(wrong(t.position, "unexpected end"))
		return
	}
	p.fail(wrong(t.position, "unexpected %s", t.text))
}

// fail notes the first error, after which nothing is read.
func (p *parser) fail(err *Error) {
	if p.err == nil {
		p.err = err
	}
	p.tokens = p.tokens[len(p.tokens)-1:]
}

// whole reads an expression up to what cannot belong to it.
func (p *parser) whole() Node {
	start := place(p.peek().position)
	if p.take("let") {
		return p.let(start)
	}
	if p.take("if") {
		return p.ifElse(start)
	}
	condition := p.operation(1)
	question := place(p.peek().position)
	if !p.take("?") {
		return condition
	}
	then := p.whole()
	p.expect(":")
	return &Conditional{question, condition, then, p.whole()}
}

// let reads what follows let.
func (p *parser) let(start place) Node {
	name := p.next()
	if name.kind != word {
		p.fail(wrong(name.position, "want let name = value; expression"))
	}
	p.expect("=")
	value := p.whole()
	p.expect(";")
	return &Let{start, name.text, value, p.whole()}
}

// ifElse reads what follows if.
func (p *parser) ifElse(start place) Node {
	condition := p.whole()
	p.expect("{")
	then := p.whole()
	p.expect("}")
	p.expect("else")
	elseStart := place(p.peek().position)
	if p.take("if") {
		return &Conditional{start, condition, then, p.ifElse(elseStart)}
	}
	p.expect("{")
	otherwise := p.whole()
	p.expect("}")
	return &Conditional{start, condition, then, otherwise}
}

// operation reads operands with operators between them that bind at least this closely.
func (p *parser) operation(least int) Node {
	left := p.operand()
	for {
		t := p.peek()
		precedence := precedences[t.text]
		isOperator := t.kind == operator && precedence > 0
		if !isOperator || precedence < least {
			return left
		}
		p.next()
		// What follows on the right binds closer, but for powers.
		if t.text != "**" {
			precedence++
		}
		left = &Binary{place(t.position), t.text, left, p.operation(precedence)}
	}
}

// operand reads a number, text, name, call, an expression in parentheses, or an operator before one of these.
func (p *parser) operand() Node {
	t := p.next()
	start := place(t.position)
	switch {
	case t.kind == number:
		return &Number{start, t.value}
	case t.kind == text:
		return &Text{start, t.text}
	case t.kind == word:
		return p.named(t)
	case t.text == "not":
		return &Unary{start, t.text, p.operation(notPrecedence)}
	case t.text == "-" || t.text == "+":
		return &Unary{start, t.text, p.operation(signPrecedence)}
	case t.text == "(":
		inner := p.whole()
		p.expect(")")
		return inner
	}
	p.tokens = append([]token{t}, p.tokens...)
	p.unexpected()
	return nil
}

// named reads what begins with a word: a call, true, false, or the name of a variable.
func (p *parser) named(t token) Node {
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
		arguments = append(arguments, p.whole())
		if !p.take(",") {
			p.expect(")")
			return arguments
		}
	}
}
