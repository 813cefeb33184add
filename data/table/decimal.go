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
	"fedpace/internal/names"
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

// grouped matches a number whose points can only separate thousands: 1.052,95 or 1.234.567.
var grouped = regexp.MustCompile(`^[+-]?[1-9]\d{0,2}(\.\d{3})+,\d*$|^[+-]?[1-9]\d{0,2}(\.\d{3}){2,}$`)

// groupedByCommas matches a number whose commas can only separate thousands: 1,052.95.
var groupedByCommas = regexp.MustCompile(`^[+-]?[1-9]\d{0,2}(,\d{3})+\.\d*$`)

// decimalSigns counts how the numbers of one column of CSV write their decimals. From the counts
// decide tells whether commas are decimal signs.
type decimalSigns struct {
	// name is the name of the column.
	name string
	// decimalCommas and decimalPoints count the numbers of which this sign can only be the decimal sign, such as 3,25
	// and 3.25, each with the first example.
	decimalCommas, decimalPoints       int
	decimalCommaText, decimalPointText string
	// doubtfulCommas and doubtfulPoints count numbers such as 1,250 and 1.250, of which the sign may as well separate
	// thousands.
	doubtfulCommas, doubtfulPoints       int
	doubtfulCommaText, doubtfulPointText string
	// thousandsPoints counts numbers such as 1.052,95 and 1.234.567, of which points can only separate thousands.
	thousandsPoints    int
	thousandsPointText string
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
	// Its points can only separate thousands, as in 1.052,95.
	case grouped.MatchString(text):
		note(&d.thousandsPoints, &d.thousandsPointText)
	// Any other text with both signs, or one that is no number even with a point for its comma, is a word
	// or a text. It does not count if it stands for a missing value.
	case hasComma && hasPoint, !isNumber(strings.Replace(text, ",", ".", 1)):
		if !slices.Contains(missingWords, strings.ToLower(text)) {
			d.others++
		}
	// The only sign of 1,250 or 1.250 may be either.
	case hasComma && thousands.MatchString(text):
		note(&d.doubtfulCommas, &d.doubtfulCommaText)
	case hasComma:
		note(&d.decimalCommas, &d.decimalCommaText)
	case hasPoint && thousands.MatchString(text):
		note(&d.doubtfulPoints, &d.doubtfulPointText)
	case hasPoint:
		note(&d.decimalPoints, &d.decimalPointText)
	}
}

// isNumeric reports whether the column is read as numbers: the mapping takes it for numbers, or
// each of its values is a number or missing.
func (d *decimalSigns) isNumeric() bool { return d.mustBeNumbers || d.others == 0 }

// fileSigns is what the numbers of all columns of all files say about each other's decimals.
type fileSigns struct {
	// hasCertainComma, hasThousandsPoints and hasCertainPoint say that a column has numbers with a certain decimal
	// comma, with points that can only separate thousands, and with a certain decimal point.
	hasCertainComma, hasThousandsPoints, hasCertainPoint bool
	// hasSemicolons says that the fields are separated by semicolons, as programs write them in countries
	// with a decimal comma.
	hasSemicolons bool
}

// decide reports whether the commas of the column are decimal signs, and its points separate
// thousands. all is what the columns of all files have. It returns an error if the column has both
// signs as decimals, or if a sign may separate thousands: a guess would read the number a thousand
// times too large or too small.
//
// 3,25 and 1.052,95 have a certain decimal comma, and 3.25 a certain decimal point. 1,250 and 1.250 are doubtful:
// the other numbers of the column decide, then those of the other columns.
func (d *decimalSigns) decide(all fileSigns) (isComma bool, err error) {
	certainCommas := d.decimalCommas + d.thousandsPoints
	switch {
	// Commas in a column of words are part of the words.
	case !d.isNumeric():
		return false, nil
	case certainCommas > 0 && d.decimalPoints > 0:
		return false, fmt.Errorf(
			"column %s has numbers with a comma, as %s, and with a point, as %s; want one decimal sign",
			d.name,
			cmp.Or(d.decimalCommaText, d.thousandsPointText),
			d.decimalPointText,
		)
	// 1,250 beside 1.5 has a comma between thousands, which no reader here removes.
	case d.doubtfulCommas > 0 && certainCommas == 0 && d.decimalPoints+d.doubtfulPoints > 0:
		return false, fmt.Errorf(
			"column %s has numbers with a comma, as %s, and with a point, as %s; want none between thousands",
			d.name,
			d.doubtfulCommaText,
			cmp.Or(d.decimalPointText, d.doubtfulPointText),
		)
	// A doubtful 1,250 is a fraction where other numbers of the file have decimal commas.
	case certainCommas > 0, d.doubtfulCommas > 0 && all.hasCertainComma:
		return true, nil
	// Nothing in the files tells whether 1,250 is a thousand or a fraction, so the user decides.
	case d.doubtfulCommas > 0:
		return false, fmt.Errorf(
			"column %s has numbers such as %s, which may be thousands (want decimal: comma if the comma is a decimal "+
				"sign, else numbers without it)",
			d.name,
			d.doubtfulCommaText,
		)
	case d.doubtfulPoints == 0 || d.decimalPoints > 0:
		return false, nil
	// A doubtful 1.250 is a thousand where other columns have points between thousands alone.
	case all.hasThousandsPoints && !all.hasCertainPoint:
		return true, nil
	// Among decimal commas, 1.250 may be a thousand.
	case all.hasCertainComma:
		return false, fmt.Errorf(
			"column %s has numbers such as %s, which may be thousands, as other columns have decimal commas (want "+
				"decimal: comma if the point separates thousands, else numbers with a decimal comma)",
			d.name,
			d.doubtfulPointText,
		)
	}
	return false, nil
}

// isDoubtful reports whether the points of the column, as in 750 and 2.229, may be decimal signs or separate
// thousands: semicolons separate the fields, and nothing in any file is certain. Such points are read as decimal
// signs, with a warning.
func (d *decimalSigns) isDoubtful(all fileSigns) bool {
	isCertain := all.hasCertainComma || all.hasCertainPoint || all.hasThousandsPoints
	isAmbiguous := d.isNumeric() && d.doubtfulPoints > 0
	return all.hasSemicolons && !isCertain && isAmbiguous
}

// decimals says how the numbers of the columns of files are written.
type decimals struct {
	// commas has the columns with decimal commas, whose points separate thousands.
	commas map[string]bool
	// thousands has an example for each column of which points were taken for signs between thousands
	// because of its values, in the order of the columns.
	thousands []decimalSigns
	// doubtful has the columns whose points are read as decimal signs, but may separate thousands.
	doubtful []decimalSigns
	// hasCertainPoint says that a column has numbers of which the point can only be a decimal one.
	hasCertainPoint bool
}

// decimalColumns tells in which of the columns commas are decimal signs (d.commas), and notes what the user may
// want to check (see decimals), judged by all values of all files.
// columns are the columns to judge, and numeric are those of them that the mapping takes for numbers.
// The option decimal, if set, decides for all columns. Otherwise only CSV files whose separator is no
// comma can have decimal commas. If none of them has a comma behind its first line, nor a point where
// semicolons separate the fields, no value is parsed.
func (t *Table) decimalColumns(files []tableFile, columns, numeric []string) (d decimals, err error) {
	d.commas = map[string]bool{}
	switch t.Decimal {
	case decimalPoint:
		return d, nil
	case decimalComma:
		for _, name := range columns {
			d.commas[name] = true
		}
		return d, nil
	}
	// The option is not set, so the values decide.
	candidates, semicolons, err := withDecimalCommas(files)
	if err != nil || candidates == nil {
		return d, err
	}
	signs := make([]decimalSigns, len(columns))
	for i, name := range columns {
		signs[i] = decimalSigns{name: name, mustBeNumbers: slices.Contains(numeric, name)}
	}
	for _, c := range candidates {
		if err := c.countSigns(signs); err != nil {
			return d, c.withFile(err)
		}
	}
	// One certain column decides the doubtful numbers of the others.
	all := fileSigns{hasSemicolons: semicolons}
	for i := range signs {
		s := &signs[i]
		if s.isNumeric() {
			all.hasCertainComma = all.hasCertainComma || s.decimalCommas+s.thousandsPoints > 0
			all.hasThousandsPoints = all.hasThousandsPoints || s.thousandsPoints > 0
			all.hasCertainPoint = all.hasCertainPoint || s.decimalPoints > 0
		}
	}
	d.hasCertainPoint = all.hasCertainPoint
	for _, s := range signs {
		isComma, err := s.decide(all)
		if err != nil {
			return d, err
		}
		if isComma {
			d.commas[s.name] = true
		}
		if isComma && s.thousandsPoints+s.doubtfulPoints > 0 {
			d.thousands = append(d.thousands, s)
		}
		if s.isDoubtful(all) {
			d.doubtful = append(d.doubtful, s)
		}
	}
	return d, nil
}

// withDecimalCommas returns the CSV files whose fields are not separated by commas, so that their numbers may have
// decimal commas. It returns all of them, since the numbers of one file decide about those of another, or none if no
// such file has a sign to decide about: a comma behind its first line or, where semicolons separate the fields, a
// point. semicolons says that semicolons separate the fields of at least one file.
func withDecimalCommas(files []tableFile) (candidates []*csvTable, semicolons bool, err error) {
	anySign := false
	for _, f := range files {
		// The columns that the path gives are no numbers to judge.
		if p, ok := f.(*placedTable); ok {
			f = p.tableFile
		}
		c, ok := f.(*csvTable)
		if !ok || c.separator == ',' {
			continue
		}
		signs := ","
		if c.separator == ';' {
			signs = ",."
			semicolons = true
		}
		hasSign, err := c.hasAny(signs)
		if err != nil {
			return nil, false, c.withFile(err)
		}
		candidates = append(candidates, c)
		anySign = anySign || hasSign
	}
	if !anySign {
		return nil, semicolons, nil
	}
	return candidates, semicolons, nil
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
	position := positions(c.header)
	for {
		record, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.rowError(err, record)
		}
		for i := range signs {
			if field, ok := position[signs[i].name]; ok {
				signs[i].count(record[field])
			}
		}
	}
}

// hasAny reports whether the text has one of the signs behind its first line. A text that cannot be
// read to the end counts as one without; the error shows when its rows are read.
func (c *csvTable) hasAny(signs string) (bool, error) {
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
		if bytes.ContainsAny(block, signs) {
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
// number by a point and hands it to take. Points between groups of three digits, as in 1.052,95 and
// 2.229, are removed; any other point is refused. Other texts and values are handed on as they are.
func withPoint(take taker) taker {
	return func(row int, c cell) error {
		if c.kind != textCell {
			return take(row, c)
		}
		text := strings.TrimSpace(c.text)
		if thousands.MatchString(text) || grouped.MatchString(text) {
			text = strings.ReplaceAll(text, ".", "")
			c.text = text
		}
		switch {
		case strings.Count(text, ",") == 1 && isNumber(strings.Replace(text, ",", ".", 1)):
			c.text = strings.Replace(text, ",", ".", 1)
		case strings.Contains(text, ".") && isNumber(text):
			return fmt.Errorf(
				"%.40q has a point among numbers with decimal commas; want points only between thousands, as in 1.250",
				text,
			)
		}
		return take(row, c)
	}
}

// keepDoubts drops the doubtful columns of which isNumbers does not say that they are read as numbers.
func (d *decimals) keepDoubts(isNumbers func(name string) bool) {
	d.doubtful = slices.DeleteFunc(d.doubtful, func(s decimalSigns) bool { return !isNumbers(s.name) })
}

// note adds warnings to about that list which of columns were read with decimal commas, and with
// points between thousands or with doubtful points.
func (d *decimals) note(about *federated.Info, columns []string) {
	found := slices.DeleteFunc(columns, func(name string) bool { return !d.commas[name] })
	if len(found) > 0 {
		about.AddWarning("decimal commas in the columns %s", federated.ShortList(found))
	}
	if d.thousands != nil {
		about.AddWarning(
			"points between thousands, as in %s",
			federated.ShortList(names.Of(d.thousands, exampleOfThousands)),
		)
	}
	if len(d.doubtful) > 0 {
		about.AddWarning("%s", d.doubt())
	}
}

// doubt says how the points of the doubtful columns are read, how else they could be, and which option
// decides it. It is empty where there are none.
func (d *decimals) doubt() string {
	if len(d.doubtful) == 0 {
		return ""
	}
	readings := names.Of(d.doubtful, func(s decimalSigns) string {
		return fmt.Sprintf(
			"column %s has %s, or is it %s",
			shown(s.name),
			s.doubtfulPointText,
			strings.ReplaceAll(s.doubtfulPointText, ".", ""),
		)
	})
	return "points are read as decimal signs, but may separate thousands (" + federated.ShortList(readings) +
		"?): set decimal: comma if they do, else decimal: point"
}

// exampleOfThousands returns the name of the column with a number whose points separate thousands.
func exampleOfThousands(s decimalSigns) string {
	return shown(s.name) + " " + cmp.Or(s.thousandsPointText, s.doubtfulPointText)
}
