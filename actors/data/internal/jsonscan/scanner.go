package jsonscan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner reads JSON (RFC 8259) as a stream, for files of many megabytes of
// numbers: nothing is built that the caller does not keep.
type Scanner struct {
	in    *bufio.Reader
	at    int64 // bytes read
	depth int
	token []byte
}

// maxKey bounds the bytes of a key.
const maxKey = 4096

// maxDepth bounds nesting; LEAF's files nest five deep.
const maxDepth = 64

func New(r io.Reader) *Scanner {
	return &Scanner{in: bufio.NewReaderSize(r, 1<<18)}
}

// Fail is an error at the place reached.
func (d *Scanner) Fail(format string, args ...any) error {
	return fmt.Errorf("byte %d: %w", d.at, fmt.Errorf(format, args...))
}

func (d *Scanner) byte() (byte, error) {
	c, err := d.in.ReadByte()
	if err == io.EOF {
		return 0, d.Fail("the file ends in the middle: it is truncated")
	}
	if err == nil {
		d.at++
	}
	return c, err
}

func (d *Scanner) Back() {
	if err := d.in.UnreadByte(); err != nil {
		panic("data: scanner steps back twice")
	}
	d.at--
}

// Next skips white space and returns the byte after it.
func (d *Scanner) Next() (byte, error) {
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

// Peek is next without taking the byte.
func (d *Scanner) Peek() (byte, error) {
	c, err := d.Next()
	if err == nil {
		d.Back()
	}
	return c, err
}

func (d *Scanner) Expect(want byte) error {
	c, err := d.Next()
	if err == nil && c != want {
		err = d.Fail("found %q, want %q", c, want)
	}
	return err
}

// End checks that nothing but white space follows.
func (d *Scanner) End() error {
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
			return d.Fail("found %q after the end", c)
		}
	}
}

// Object calls member for each key; member takes the value.
func (d *Scanner) Object(member func(key string) error) error {
	return d.List('{', '}', func(int) error {
		key, err := d.Text(maxKey)
		if err != nil {
			return err
		}
		if err := d.Expect(':'); err != nil {
			return err
		}
		return member(key)
	})
}

// Array calls element for each element, which takes it.
func (d *Scanner) Array(element func(i int) error) error { return d.List('[', ']', element) }

func (d *Scanner) List(open, shut byte, element func(i int) error) error {
	if err := d.Expect(open); err != nil {
		return err
	}
	if d.depth++; d.depth > maxDepth {
		return d.Fail("nested more than %d deep", maxDepth)
	}
	defer func() { d.depth-- }()
	c, err := d.Next()
	if err != nil || c == shut {
		return err
	}
	d.Back()
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		c, err := d.Next()
		if err != nil || c == shut {
			return err
		}
		if c != ',' {
			return d.Fail("found %q, want ',' or %q", c, shut)
		}
	}
}

// Number reads a number.
func (d *Scanner) Number() (float64, error) {
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
		return 0, d.Fail("found %.40q, want a number", d.token)
	}
	v, err := strconv.ParseFloat(string(d.token), 64)
	if err != nil {
		return 0, d.Fail("found %.40q, want a number", d.token)
	}
	return v, nil
}

func (d *Scanner) Integer() (int64, error) {
	if err := d.word(); err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(string(d.token), 10, 64)
	if err != nil {
		return 0, d.Fail("found %.40q, want an integer", d.token)
	}
	return v, nil
}

// word reads the bytes of a number or literal to token, at least one.
func (d *Scanner) word() error {
	c, err := d.Next()
	if err != nil {
		return err
	}
	d.token = d.token[:0]
	for ; c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c >= 'a' && c <= 'z' || c == 'E'; c, err = d.byte() {
		if d.token = append(d.token, c); len(d.token) > 64 {
			return d.Fail("found %.40q, want a number", d.token)
		}
	}
	if err != nil {
		return err
	}
	if len(d.token) == 0 {
		return d.Fail("found %q, want a number", c)
	}
	d.Back()
	return nil
}

// Text reads a string of at most limit bytes.
func (d *Scanner) Text(limit int) (string, error) {
	if err := d.Expect('"'); err != nil {
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
			return "", d.Fail("a string of more than %d bytes", limit)
		case c < ' ':
			return "", d.Fail("control character %q in a string", c)
		case c == '\\':
			if err := d.escaped(); err != nil {
				return "", err
			}
		default:
			d.token = append(d.token, c)
		}
	}
}

func (d *Scanner) escaped() error {
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
		return d.Fail(`unknown escape \%c`, c)
	}
	d.token = append(d.token, c)
	return nil
}

func (d *Scanner) unicode() error {
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
			return 0, d.Fail(`escape \u%q, want four hexadecimal digits`, digits[:])
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
				return d.Fail("half of a surrogate pair")
			}
		}
		low, err := hex()
		if err != nil {
			return err
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return d.Fail("half of a surrogate pair")
		}
	}
	d.token = utf8.AppendRune(d.token, r)
	return nil
}

var errLiteral = errors.New("want true, false or null")

// Skip reads one value of any kind.
func (d *Scanner) Skip() error {
	c, err := d.Peek()
	if err != nil {
		return err
	}
	switch {
	case c == '{':
		return d.Object(func(string) error { return d.Skip() })
	case c == '[':
		return d.Array(func(int) error { return d.Skip() })
	case c == '"':
		_, err := d.Text(1 << 20)
		return err
	case c >= 'a' && c <= 'z':
		if err := d.word(); err != nil {
			return err
		}
		switch string(d.token) {
		case "true", "false", "null":
			return nil
		}
		return d.Fail("found %.40q: %w", d.token, errLiteral)
	}
	_, err = d.Number()
	return err
}
