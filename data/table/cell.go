package table

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cell is one value of a table: a text in CSV, what its type says in Parquet.
type cell struct {
	// kind says which of the other fields holds the value.
	kind cellKind
	// text is the value of a textCell.
	text string
	// bytes is the value of a bytesCell.
	bytes []byte
	// integer is the value of a wholeCell.
	integer int64
	// real is the value of a realCell; it may be NaN.
	real float64
}

// cellKind says what a cell holds.
type cellKind uint8

const (
	missingCell cellKind = iota
	textCell
	wholeCell
	realCell
	bytesCell
)

// errStop is returned by a taker that needs no further row. It ends the reading of a file early and
// is never shown to the user.
var errStop = errors.New("enough rows")

// errMissing reports that a row has no value.
var errMissing = errors.New("no value (missing: drop leaves out the rows without one)")

// missingWords are the texts, in lower case, that stand for a number that is missing. The empty
// text is one of them.
var missingWords = []string{"", "na", "n/a", "nan", "null", "none", "?"}

// name returns the value as the name of a client, class or part, without surrounding blanks. A
// whole number has the same name in every type: 3, 3.0 and "3.0" are all called 3. The result is ""
// for a missing value, NaN and an empty text.
func (c *cell) name() string {
	// A kind that the switch leaves out, missingCell, has the empty name.
	switch c.kind {
	case textCell:
		return canonicalName(strings.TrimSpace(c.text))
	case bytesCell:
		return canonicalName(strings.TrimSpace(string(c.bytes)))
	case wholeCell:
		return strconv.FormatInt(c.integer, 10)
	case realCell:
		if !math.IsNaN(c.real) {
			// Whole numbers are written without a point, so that 3.0 and 3 have the same text.
			return strconv.FormatFloat(c.real, 'f', -1, 64)
		}
	}
	return ""
}

// scientific matches a number as programs write floats, with a sign in its exponent: 1.00e+00. A name
// such as 1e3, which may be a hash in hexadecimal, is none.
var scientific = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?[eE][+-][0-9]+$`)

// maxExactWhole bounds the whole numbers that float64 tells from their neighbours.
const maxExactWhole = 1 << 53

// canonicalName returns the name that stands for all ways in which programs write the same client or
// class. A fraction of zeros alone is left out: 1.0 and 1.00e+00 become 1, and -0.0 becomes 0. Booleans
// are in lower case: True and TRUE become true. Any other name stays as it is.
func canonicalName(name string) string {
	for _, boolean := range []string{"true", "false"} {
		if strings.EqualFold(name, boolean) {
			return boolean
		}
	}
	// Most names have no such exponent, and no expression is matched for them.
	hasExponent := strings.Contains(name, "e+") || strings.Contains(name, "e-") ||
		strings.Contains(name, "E+") || strings.Contains(name, "E-")
	if hasExponent && scientific.MatchString(name) {
		x, err := strconv.ParseFloat(name, 64)
		isWhole := err == nil && x == math.Trunc(x) && math.Abs(x) < maxExactWhole
		if isWhole {
			return strconv.FormatInt(int64(x), 10)
		}
	}
	if !strings.HasSuffix(name, "0") {
		return name
	}
	whole, zeros, found := strings.Cut(name, ".")
	if !found || strings.Trim(zeros, "0") != "" {
		return name
	}
	if whole == "-0" {
		return "0"
	}
	// A text such as v1.0 is a name of its own and stays.
	if _, err := strconv.ParseInt(whole, 10, 64); err != nil {
		return name
	}
	return whole
}

// number returns the value as a number that is finite as float32, which is what models take. The
// error is errMissing for a missing value, for NaN and for a text among missingWords. Any other
// text that is no number, and a number too large for float32, give another error.
func (c *cell) number() (float64, error) {
	x := c.real
	switch c.kind {
	case missingCell:
		return 0, errMissing
	case wholeCell:
		x = float64(c.integer)
	case textCell, bytesCell:
		// Numbers in texts and in bytes are parsed alike.
		text := c.text
		if c.kind == bytesCell {
			text = string(c.bytes)
		}
		return parseNumber(text)
	}
	if math.IsNaN(x) {
		return 0, errMissing
	}
	if fitsFloat32(x) {
		return x, nil
	}
	return 0, fmt.Errorf("%v is no finite float32", x)
}

// lostIn returns by how much x, the float64 of the cell, differs from the whole number that the cell holds.
// It is 0 for cells that hold no whole number.
func (c *cell) lostIn(x float64) float64 {
	exact := big.NewInt(c.integer)
	switch c.kind {
	case wholeCell:
	case textCell:
		var isWhole bool
		exact, isWhole = new(big.Int).SetString(strings.TrimSpace(c.text), 10)
		if !isWhole {
			return 0
		}
	default:
		return 0
	}
	rounded, _ := big.NewFloat(x).Int(nil)
	lost, _ := new(big.Float).SetInt(exact.Sub(exact, rounded)).Float64()
	return math.Abs(lost)
}

// endOfFloat32 is the smallest number that is infinite as float32: it lies halfway between the largest
// float32 and 2^128, and ties are rounded to even.
const endOfFloat32 = 0x1.ffffffp127

// fitsFloat32 reports whether a value is finite as float32, which models take. It is false for NaN.
func fitsFloat32(x float64) bool { return math.Abs(x) < endOfFloat32 }

// allFitFloat32 reports whether all values are finite as float32.
func allFitFloat32(values []float64) bool {
	for _, x := range values {
		if !fitsFloat32(x) {
			return false
		}
	}
	return true
}

// parseNumber returns the number that a text stands for, which is finite as float32. true is 1 and false
// is 0. It fails with errMissing for the missingWords in any case, and with another error for other texts.
func parseNumber(text string) (float64, error) {
	text = strings.TrimSpace(text)
	switch x, err := parseFloat(text, 64); {
	case err == nil && fitsFloat32(x):
		return x, nil
	case slices.Contains(missingWords, strings.ToLower(text)):
		return 0, errMissing
	// A text that is a number, but failed the first case, is infinite or too large.
	case errors.Is(err, strconv.ErrRange) || err == nil:
		return 0, fmt.Errorf("%.40s is no finite float32", text)
	// Booleans in text count as numbers, as those of Parquet do.
	case strings.EqualFold(text, "true"):
		return 1, nil
	case strings.EqualFold(text, "false"):
		return 0, nil
	case grouped.MatchString(text):
		return 0, fmt.Errorf("%.40q has points between thousands; want decimal: comma, or a number without them", text)
	case strings.Count(text, ",") == 1 && isNumber(strings.Replace(text, ",", ".", 1)):
		return 0, fmt.Errorf("%.40q has a comma; want a number with a decimal point", text)
	}
	return 0, fmt.Errorf("%.40q is not a number", text)
}

// isFraction reports whether the value was written as a fraction, even if it is whole: a cell of a
// floating-point type, or a text with a decimal point. Columns of such values are rather
// measurements than classes.
func (c *cell) isFraction() bool {
	switch c.kind {
	case realCell:
		return true
	case textCell:
		return strings.Contains(c.text, ".")
	}
	return false
}

// parseFloat is strconv.ParseFloat, except that it refuses underscores, which numbers in Go may have but
// those in data may not.
func parseFloat(text string, bits int) (float64, error) {
	if strings.Contains(text, "_") {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(text, bits)
}

// isNumber reports whether a text is a number in full.
func isNumber(text string) bool {
	_, err := parseFloat(text, 64)
	return err == nil
}

// groupedByBlanks matches a number whose blanks can only separate thousands, as in 1 050: in a list whose
// numbers all have three digits, the first would have them, too.
var groupedByBlanks = regexp.MustCompile(`^[+-]?[1-9]\d?(?: \d{3})* 0\d{2}(?: \d{3})*$`)

// negative matches a number in parentheses, as accountants write negative ones.
var negative = regexp.MustCompile(`^\(\s*[^\s,;()]+\s*\)$`)

// words splits a text that holds a list of numbers, such as [1, 2], [1,2] or 1 2, into its parts,
// without brackets. It returns nil for a cell that is no text. The error says that the text may be one
// number, as 2,34 and 1 050 without brackets, and (5); the list is returned with it.
func (c *cell) words() (list []string, err error) {
	if c.kind != textCell {
		return nil, nil
	}
	text := strings.TrimSpace(c.text)
	inner := strings.Trim(text, "[](){}")
	list = strings.FieldsFunc(inner, func(r rune) bool { return strings.ContainsRune(", ;\t\n", r) })
	switch {
	case groupedByBlanks.MatchString(text):
		return list, fmt.Errorf(
			"%.40q has blanks between thousands; want a number without them, or a list such as [1, 2]",
			text,
		)
	case negative.MatchString(text):
		return list, fmt.Errorf("%.40q may be a negative number; want a minus sign, or a list such as [1, 2]", text)
	}
	// A comma with no blank behind it is doubtful if the text has no brackets, or other separators as
	// well: it may be a decimal comma.
	hasBrackets := inner != text
	isDoubtful := !hasBrackets || strings.ContainsAny(inner, " ;\t\n")
	for i := range len(inner) {
		blankFollows := i+1 < len(inner) && inner[i+1] <= ' '
		if isDoubtful && inner[i] == ',' && !blankFollows {
			return list, fmt.Errorf(
				"%.40q has a comma; want a number with a decimal point, or a list such as 1 2 or [1,2]",
				text,
			)
		}
	}
	return list, nil
}
