package device

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// number reads a decimal number between bounds.
func number(name, text string, low, high float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, want a number", name, text)
	}
	if !(v >= low && v <= high) {
		return 0, fmt.Errorf("%s is %s, want %g to %g", name, text, low, high)
	}
	return v, nil
}

// readRows reads a CSV file with exactly these columns and hands out each row
// with its line. The first column is a name.
func readRows(r io.Reader, what string, columns []string, row func(line int, fields []string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	in.FieldsPerRecord = len(columns)
	header, err := in.Read()
	if err == io.EOF {
		return fmt.Errorf("%s: the file is empty, want the columns %s", what, strings.Join(columns, ","))
	}
	if err != nil && !errors.Is(err, csv.ErrFieldCount) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Equal(header, columns) {
		return fmt.Errorf("%s: line 1 is %q, want the columns %s", what, strings.Join(header, ","), strings.Join(columns, ","))
	}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		line, _ := in.FieldPos(0)
		if n := len(fields[0]); n < 1 || n > maxName {
			return fmt.Errorf("%s: line %d: %s is %d bytes long, want 1 to %d", what, line, columns[0], n, maxName)
		}
		if err := row(line, fields); err != nil {
			return fmt.Errorf("%s: line %d: %w", what, line, err)
		}
	}
}
