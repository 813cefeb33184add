package table

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"fedpace/data/federated"
)

// csvTable is a CSV file whose first line names the columns. Fields may stand in double quotes, and
// lines end in LF or CRLF. The separator is a comma, a semicolon, a tab or a bar, whichever the
// first line has most of.
type csvTable struct {
	openFile
	// separator is the sign between the fields: a comma, a semicolon, a tab or a bar.
	separator rune
	// header has the names of the columns; a column without a name is called "column N", from 1 on.
	header []string
	// hasTitles says that the first line looks like names of columns, and that a second line follows.
	hasTitles bool
	// hasUnnamedColumn says that a column other than the first has no name.
	hasUnnamedColumn bool
}

// gzipExpansion is the largest accepted ratio of a text's size to the size of its gzip. A file that
// unpacks to more is refused as damaged or hostile.
const gzipExpansion = 1000

// csvWindow is the number of bytes at the beginning of a file that decide its format. The first
// line must end within them.
const csvWindow = 1 << 20

// toUTF8 is the advice that errors give for a text that is not UTF-8.
const toUTF8 = "iconv -f WINDOWS-1252 -t UTF-8 mends a file of Western Europe"

// excelNote matches a first line that is no row, but tells Excel how fields are separated. A byte order mark may
// stand before it.
var excelNote = regexp.MustCompile(`(?i)^(?:\x{feff})?"?sep=.?"?\r?$`)

// openCSV reads the beginning of a file and finds its separator and the names of its columns. It
// returns an error if the first line cannot be a line of names: the file is empty, UTF-16 or
// binary, the line is longer than csvWindow bytes, or a name stands there twice.
func openCSV(file openFile) (*csvTable, error) {
	c := &csvTable{openFile: file}
	in, err := c.content()
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(csvWindow)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("damaged or truncated: %w", err)
	}
	// At the end of the file, the window holds all of it, so the first line may lack a line break.
	complete := errors.Is(err, io.EOF)
	switch line, remainder, more := bytes.Cut(head, []byte("\n")); {
	// The two byte orders of UTF-16 have their own marks.
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, errors.New("the text is UTF-16; want UTF-8")
	case len(head) == 0:
		return nil, errors.New("is empty; want a line with the names of the columns")
	// A zero byte occurs in binary files only.
	case bytes.IndexByte(line, 0) >= 0:
		return nil, errors.New("line 1 is no text; want the names of the columns")
	// Old programs of the Macintosh end lines so.
	case bytes.IndexByte(bytes.TrimSuffix(line, []byte("\r")), '\r') >= 0:
		return nil, errors.New(`line 1 has a carriage return within it; want lines that end in a line feed ` +
			`(tr '\r' '\n' < old.csv > new.csv mends a file whose lines end in it alone)`)
	case excelNote.Match(line):
		return nil, fmt.Errorf("line 1 is %q, which tells Excel the separator; want the names of the columns "+
			"(tail -n +2 old.csv > new.csv takes it away)", bytes.TrimRight(line, "\r"))
	case !more && !complete:
		return nil, fmt.Errorf("line 1 is longer than %d bytes; want the names of the columns", csvWindow)
	default:
		c.separator = separator(line)
		c.hasTitles = more && len(bytes.TrimSpace(remainder)) > 0
	}
	r := c.reader(bytes.NewReader(head))
	// The number of columns is not known yet: 0 lets the first record set it.
	r.FieldsPerRecord = 0
	fields, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", csvError(err))
	}
	for i, name := range fields {
		name = strings.TrimSpace(name)
		// The first column of a data frame is its index and may have no name.
		c.hasUnnamedColumn = c.hasUnnamedColumn || name == "" && i > 0
		c.header = append(c.header, cmp.Or(name, fmt.Sprint("column ", i+1)))
	}
	return c, c.checkHeader()
}

// separator returns the separator of a CSV file, given its first line: the one of comma, semicolon,
// tab and bar that occurs most often outside double quotes. The comma wins a draw and a line
// without any.
func separator(line []byte) rune {
	counts := map[rune]int{}
	quoted := false
	for _, b := range string(line) {
		if b == '"' {
			quoted = !quoted
		}
		// A separator within quotes belongs to a field.
		if !quoted {
			counts[b]++
		}
	}
	// Only a sign that occurs more often than the comma takes its place.
	best := ','
	for _, r := range ";\t|" {
		if counts[r] > counts[best] {
			best = r
		}
	}
	return best
}

// checkHeader returns an error if a mapping could not name the columns: there are too many, a name
// is not UTF-8, or two are equal. It also clears hasTitles where the line may be values instead of
// names: a single column, a column without a name, or a name that is a number.
func (c *csvTable) checkHeader() error {
	if len(c.header) > maxColumns {
		return fmt.Errorf("line 1: %d columns, want at most %d", len(c.header), maxColumns)
	}
	c.hasTitles = c.hasTitles && len(c.header) > 1 && !c.hasUnnamedColumn
	seen := make(map[string]bool, len(c.header))
	for i, name := range c.header {
		switch number := isNumber(name); {
		case !utf8.ValidString(name):
			return fmt.Errorf("line 1, column %d: the name %q is not UTF-8 (%s)", i+1, name, toUTF8)
		// Two equal numbers are values: the line of names is missing.
		case seen[name] && number:
			return errNumberedName(name)
		case seen[name]:
			return fmt.Errorf("line 1, column %d: %q is the name of an earlier column, too", i+1, name)
		case number:
			c.hasTitles = false
		}
		seen[name] = true
	}
	return nil
}

// checkNames returns an error if the first line has values instead of names. Names may be numbers
// only if these are whole and do not decrease from left to right, as in files whose columns are
// numbered.
func (c *csvTable) checkNames() error {
	previous := uint64(0)
	for _, name := range c.header {
		n, err := strconv.ParseUint(name, 10, 64)
		if isNumber(name) && (err != nil || n < previous) {
			return errNumberedName(name)
		}
		if err == nil {
			previous = n
		}
	}
	return nil
}

// errNumberedName returns the error for a table without a line of names, whose first line has this value.
func errNumberedName(value string) error {
	return fmt.Errorf(
		"line 1 has the number %.40s where the name of a column should be; want a line of names above the values",
		value,
	)
}

// content opens the text of the file, unpacked if it is gzip and without a byte order mark. Each call
// begins at the start of the file, so that it can be read more than once.
func (c *csvTable) content() (*bufio.Reader, error) {
	in := c.source.Content(c.reading)
	if c.source.IsGzip() {
		z, err := gzip.NewReader(bufio.NewReaderSize(in, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		// Small files may expand by more than the ratio, so 64 MiB are always allowed.
		in = &bounded{z, 64<<20 + c.source.Size*gzipExpansion}
	}
	text := bufio.NewReaderSize(in, csvWindow)
	// The error is not lost: the next read returns it again.
	if mark, _ := text.Peek(3); string(mark) == "\xef\xbb\xbf" {
		if _, err := text.Discard(3); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// bounded is a reader of unpacked text that fails once it has returned more bytes than its packed
// size makes plausible.
type bounded struct {
	// Reader is where the unpacked text comes from.
	io.Reader
	// remaining is the number of bytes that may still be returned.
	remaining int64
}

// Read reads from the reader within and counts its bytes. It returns an error as soon as more bytes
// came than were allowed, which protects from files that unpack to a vast size.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.remaining -= int64(n)
	if b.remaining < 0 {
		return n, fmt.Errorf("damaged: more than %d times what is stored", gzipExpansion)
	}
	return n, err
}

// reader returns a CSV reader of in with the table's separator, which expects as many fields as the
// header has. It reuses its memory: a record is valid only until the next one is read.
func (c *csvTable) reader(in io.Reader) *csv.Reader {
	r := csv.NewReader(in)
	r.Comma = c.separator
	r.ReuseRecord = true
	r.FieldsPerRecord = len(c.header)
	return r
}

// csvError returns an error of the CSV reader without the line and column that it names; any other error is
// returned as it is.
func csvError(err error) error {
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		return p.Err
	}
	return err
}

// format returns the word for files of this kind.
func (c *csvTable) format() string { return "csv" }

// columns returns the names in the first line.
func (c *csvTable) columns() []string { return c.header }

// read goes through the file once and hands the wanted columns of each row to their takers, as
// texts. The rows are numbered on from result.rows, which it advances. A taker's errStop ends the
// reading without an error. Other errors name the line, the byte and the column.
func (c *csvTable) read(wanted []column, result *reading) error {
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
	// fields has the index of each wanted column in a record.
	fields := make([]int, len(wanted))
	for i, wantedColumn := range wanted {
		fields[i] = position[wantedColumn.name]
	}
	for row := result.rows; ; row++ {
		record, err := r.Read()
		if err == io.EOF {
			result.rows = row
			return nil
		}
		if err != nil {
			return c.rowError(err, record)
		}
		if row == federated.MaxSamples {
			return fmt.Errorf("more than %d rows", federated.MaxSamples)
		}
		for i, field := range fields {
			// Names are shown in reports, so their texts must be UTF-8.
			if wanted[i].hasNames && !utf8.ValidString(record[field]) {
				line, position := r.FieldPos(field)
				return fmt.Errorf(
					"line %d, byte %d, column %s: %.40q is not UTF-8 (%s)",
					line,
					position,
					c.header[field],
					record[field],
					toUTF8,
				)
			}
			if err := wanted[i].take(row, cell{kind: textCell, text: record[field]}); err != nil {
				// No taker needs this row or any further one.
				if errors.Is(err, errStop) {
					result.rows = row
					return nil
				}
				line, position := r.FieldPos(field)
				return fmt.Errorf("line %d, byte %d, column %s: %w", line, position, c.header[field], err)
			}
		}
	}
}

// rowError returns the error for a line that is no row of the table. err is the CSV reader's error
// and record what it read of the row. The result names the line and the byte, and the first line of
// the row where a quoted field spans several.
func (c *csvTable) rowError(err error, record []string) error {
	p, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return fmt.Errorf("damaged or truncated: %w", err)
	// A wrong number of fields is reported with both numbers.
	case errors.Is(p.Err, csv.ErrFieldCount):
		return fmt.Errorf("line %d: %d fields, and line 1 names %d columns", p.StartLine, len(record), len(c.header))
	case p.StartLine != p.Line:
		return fmt.Errorf(
			"line %d, byte %d: %w, in the row that begins in line %d",
			p.Line,
			p.Column,
			p.Err,
			p.StartLine,
		)
	}
	return fmt.Errorf("line %d, byte %d: %w", p.Line, p.Column, p.Err)
}
