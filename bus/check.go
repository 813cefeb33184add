package bus

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// fault says what is wrong with a message. Every decoder here returns one
// rather than a value that is out of range.
type fault struct {
	message, field string
	got            any
	want           string
}

func (f *fault) Error() string {
	return fmt.Sprintf("bus: %s: %s is %v, want %s", f.message, f.field, f.got, f.want)
}

// checker collects the first fault of one message.
type checker struct {
	message string
	err     error
}

func (c *checker) refuse(field string, got any, want string) {
	if c.err == nil {
		c.err = &fault{c.message, field, got, want}
	}
}

func (c *checker) number(field string, v, least, most int64) {
	if v >= least && v <= most {
		return
	}
	if least == most {
		c.refuse(field, v, fmt.Sprint(least))
	} else {
		c.refuse(field, v, fmt.Sprintf("%d to %d", least, most))
	}
}

// name checks the number of a task or a job.
func (c *checker) name(field string, v uint64) {
	if v == 0 {
		c.refuse(field, v, "at least 1")
	}
}

func (c *checker) float(field string, v, least, most float64) {
	if !(v >= least && v <= most) { // false for NaN, too
		c.refuse(field, v, fmt.Sprintf("%g to %g", least, most))
	}
}

// finite is for measured losses.
func (c *checker) finite(field string, v float64) {
	if v-v != 0 {
		c.refuse(field, v, "a finite number")
	}
}

func (c *checker) text(field, s string) {
	if len(s) > maxText {
		c.refuse(field, fmt.Sprint(len(s), " bytes"), fmt.Sprint("at most ", maxText))
	}
}

// printable is for texts that people are shown: they may end on a terminal.
func (c *checker) printable(field, s string) {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.refuse(field, strconv.QuoteToASCII(s[:min(len(s), maxToken)]), "text that can be printed")
	}
	if n := len(s); n > maxLine {
		c.refuse(field, fmt.Sprint(n, " bytes"), fmt.Sprint("at most ", maxLine))
	}
}

func (c *checker) token(field, s string) {
	if err := CheckToken(field, s); err != nil && c.err == nil {
		c.err = fmt.Errorf("bus: %s: %w", c.message, err)
	}
}

func (c *checker) digest(field string, b []byte, optional bool) (d Digest) {
	switch {
	case len(b) == len(d):
		copy(d[:], b)
	case len(b) == 0 && optional:
	default:
		c.refuse(field, fmt.Sprint(len(b), " bytes"), fmt.Sprint(len(d)))
	}
	return d
}

// narrow makes an int of a number that a check follows: too large stays so.
func narrow[T uint32 | uint64](v T) int { return int(min(uint64(v), math.MaxInt)) }

// long is narrow for int64.
func long(v uint64) int64 { return int64(min(v, math.MaxInt64)) }
