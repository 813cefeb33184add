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

// thousands matches a number whose only comma or point may separate thousands or decimals,
// depending on the country: 1,250 or 1.250. There are one to three digits before the sign, of which
// the first is not 0, and three behind it.
var thousands = regexp.MustCompile(`^[+-]?[1-9]\d{0,2}[.,]\d{3}$`)

// decimalSigns counts how the numbers of one column of CSV write their decimals. From the counts
// decide tells whether commas are decimal signs.
type decimalSigns struct {
	// name is the name of the column.
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

// count adds the text of one cell to the counts. A text without a comma or point says nothing and
// is not counted, unless it is no number.
func (d *decimalSigns) count(text string) {
	text = strings.TrimSpace(text)
	// note counts a number and keeps the first text of its kind as an example for errors.
	note := func(counter *int, example *string) {
		*counter++
		if *example == "" {
			*example = strings.Clone(text)
		}
	}
	hasComma := strings.Contains(text, ",")
	hasPoint := strings.Contains(text, ".")
	switch {
	// Both signs in one text, or no number even with a point: other than a missing word, it is a
	// text.
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

// isNumeric reports whether the column is read as numbers: the mapping takes it for numbers, or
// each of its values is a number or missing.
func (d *decimalSigns) isNumeric() bool { return d.mustBeNumbers || d.others == 0 }

// decide reports whether the commas of the column are decimal signs. isCommaFile says that another
// column of the files has decimal commas for certain. It returns an error if the column has both
// commas and points, or if a sign may separate thousands: a guess would read the number a thousand
// times too large or too small.
func (d *decimalSigns) decide(isCommaFile bool) (isComma bool, err error) {
	switch {
	// Commas in a column of words are part of the words.
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
	// 1,250 beside 1.5 has a comma between thousands, which no reader here removes.
	case d.groupCommas > 0 && d.points+d.groupPoints > 0:
		return false, fmt.Errorf(
			"column %s has numbers with a comma, as %s, and with a point, as %s; want none between thousands",
			d.name,
			d.groupCommaText,
			cmp.Or(d.pointText, d.groupPointText),
		)
	// A doubtful 1,250 is a fraction where other numbers of the file have decimal commas.
	case d.commas > 0, d.groupCommas > 0 && isCommaFile:
		return true, nil
	// Nothing in the files tells whether 1,250 is a thousand or a fraction, so the user decides.
	case d.groupCommas > 0:
		return false, fmt.Errorf(
			"column %s has numbers such as %s, which may be thousands (want decimal: comma if the comma is a decimal "+
				"sign, else numbers without it)",
			d.name,
			d.groupCommaText,
		)
	// Among decimal commas, 1.250 may be a thousand.
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

// decimalColumns returns the set of the columns whose numbers have decimal commas, judged by all
// values of all files. columns are the columns to judge, and numeric are those of them that the
// mapping takes for numbers. The option decimal, if set, decides for all columns. Otherwise only
// CSV files whose separator is no comma can have decimal commas, and if none of them has a comma
// behind its first line, no value is parsed.
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
	// The option is not set, so the values decide.
	signs := make([]decimalSigns, len(columns))
	for i, name := range columns {
		signs[i] = decimalSigns{name: name, mustBeNumbers: slices.Contains(numeric, name)}
	}
	var candidates []*csvTable
	anyComma := false
	for _, f := range files {
		// The columns that the path gives are no numbers to judge.
		if p, ok := f.(*placedTable); ok {
			f = p.tableFile
		}
		c, ok := f.(*csvTable)
		if !ok || c.comma == ',' {
			continue
		}
		hasComma, err := c.hasComma()
		if err != nil {
			return nil, c.withFile(err)
		}
		candidates = append(candidates, c)
		anyComma = anyComma || hasComma
	}
	if !anyComma {
		return commas, nil
	}
	// A file without a comma counts, too: its words and points decide about the commas of others.
	for _, c := range candidates {
		if err := c.countSigns(signs); err != nil {
			return nil, c.withFile(err)
		}
	}
	// One certain column decides the doubtful numbers of the others.
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

// countSigns reads all rows of a file, whose separator is no comma, and counts in signs how the
// values of each column write their decimals.
func (c *csvTable) countSigns(signs []decimalSigns) error {
	in, err := c.content()
	if err != nil {
		return err
	}
	r := c.reader(in)
	// The first line has the names of the columns.
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

// hasComma reports whether the text has a comma behind its first line. A text that cannot be read
// to the end counts as one without; the error shows when its rows are read.
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
		// At the end of the text, the block is shorter and err is io.EOF.
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

// withPoint returns a taker for a column with decimal commas, which replaces the comma of each
// number by a point and hands it to take. It refuses a number with a point, which would separate
// thousands among such numbers. Other texts and values are handed on as they are.
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

// noteCommas adds a warning to about that lists the columns whose commas were read as decimal
// signs. commas is the set of these names; without any, there is no warning.
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
