package expression

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what a token is.
type kind int

// The kinds of tokens. Words that are operators, such as and, have the kind of operators.
const (
	end kind = iota
	number
	text
	word
	operator
)

// token is a piece of an expression: its kind, how many bytes stand before it, its text (of an operator that has
// several spellings the first one in [Binary] or [Unary]; of a text what stands between the quotes), and its value
// if it is a number.
type token struct {
	kind     kind
	position int
	text     string
	value    float64
}

// symbols are the operators and separators, those first of which others are the beginning.
var symbols = []string{
	"**", "<=", ">=", "==", "!=", "&&", "||",
	"<", ">", "=", "!", "^", "+", "-", "*", "/",
	"(", ")", ",", "?", ":", ";", "{", "}",
}

// spellings are the other ways to write an operator.
var spellings = map[string]string{"^": "**", "&&": "and", "||": "or", "!": "not"}

// wordOperators are the operators that are words.
var wordOperators = map[string]bool{"and": true, "or": true, "not": true}

// scan returns the tokens of an expression, of which the last has the kind end and stands at the last character.
func scan(expression string) ([]token, *Error) {
	var tokens []token
	position := 0
	for {
		rest := strings.TrimLeft(expression[position:], " \t\r\n")
		position = len(expression) - len(rest)
		if rest == "" {
			return append(tokens, token{kind: end, position: max(0, len(expression)-1)}), nil
		}
		next, length, err := first(rest, position)
		if err != nil {
			return nil, err
		}
		next.position = position
		tokens = append(tokens, next)
		position += length
	}
}

// first returns the token at the beginning of rest, and how many bytes it takes. rest is not empty and begins with
// no space.
func first(rest string, position int) (t token, length int, err *Error) {
	letter, _ := utf8.DecodeRuneInString(rest)
	beginsFraction := letter == '.' && len(rest) > 1 && isDigit(rune(rest[1]))
	switch {
	case isDigit(letter) || beginsFraction:
		return firstNumber(rest, position)
	case isLetter(letter):
		name := leading(rest, func(c rune) bool { return isLetter(c) || isDigit(c) })
		if wordOperators[name] {
			return token{kind: operator, text: name}, len(name), nil
		}
		return token{kind: word, text: name}, len(name), nil
	case letter == '\'' || letter == '"':
		closing := strings.IndexRune(rest[1:], letter)
		if closing < 0 {
			return t, 0, wrong(position, "the text has no end")
		}
		return token{kind: text, text: rest[1 : 1+closing]}, closing + 2, nil
	}
	for _, symbol := range symbols {
		if !strings.HasPrefix(rest, symbol) {
			continue
		}
		t = token{kind: operator, text: symbol}
		if usual, ok := spellings[symbol]; ok {
			t.text = usual
		}
		return t, len(symbol), nil
	}
	return t, 0, wrong(position, "unexpected %c", letter)
}

// firstNumber returns the number at the beginning of rest: decimal, with an exponent or none, or a whole one with
// the prefix 0x, 0o or 0b. Digits may have _ between them.
func firstNumber(rest string, position int) (token, int, *Error) {
	// A sign belongs to a number only after the e of an exponent, and 0xe has none.
	before := rune(0)
	isHex := strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0X")
	digits := leading(rest, func(c rune) bool {
		isSign := (c == '+' || c == '-') && (before == 'e' || before == 'E') && !isHex
		before = c
		return isDigit(c) || isLetter(c) || c == '.' || isSign
	})
	value, err := parseNumber(digits)
	if err != nil {
		return token{}, 0, wrong(position, "%s is no number", digits)
	}
	return token{kind: number, text: digits, value: value}, len(digits), nil
}

// parseNumber returns the value of a number's text. It fails for one that is infinite in float64.
func parseNumber(digits string) (float64, error) {
	if len(digits) > 1 && digits[0] == '0' && isLetter(rune(digits[1])) && digits[1] != 'e' && digits[1] != 'E' {
		whole, err := strconv.ParseInt(digits, 0, 64)
		return float64(whole), err
	}
	return strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
}

// leading returns the beginning of s, as far as its characters are in a set.
func leading(s string, in func(rune) bool) string {
	for i, c := range s {
		if !in(c) {
			return s[:i]
		}
	}
	return s
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

func isLetter(c rune) bool { return c == '_' || unicode.IsLetter(c) }
