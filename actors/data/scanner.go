package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) as a stream, for files of many megabytes of
// numbers: nothing is built that the caller does not keep.
type scanner struct {
	in    *bufio.Reader
	at    int64 // bytes read
	depth int
	token []byte
}

// maxDepth bounds nesting; LEAF's files nest five deep.
const maxDepth = 64

func newScanner(r io.Reader) *scanner {
	return &scanner{in: bufio.NewReaderSize(r, 1<<18)}
}

// fail is an error at the place reached.
func (d *scanner) fail(format string, args ...any) error {
	return fmt.Errorf("byte %d: %w", d.at, fmt.Errorf(format, args...))
}

func (d *scanner) byte() (byte, error) {
	c, err := d.in.ReadByte()
	if err == io.EOF {
		return 0, d.fail("the file ends in the middle: it is truncated")
	}
	if err == nil {
		d.at++
	}
	return c, err
}

func (d *scanner) back() {
	if err := d.in.UnreadByte(); err != nil {
		panic("data: scanner steps back twice")
	}
	d.at--
}

// next skips white space and returns the byte after it.
func (d *scanner) next() (byte, error) {
	for {
		c, err := d.byte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c, nil
		}
	}
}

// peek is next without taking the byte.
func (d *scanner) peek() (byte, error) {
	c, err := d.next()
	if err == nil {
		d.back()
	}
	return c, err
}

func (d *scanner) expect(want byte) error {
	c, err := d.next()
	if err == nil && c != want {
		err = d.fail("found %q, want %q", c, want)
	}
	return err
}

// end checks that nothing but white space follows.
func (d *scanner) end() error {
	for {
		c, err := d.in.ReadByte()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		d.at++
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return d.fail("found %q after the end", c)
		}
	}
}

// object calls member for each key; member takes the value.
func (d *scanner) object(member func(key string) error) error {
	return d.list('{', '}', func(int) error {
		key, err := d.text(maxName)
		if err != nil {
			return err
		}
		if err := d.expect(':'); err != nil {
			return err
		}
		return member(key)
	})
}

// array calls element for each element, which takes it.
func (d *scanner) array(element func(i int) error) error { return d.list('[', ']', element) }

func (d *scanner) list(open, shut byte, element func(i int) error) error {
	if err := d.expect(open); err != nil {
		return err
	}
	if d.depth++; d.depth > maxDepth {
		return d.fail("nested more than %d deep", maxDepth)
	}
	defer func() { d.depth-- }()
	c, err := d.next()
	if err != nil || c == shut {
		return err
	}
	d.back()
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		c, err := d.next()
		if err != nil || c == shut {
			return err
		}
		if c != ',' {
			return d.fail("found %q, want ',' or %q", c, shut)
		}
	}
}

// number reads a number.
func (d *scanner) number() (float64, error) {
	if err := d.word(); err != nil {
		return 0, err
	}
	// Most pixels are white or black.
	switch string(d.token) {
	case "1.0":
		return 1, nil
	case "0.0":
		return 0, nil
	}
	if c := d.token[0]; c != '-' && (c < '0' || c > '9') {
		return 0, d.fail("found %.40q, want a number", d.token)
	}
	v, err := strconv.ParseFloat(string(d.token), 64)
	if err != nil {
		return 0, d.fail("found %.40q, want a number", d.token)
	}
	return v, nil
}

func (d *scanner) integer() (int64, error) {
	if err := d.word(); err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(string(d.token), 10, 64)
	if err != nil {
		return 0, d.fail("found %.40q, want an integer", d.token)
	}
	return v, nil
}

// word reads the bytes of a number or literal to token, at least one.
func (d *scanner) word() error {
	c, err := d.next()
	if err != nil {
		return err
	}
	d.token = d.token[:0]
	for ; c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c >= 'a' && c <= 'z' || c == 'E'; c, err = d.byte() {
		if d.token = append(d.token, c); len(d.token) > 64 {
			return d.fail("found %.40q, want a number", d.token)
		}
	}
	if err != nil {
		return err
	}
	if len(d.token) == 0 {
		return d.fail("found %q, want a number", c)
	}
	d.back()
	return nil
}

// text reads a string of at most limit bytes.
func (d *scanner) text(limit int) (string, error) {
	if err := d.expect('"'); err != nil {
		return "", err
	}
	d.token = d.token[:0]
	for {
		c, err := d.byte()
		switch {
		case err != nil:
			return "", err
		case c == '"':
			return string(d.token), nil
		case len(d.token) >= limit:
			return "", d.fail("a string of more than %d bytes", limit)
		case c < ' ':
			return "", d.fail("control character %q in a string", c)
		case c == '\\':
			if err := d.escaped(); err != nil {
				return "", err
			}
		default:
			d.token = append(d.token, c)
		}
	}
}

func (d *scanner) escaped() error {
	c, err := d.byte()
	if err != nil {
		return err
	}
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return d.unicode()
	default:
		return d.fail(`unknown escape \%c`, c)
	}
	d.token = append(d.token, c)
	return nil
}

func (d *scanner) unicode() error {
	hex := func() (rune, error) {
		var digits [4]byte
		for i := range digits {
			var err error
			if digits[i], err = d.byte(); err != nil {
				return 0, err
			}
		}
		v, err := strconv.ParseUint(string(digits[:]), 16, 16)
		if err != nil {
			return 0, d.fail(`escape \u%q, want four hexadecimal digits`, digits[:])
		}
		return rune(v), nil
	}
	r, err := hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		for _, want := range []byte(`\u`) {
			c, err := d.byte()
			if err != nil {
				return err
			}
			if c != want {
				return d.fail("half of a surrogate pair")
			}
		}
		low, err := hex()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return d.fail("half of a surrogate pair")
		}
	}
	d.token = utf8.AppendRune(d.token, r)
	return nil
}

var errLiteral = errors.New("want true, false or null")

// skip reads one value of any kind.
func (d *scanner) skip() error {
	c, err := d.peek()
	if err != nil {
		return err
	}
	switch {
	case c == '{':
		return d.object(func(string) error { return d.skip() })
	case c == '[':
		return d.array(func(int) error { return d.skip() })
	case c == '"':
		_, err := d.text(1 << 20)
		return err
	case c >= 'a' && c <= 'z':
		if err := d.word(); err != nil {
			return err
		}
		switch string(d.token) {
		case "true", "false", "null":
			return nil
		}
		return d.fail("found %.40q: %w", d.token, errLiteral)
	}
	_, err = d.number()
	return err
}
