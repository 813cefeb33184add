package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// key is one key of the configuration and all that is done with it.
type key = keyOf[Config]

// keyOf is a key of what a map in a file sets: the configuration, or one of its
// parts, such as a class of devices.
type keyOf[T any] struct {
	path  string // as in "schedule.k"
	help  string
	read  func(*T, ast.Node) error // sets the field; the error is the problem alone
	write func(*T) string          // the field as YAML
	check func(*T) error           // the value's own limits, whatever set it
	unset func(*T) bool            // whether the key is null; nil: it never is
	text  bool                     // on the command line the value is taken as it stands
	words []string                 // that the key may hold and that have an effect, for completion
}

// text is a key that holds a string; valid may be nil.
func text[T any](path, help string, field func(*T) *string, valid func(string) error) keyOf[T] {
	return keyOf[T]{
		path: path, help: help, text: true,
		read: func(c *T, n ast.Node) error {
			s, err := scalar(n, "text")
			*field(c) = s
			return err
		},
		write: func(c *T) string { return quote(*field(c)) },
		check: func(c *T) error {
			s := *field(c)
			if len(s) > maxText {
				return fmt.Errorf("a text of %d bytes is too long (at most %d)", len(s), maxText)
			}
			if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == '\x7f' || r == '\ufffd' }); i >= 0 {
				return fmt.Errorf("%q holds a character that cannot be printed", s)
			}
			if valid == nil {
				return nil
			}
			return valid(s)
		},
	}
}

// maxText bounds every string of a configuration, in bytes.
const maxText = 4096

// nullText is text whose empty string is written null.
func nullText[T any](path, help string, field func(*T) *string) keyOf[T] {
	k := text(path, help, field, nil)
	read := k.read
	k.read = func(c *T, n ast.Node) error {
		if isNull(n) {
			*field(c) = ""
			return nil
		}
		return read(c, n)
	}
	k.write = func(c *T) string {
		if *field(c) == "" {
			return "null"
		}
		return quote(*field(c))
	}
	k.unset = func(c *T) bool { return *field(c) == "" }
	return k
}

// choice is a key that holds one of a few words. Words that are planned are
// known and refused.
func choice[T any, S ~string](path, help, what string, field func(*T) *S, known ...string) keyOf[T] {
	usable := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return slices.Contains(planned[path], k) })
	built := func(s string) error {
		if !slices.Contains(known, s) {
			return errors.New(notA(s, what, known))
		}
		if !slices.Contains(usable, s) {
			return fmt.Errorf("%q is not available in this version (use %s)", s, orList(usable))
		}
		return nil
	}
	return keyOf[T]{
		path: path, help: help + ": " + strings.Join(usable, ", "), words: usable,
		read: func(c *T, n ast.Node) error {
			s, err := scalar(n, "a word, "+orList(known))
			if err != nil {
				return err
			}
			*field(c) = S(s)
			return built(s)
		},
		write: func(c *T) string { return quote(string(*field(c))) },
		check: func(c *T) error { return built(string(*field(c))) },
	}
}

// whole is a key that holds a whole number from lo to hi.
func whole[T any](path, help string, field func(*T) *int, lo, hi int) keyOf[T] {
	return keyOf[T]{
		path: path, help: help,
		read: func(c *T, n ast.Node) error {
			s, err := scalar(n, "a whole number")
			if err != nil {
				return err
			}
			v, err := strconv.Atoi(s)
			if err != nil || quoted(n) {
				return fmt.Errorf("%s is not a whole number from %d to %d", shown(n, s), lo, hi)
			}
			*field(c) = v
			return nil
		},
		write: func(c *T) string { return strconv.Itoa(*field(c)) },
		check: func(c *T) error {
			if v := *field(c); v < lo || v > hi {
				return fmt.Errorf("%d is out of range (a whole number from %d to %d)", v, lo, hi)
			}
			return nil
		},
	}
}

// nullWhole is whole from 1, and 0 stands for null.
func nullWhole[T any](path, help string, field func(*T) *int, hi int) keyOf[T] {
	return orWord(whole(path, help, field, 1, hi), "null",
		func(c *T) { *field(c) = 0 }, func(c *T) bool { return *field(c) == 0 })
}

// orWord lets a number's key hold one word as well, for a value outside the
// number's range. A zero that is written out stays out of range.
func orWord[T any](k keyOf[T], word string, set func(*T), is func(*T) bool) keyOf[T] {
	read, write, check := k.read, k.write, k.check
	k.read = func(c *T, n ast.Node) error {
		s, err := scalar(n, "a number or "+word)
		if word == "null" && isNull(n) || err == nil && s == word {
			set(c)
			return nil
		}
		if err := read(c, n); err != nil {
			return fmt.Errorf("%w, or %s", err, word)
		}
		return check(c)
	}
	k.write = func(c *T) string {
		if is(c) {
			return word
		}
		return write(c)
	}
	k.check = func(c *T) error {
		if is(c) {
			return nil
		}
		return check(c)
	}
	if word == "null" {
		k.unset = is
	} else {
		k.words = append(k.words, word)
	}
	return k
}

// optional lets a key be null where the zero value, which it may also hold,
// stands for not set.
func optional[T any](k keyOf[T], unset func(*T) bool, clear func(*T)) keyOf[T] {
	read, write := k.read, k.write
	k.read = func(c *T, n ast.Node) error {
		if isNull(n) {
			clear(c)
			return nil
		}
		return read(c, n)
	}
	k.write = func(c *T) string {
		if unset(c) {
			return "null"
		}
		return write(c)
	}
	k.unset = unset
	return k
}

// figure is an optional number whose limits are checked where its meaning is
// known.
func figure[T any](path, help string, field func(*T) *float64) keyOf[T] {
	k := real(path, help, field, limits{lo: -math.MaxFloat64, hi: math.MaxFloat64})
	k.check = func(c *T) error {
		if v := *field(c); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is not a number to calculate with", number(v))
		}
		return nil
	}
	k.read = func(c *T, n ast.Node) error {
		s, err := scalar(n, "a number")
		if err != nil {
			return err
		}
		v, ok := parseNumber(s)
		if !ok || quoted(n) {
			return fmt.Errorf("%s is not a number", shown(n, s))
		}
		*field(c) = v
		return nil
	}
	return optional(k, func(c *T) bool { return *field(c) == 0 }, func(c *T) { *field(c) = 0 })
}

// limits is a range of real numbers with what they measure.
type limits struct {
	lo, hi float64
	above  bool   // lo itself is outside
	unit   string // e.g. "seconds"
}

// String reads as "more than 0 and at most 10 seconds".
func (l limits) String() string {
	s := "from " + number(l.lo) + " to " + number(l.hi)
	if l.above {
		s = "more than " + number(l.lo) + " and at most " + number(l.hi)
	}
	if l.unit != "" {
		s += " " + l.unit
	}
	return s
}

// holds is false for NaN.
func (l limits) holds(v float64) bool {
	return v <= l.hi && (v > l.lo || v == l.lo && !l.above)
}

// real is a key that holds a number within limits.
func real[T any](path, help string, field func(*T) *float64, l limits) keyOf[T] {
	return keyOf[T]{
		path: path, help: help,
		read: func(c *T, n ast.Node) error {
			s, err := scalar(n, "a number")
			if err != nil {
				return err
			}
			v, ok := parseNumber(s)
			if !ok || quoted(n) {
				return fmt.Errorf("%s is not a number (%s)", shown(n, s), l)
			}
			*field(c) = v
			return nil
		},
		write: func(c *T) string { return number(*field(c)) },
		check: func(c *T) error {
			if v := *field(c); !l.holds(v) {
				return fmt.Errorf("%s is out of range (%s)", number(v), l)
			}
			return nil
		},
	}
}

// nullReal is real above zero, and 0 stands for null.
func nullReal[T any](path, help string, field func(*T) *float64, l limits) keyOf[T] {
	l.lo, l.above = 0, true
	return orWord(real(path, help, field, l), "null",
		func(c *T) { *field(c) = 0 }, func(c *T) bool { return *field(c) == 0 })
}

// flag is a key that holds true or false.
func flag[T any](path, help string, field func(*T) *bool) keyOf[T] {
	return keyOf[T]{
		path: path, help: help, words: []string{"true", "false"},
		read: func(c *T, n ast.Node) error {
			b, ok := n.(*ast.BoolNode)
			if !ok {
				s, err := scalar(n, "true or false")
				if err != nil {
					return err
				}
				return fmt.Errorf("%s is not true or false", shown(n, s))
			}
			*field(c) = b.Value
			return nil
		},
		write: func(c *T) string { return strconv.FormatBool(*field(c)) },
		check: func(*T) error { return nil },
	}
}

// scalar is the text of a node that holds one value.
func scalar(n ast.Node, want string) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	case *ast.MappingNode:
		return "", fmt.Errorf("a map stands where %s is wanted", want)
	case *ast.SequenceNode:
		return "", fmt.Errorf("a list stands where %s is wanted", want)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", fmt.Errorf("YAML's anchors, aliases and tags are not read here (write %s)", want)
	}
	return "", fmt.Errorf("nothing stands where %s is wanted", want)
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok || n == nil
}

// quoted tells a text from a number written without quotes.
func quoted(n ast.Node) bool {
	switch n.(type) {
	case *ast.LiteralNode:
		return true
	case *ast.StringNode:
		t := n.GetToken().Type
		return t == token.SingleQuoteType || t == token.DoubleQuoteType
	}
	return false
}

// shown is a value in a message: quoted if it is text.
func shown(n ast.Node, s string) string {
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	if _, ok := n.(*ast.StringNode); ok || quoted(n) {
		return strconv.Quote(s)
	}
	return s
}

// parseNumber reads a decimal number; YAML's infinities and NaN are read, so
// that the limits can refuse them by name.
func parseNumber(s string) (float64, bool) {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case ".nan":
		return math.NaN(), true
	case ".inf":
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	// A number beyond float64's range is read as an infinity and refused as one.
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// number writes a float64 so that it reads back to the same bits, without an
// exponent where a person would not use one.
func number(v float64) string {
	if a := math.Abs(v); a >= 1e-4 && a < 1e15 || a == 0 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// plain matches words that YAML reads as text without quotes.
var plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// quote writes a string as YAML. A double-quoted JSON string is one.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", ".nan", ".inf":
	default:
		if plain.MatchString(s) {
			return s
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic("config: a string cannot be written as JSON")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
