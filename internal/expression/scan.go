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
		next, length, err := firstToken(rest, position)
		if err != nil {
			return nil, err
		}
		next.position = position
		tokens = append(tokens, next)
		position += length
	}
}

// firstToken returns the token at the beginning of rest, and the number of bytes that it takes. position is
// the place of rest in the expression, for errors. rest is not empty and does not begin with a space.
func firstToken(rest string, position int) (t token, length int, err *Error) {
	letter, _ := utf8.DecodeRuneInString(rest)
	beginsFraction := letter == '.' && len(rest) > 1 && isDigit(rune(rest[1]))
	switch {
	case isDigit(letter) || beginsFraction:
		return firstNumber(rest, position)
	case isLetter(letter):
		name := prefixWhile(rest, func(c rune) bool { return isLetter(c) || isDigit(c) })
		if wordOperators[name] {
			return token{kind: operator, text: name}, len(name), nil
		}
		return token{kind: word, text: name}, len(name), nil
	case letter == '\'' || letter == '"':
		closing := strings.IndexRune(rest[1:], letter)
		if closing < 0 {
			return t, 0, errorAt(position, "the text has no end")
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
	return t, 0, errorAt(position, "unexpected %c", letter)
}

// firstNumber returns the number at the beginning of rest, and the number of bytes that it takes: a decimal
// one, with or without an exponent, or a whole one with the prefix 0x, 0o or 0b. Digits may have _ between
// them. position is the place of rest in the expression, for errors.
func firstNumber(rest string, position int) (token, int, *Error) {
	// A sign belongs to a number only after the e of an exponent, and 0xe has none.
	before := rune(0)
	isHex := strings.HasPrefix(rest, "0x") || strings.HasPrefix(rest, "0X")
	digits := prefixWhile(rest, func(c rune) bool {
		isSign := (c == '+' || c == '-') && (before == 'e' || before == 'E') && !isHex
		before = c
		return isDigit(c) || isLetter(c) || c == '.' || isSign
	})
	value, err := parseNumber(digits)
	if err != nil {
		return token{}, 0, errorAt(position, "%s is no number", digits)
	}
	return token{kind: number, text: digits, value: value}, len(digits), nil
}

// parseNumber returns the value of a number's text. It is an error if the number is infinite as a float64.
func parseNumber(digits string) (float64, error) {
	// A letter behind a leading 0 is the prefix of a whole number, unless it begins an exponent.
	hasLetter := len(digits) > 1 && digits[0] == '0' && isLetter(rune(digits[1]))
	if hasLetter && digits[1] != 'e' && digits[1] != 'E' {
		whole, err := strconv.ParseInt(digits, 0, 64)
		return float64(whole), err
	}
	return strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
}

// prefixWhile returns the longest prefix of s whose characters all belong to a set.
func prefixWhile(s string, belongs func(rune) bool) string {
	for i, c := range s {
		if !belongs(c) {
			return s[:i]
		}
	}
	return s
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

func isLetter(c rune) bool { return c == '_' || unicode.IsLetter(c) }
