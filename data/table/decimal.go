package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"fedpace/data/federated"
)

// The words of the option decimal.
const (
	decimalPoint = "point"
	decimalComma = "comma"
)

// thousands is a number of one group of three digits behind a sign that separates thousands in some
// countries and decimals in others: 1,250 or 1.250. A number does not begin with a group of zeros.
var thousands = regexp.MustCompile(`^[+-]?[1-9]\d{0,2}[.,]\d{3}$`)

// decimalSigns counts how the numbers of a column of CSV write their decimals.
type decimalSigns struct {
	name string
	// commas and points count the numbers that can only have such a decimal sign, each with the first
	// example.
	commas, points       int
	commaText, pointText string
	// groupCommas and groupPoints count numbers such as 1,250 and 1.250, of which the sign may separate
	// thousands.
	groupCommas, groupPoints       int
	groupCommaText, groupPointText string
	// others counts the texts that are no number in either way, nor missing.
	others int
	// mustBeNumbers says that the mapping takes the column for numbers, whatever else it has.
	mustBeNumbers bool
}

// count notes how a text writes its decimals.
func (d *decimalSigns) count(text string) {
	text = strings.TrimSpace(text)
	note := func(counter *int, example *string) {
		*counter++
		if *example == "" {
			*example = strings.Clone(text)
		}
	}
	hasComma := strings.Contains(text, ",")
	hasPoint := strings.Contains(text, ".")
	switch {
	case hasComma && hasPoint, !isNumber(strings.Replace(text, ",", ".", 1)):
		if !slices.Contains(missingWords, strings.ToLower(text)) {
			d.others++
		}
	case hasComma && thousands.MatchString(text):
		note(&d.groupCommas, &d.groupCommaText)
	case hasComma:
		note(&d.commas, &d.commaText)
	case hasPoint && thousands.MatchString(text):
		note(&d.groupPoints, &d.groupPointText)
	case hasPoint:
		note(&d.points, &d.pointText)
	}
}

// isNumeric reports whether the column has numbers: by the mapping, or by all its values.
func (d *decimalSigns) isNumeric() bool { return d.mustBeNumbers || d.others == 0 }

// decide reports whether the column has decimal commas. isCommaFile says that another column of the
// files has some for certain. It fails where the values contradict one another, and where a sign may
// separate thousands: a number would be read a thousand times too large or too small.
func (d *decimalSigns) decide(isCommaFile bool) (isComma bool, err error) {
	switch {
	case !d.isNumeric():
		return false, nil
	case d.commas > 0 && d.points+d.groupPoints > 0:
		return false, fmt.Errorf(
			"column %s has numbers with a comma, as %s, and with a point, as %s; want one decimal sign, and none "+
				"between thousands",
			d.name,
			d.commaText,
			cmp.Or(d.pointText, d.groupPointText),
		)
	case d.groupCommas > 0 && d.points+d.groupPoints > 0:
		return false, fmt.Errorf(
			"column %s has numbers with a comma, as %s, and with a point, as %s; want none between thousands",
			d.name,
			d.groupCommaText,
			cmp.Or(d.pointText, d.groupPointText),
		)
	case d.commas > 0, d.groupCommas > 0 && isCommaFile:
		return true, nil
	case d.groupCommas > 0:
		return false, fmt.Errorf(
			"column %s has numbers such as %s, which may be thousands (want decimal: comma if the comma is a decimal "+
				"sign, else numbers without it)",
			d.name,
			d.groupCommaText,
		)
	case d.groupPoints > 0 && d.points == 0 && isCommaFile:
		return false, fmt.Errorf(
			"column %s has numbers such as %s, which may be thousands, as other columns have decimal commas (want "+
				"numbers without a sign between thousands)",
			d.name,
			d.groupPointText,
		)
	}
	return false, nil
}

// decimalColumns finds which of some columns have decimal commas, from all values of all files. Files
// whose fields are separated by commas have decimal points, unless the option decimal says otherwise, and
// so do files of other formats. numeric are the columns that the mapping takes for numbers.
func (t *Table) decimalColumns(files []tableFile, columns, numeric []string) (commas map[string]bool, err error) {
	commas = map[string]bool{}
	switch t.Decimal {
	case decimalPoint:
		return commas, nil
	case decimalComma:
		for _, name := range columns {
			commas[name] = true
		}
		return commas, nil
	}
	signs := make([]decimalSigns, len(columns))
	for i, name := range columns {
		signs[i] = decimalSigns{name: name, mustBeNumbers: slices.Contains(numeric, name)}
	}
	for _, f := range files {
		if p, ok := f.(*placedTable); ok {
			f = p.tableFile
		}
		if c, ok := f.(*csvTable); ok && c.comma != ',' {
			if err := c.countSigns(signs); err != nil {
				return nil, c.withFile(err)
			}
		}
	}
	isCommaFile := slices.ContainsFunc(signs, func(d decimalSigns) bool { return d.isNumeric() && d.commas > 0 })
	for i := range signs {
		isComma, err := signs[i].decide(isCommaFile)
		if err != nil {
			return nil, err
		}
		if isComma {
			commas[signs[i].name] = true
		}
	}
	return commas, nil
}

// countSigns notes how the numbers of columns write their decimals, over all rows. A file without any
// comma is not parsed.
func (c *csvTable) countSigns(signs []decimalSigns) error {
	hasComma, err := c.hasComma()
	if err != nil || !hasComma {
		return err
	}
	in, err := c.content()
	if err != nil {
		return err
	}
	r := c.reader(in)
	if _, err := r.Read(); err != nil {
		return err
	}
	position := places(c.header)
	for {
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.broken(err, record)
		}
		for i := range signs {
			if field, ok := position[signs[i].name]; ok {
				signs[i].count(record[field])
			}
		}
	}
}

// hasComma reports whether the text has a comma behind its first line.
func (c *csvTable) hasComma() (bool, error) {
	in, err := c.content()
	if err != nil {
		return false, err
	}
	// A damaged text is for the reading to complain of, which knows the line.
	if _, err := in.ReadSlice('\n'); err != nil {
		return false, nil
	}
	for {
		block, err := in.Peek(1 << 16)
		if bytes.IndexByte(block, ',') >= 0 {
			return true, nil
		}
		if err != nil {
			return false, nil
		}
		if _, err := in.Discard(len(block)); err != nil {
			return false, nil
		}
	}
}

// withPoint is a taker that reads the texts of a column with decimal commas: a number gets a point in the
// place of its comma. A point among such numbers separates thousands, and is refused.
func withPoint(take taker) taker {
	return func(row int, c cell) error {
		if c.kind != textCell {
			return take(row, c)
		}
		text := strings.TrimSpace(c.text)
		switch {
		case strings.Count(text, ",") == 1 && isNumber(strings.Replace(text, ",", ".", 1)):
			c.text = strings.Replace(text, ",", ".", 1)
		case strings.Contains(text, ".") && isNumber(text):
			return fmt.Errorf("%.40q has a point among numbers with decimal commas; want no sign between thousands", text)
		}
		return take(row, c)
	}
}

// noteCommas says in which columns commas were read as decimal signs.
func noteCommas(about *federated.Info, columns []column, commas map[string]bool) {
	var found []string
	for _, c := range columns {
		if commas[c.name] {
			found = append(found, c.name)
		}
	}
	if found != nil {
		about.AddWarning("decimal commas in the columns %s", federated.ShortList(found))
	}
}
