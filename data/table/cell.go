package table

import (
	"errors"
	"fmt"
	"math"
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

// errStop is what a taker returns that needs no further row.
var errStop = errors.New("enough rows")

// errMissing reports that a row has no value.
var errMissing = errors.New("no value (missing: drop leaves out the rows without one)")

// missingWords are the texts that stand for a number that is missing.
var missingWords = []string{"", "na", "n/a", "nan", "null", "none", "?"}

// name returns the value as the name of a client, class or part, without surrounding blanks. It returns
// "" for a missing value, NaN and an empty text.
func (c *cell) name() string {
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

// canonicalName writes a whole number without a fraction of zeros, as one program writes 1 and
// another 1.0: both are one client, and one class.
func canonicalName(name string) string {
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
	if _, err := strconv.ParseInt(whole, 10, 64); err != nil {
		return name
	}
	return whole
}

// number returns the value as a number that is finite as float32. It fails with errMissing for a missing
// value, NaN and the missingWords, and with another error for what is not such a number.
func (c *cell) number() (float64, error) {
	x := c.real
	switch c.kind {
	case missingCell:
		return 0, errMissing
	case wholeCell:
		x = float64(c.integer)
	case textCell, bytesCell:
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

// fitsFloat32 reports whether a value is finite as float32, which models take.
func fitsFloat32(x float64) bool { return !math.IsInf(float64(float32(x)), 0) && !math.IsNaN(x) }

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
	case strings.Count(text, ",") == 1 && isNumber(strings.Replace(text, ",", ".", 1)):
		return 0, fmt.Errorf("%.40q has a comma; want a number with a decimal point", text)
	}
	return 0, fmt.Errorf("%.40q is not a number", text)
}

// isFraction reports whether a number is written with a decimal point, or of a floating-point type.
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

// words returns the numbers of a list that is written as a text: [1, 2], [1,2] or 1 2. Another
// comma without a blank behind it may be that of a decimal number.
func (c *cell) words() (list []string, err error) {
	if c.kind != textCell {
		return nil, nil
	}
	text := strings.TrimSpace(c.text)
	inner := strings.Trim(text, "[](){}")
	list = strings.FieldsFunc(inner, func(r rune) bool { return strings.ContainsRune(", ;\t\n", r) })
	// A comma with no blank behind it is doubtful if the text has no brackets, or other separators as
	// well: it may be a decimal comma.
	for i := range len(inner) {
		if inner[i] == ',' &&
			(i+1 == len(inner) || inner[i+1] > ' ') &&
			(inner == text || strings.ContainsAny(inner, " ;\t\n")) {
			return list, fmt.Errorf(
				"%.40q has a comma; want a number with a decimal point, or a list such as 1 2 or [1,2]",
				text,
			)
		}
	}
	return list, nil
}
