package bus

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"fedpace/internal/names"
)

// Fault is the error of a message that is not valid, or does not fit the one before.
func Fault(message, field string, got any, want string) error {
	return fmt.Errorf("bus: %s: %s is %v, want %s", message, field, got, want)
}

// checker collects the first fault of one message.
type checker struct {
	message string
	err     error
}

func (c *checker) refuse(field string, got any, want string) {
	if c.err == nil {
		c.err = Fault(c.message, field, got, want)
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
	if len(s) > MaxText {
		c.refuse(field, fmt.Sprint(len(s), " bytes"), fmt.Sprint("at most ", MaxText))
	}
}

// printable is for texts that people are shown: they may end on a terminal.
func (c *checker) printable(field, s string) {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		c.refuse(field, strconv.QuoteToASCII(s[:min(len(s), 64)]), "text that can be printed")
	}
	if n := len(s); n > maxLine {
		c.refuse(field, fmt.Sprint(n, " bytes"), fmt.Sprint("at most ", maxLine))
	}
}

func (c *checker) token(field, s string) {
	if err := names.CheckToken(field, s); err != nil && c.err == nil {
		c.err = fmt.Errorf("bus: %s: %w", c.message, err)
	}
}

func (c *checker) digest(field string, b []byte, optional bool) {
	switch n := len(b); {
	case n == 0 && optional:
	case n != len(Digest{}):
		c.refuse(field, fmt.Sprint(n, " bytes"), fmt.Sprint(len(Digest{})))
	case !optional && DigestFrom(b).IsZero():
		c.refuse(field, "empty", "a digest")
	}
}

func (c *checker) durations(download, compute, upload int64) {
	c.number("download_ns", download, 0, MaxDurationNs)
	c.number("compute_ns", compute, 0, MaxDurationNs)
	c.number("upload_ns", upload, 0, MaxDurationNs)
}

func (c *checker) spec(s *Spec) {
	c.text("spec.model", s.GetModel())
	c.text("spec.data_digest", s.GetDataDigest())
	c.text("spec.augment", s.GetAugment())
	if s.GetAlgorithm() != "" { // an evaluation needs none
		c.text("spec.algorithm", s.GetAlgorithm())
	}
	c.number("spec.batch", int64(s.GetBatch()), 1, MaxBatch)
}

// long makes an int64 of a number that a check follows: too large stays so.
func long(v uint64) int64 { return int64(min(v, math.MaxInt64)) }
