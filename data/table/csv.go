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
	"strconv"
	"strings"
	"unicode/utf8"

	"fedpace/data/federated"
)

// csvTable is a CSV file whose first line names the columns. Fields may stand in
// double quotes; the separator is the one of ",", ";", tab and "|" that the first
// line has most of; lines end in LF or CRLF.
type csvTable struct {
	place
	comma  rune
	header []string
	// titled says that the first line looks like names of columns, and that a second line follows.
	titled bool
	// blank says that a column other than the first has no name.
	blank bool
}

// gzipExpansion is the largest ratio of a text to its gzip that is believed.
const gzipExpansion = 1000

// csvWindow is how much of a file decides what it is.
const csvWindow = 1 << 20

// toUTF8 is what mends a text that is not UTF-8.
const toUTF8 = "iconv -f WINDOWS-1252 -t UTF-8 mends a file of Western Europe"

// openCSV looks at the beginning of a file.
func openCSV(file place) (*csvTable, error) {
	c := &csvTable{place: file}
	in, err := c.content()
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(csvWindow)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("damaged or truncated: %w", err)
	}
	complete := err == io.EOF
	switch line, remainder, more := bytes.Cut(head, []byte("\n")); {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, errors.New("the text is UTF-16; want UTF-8")
	case len(head) == 0:
		return nil, errors.New("is empty; want a line with the names of the columns")
	case bytes.IndexByte(line, 0) >= 0:
		return nil, errors.New("line 1 is no text; want the names of the columns")
	case !more && !complete:
		return nil, fmt.Errorf("line 1 is longer than %d bytes; want the names of the columns", csvWindow)
	default:
		c.comma = separator(line)
		c.titled = more && len(bytes.TrimSpace(remainder)) > 0
	}
	r := c.reader(bytes.NewReader(head))
	r.FieldsPerRecord = 0
	fields, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", csvError(err))
	}
	for i, name := range fields {
		name = strings.TrimSpace(name)
		// The first column of a data frame is its index and may have no name.
		c.blank = c.blank || name == "" && i > 0
		c.header = append(c.header, cmp.Or(name, fmt.Sprint("column ", i+1)))
	}
	return c, c.checkHeader()
}

// separator is the one that the first line has most of outside quotes.
func separator(line []byte) rune {
	counts := map[rune]int{}
	quoted := false
	for _, b := range string(line) {
		if b == '"' {
			quoted = !quoted
		}
		if !quoted {
			counts[b]++
		}
	}
	best := ','
	for _, r := range ";\t|" {
		if counts[r] > counts[best] {
			best = r
		}
	}
	return best
}

// checkHeader holds the names of the columns to what a mapping can name.
func (c *csvTable) checkHeader() error {
	if len(c.header) > maxColumns {
		return fmt.Errorf("line 1: %d columns, want at most %d", len(c.header), maxColumns)
	}
	c.titled = c.titled && len(c.header) > 1 && !c.blank
	seen := make(map[string]bool, len(c.header))
	for i, name := range c.header {
		switch number := isNumber(name); {
		case !utf8.ValidString(name):
			return fmt.Errorf("line 1, column %d: the name %q is not UTF-8 (%s)", i+1, name, toUTF8)
		case seen[name] && number:
			return unnamed(name)
		case seen[name]:
			return fmt.Errorf("line 1, column %d: %q is the name of an earlier column, too", i+1, name)
		case number:
			c.titled = false
		}
		seen[name] = true
	}
	return nil
}

// checkNames tells names of columns from a first row of values. Names that are numbers
// count upwards.
func (c *csvTable) checkNames() error {
	previous := uint64(0)
	for _, name := range c.header {
		n, err := strconv.ParseUint(name, 10, 64)
		if isNumber(name) && (err != nil || n < previous) {
			return unnamed(name)
		}
		if err == nil {
			previous = n
		}
	}
	return nil
}

// unnamed is the error of a table without a line of names.
func unnamed(value string) error {
	return fmt.Errorf(
		"line 1 has the number %.40s where the name of a column should be; want a line of names above the values",
		value,
	)
}

// content is the text behind the byte order mark.
func (c *csvTable) content() (*bufio.Reader, error) {
	in := c.source.Content(c.reading)
	if c.source.IsGzip() {
		z, err := gzip.NewReader(bufio.NewReaderSize(in, 1<<16))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
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

// bounded fails where a gzip holds more than its size can.
type bounded struct {
	io.Reader
	remaining int64
}

// Read refuses to unpack more than a bounded multiple of what is stored.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.remaining -= int64(n)
	if b.remaining < 0 {
		return n, fmt.Errorf("damaged: more than %d times what is stored", gzipExpansion)
	}
	return n, err
}

// reader reads the table's lines with its separator. A record is valid until the next one.
func (c *csvTable) reader(in io.Reader) *csv.Reader {
	r := csv.NewReader(in)
	r.Comma = c.comma
	r.ReuseRecord = true
	r.FieldsPerRecord = len(c.header)
	return r
}

// csvError is an error of the CSV reader without its place.
func csvError(err error) error {
	if p, ok := errors.AsType[*csv.ParseError](err); ok {
		return p.Err
	}
	return err
}

// format is the word for files of this kind.
func (c *csvTable) format() string { return "csv" }

// columns are the names in the first line.
func (c *csvTable) columns() []string { return c.header }

// read goes through the file once, row by row.
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
	// of the columns in a row
	position := places(c.header)
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
			return c.broken(err, record)
		}
		if row == federated.MaxSamples {
			return fmt.Errorf("more than %d rows", federated.MaxSamples)
		}
		for i, field := range fields {
			if wanted[i].hasNames && !utf8.ValidString(record[field]) {
				line, byte := r.FieldPos(field)
				return fmt.Errorf(
					"line %d, byte %d, column %s: %.40q is not UTF-8 (%s)",
					line,
					byte,
					c.header[field],
					record[field],
					toUTF8,
				)
			}
			if err := wanted[i].take(row, cell{kind: textCell, text: record[field]}); err != nil {
				if errors.Is(err, errStop) {
					result.rows = row
					return nil
				}
				line, byte := r.FieldPos(field)
				return fmt.Errorf("line %d, byte %d, column %s: %w", line, byte, c.header[field], err)
			}
		}
	}
}

// broken says where a line is no row of the table.
func (c *csvTable) broken(err error, record []string) error {
	p, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return fmt.Errorf("damaged or truncated: %w", err)
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
